"""Duet: two runs whose rounds were measured in pairs on one machine."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Frozen

Side = Literal["baseline", "candidate"]


class Duet(Frozen):
    """One run's part in a comparison of two sides, measured a round of each in turn.

    Rounds of one number, of one cell, are a pair: they were measured one right after the other.
    """

    side: Side
    """The ``baseline`` is what the ``candidate`` is compared with."""
    partner: str
    """Id of the other side's run."""
    commit: str
    """The commit whose code the baseline ran."""

    @property
    def words(self) -> str:
        """The part in words, for a reader of this side alone."""
        code = (
            f"{self.side}, of commit {self.commit[:12]}" if self.side == "baseline" else self.side
        )
        return f"{code}, measured in pairs with {self.partner}"

    def is_partner_of(self, own_id: str, other: Duet | None, other_id: str) -> bool:
        """Whether another run is the other side of this one.

        Args:
            own_id: id of this run.
            other: the other run's part; None for a run that has none.
            other_id: id of the other run.
        """
        return (
            other is not None
            and {self.side, other.side} == {"baseline", "candidate"}
            and (self.partner, other.partner) == (other_id, own_id)
            and self.commit == other.commit
        )
