"""The proof that machines are gone, from repeated looks at their provider's list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

QUIET_S = 40.0
"""How long a list may lack machines that run: one look at it proves nothing."""
DROPPED_S = 4.0
"""How long it has to lack machines of which it said before that they were about to end."""
LOOKS = 3
"""The fewest looks that prove anything."""

_Moment = tuple[float, float]
"""Times of the question to a provider and of its answer, in s."""


class Disappearance:
    """Evidence from a provider's lists that machines are gone.

    A machine is gone if a list shows it ending and a later list lacks it, or if for `QUIET_S` no
    list shows it running. A running machine refutes earlier evidence.

    Args:
        ids: known ids of the machines.
        quiet_s: in place of `QUIET_S`.
        dropped_s: in place of `DROPPED_S`.
    """

    def __init__(
        self, ids: Iterable[str] = (), quiet_s: float = QUIET_S, dropped_s: float = DROPPED_S
    ) -> None:
        self.ids = set(ids)
        """Ids of the machines, including all that were ever listed."""
        self.running: frozenset[str] = frozenset()
        """By the last look."""
        self._quiet_s = quiet_s
        self._dropped_s = dropped_s
        self._ending: set[str] = set()
        """Listed as about to end, and never as running since."""
        self._quiet: list[_Moment] = []
        """Moments of the looks since one last ran."""
        self._absent: list[_Moment] = []
        """Moments of the looks since one was last listed."""

    def look(self, listed: Mapping[str, bool], asked_s: float, answered_s: float) -> None:
        """Add the provider's list of a moment between the question and its answer.

        Args:
            listed: whether each machine on it runs, by its id.
            asked_s: time of the question to the provider.
            answered_s: time of the answer, by the same clock.
        """
        moment = asked_s, answered_s
        self.ids |= set(listed)
        self.running = frozenset(id for id, runs in listed.items() if runs)
        self._ending = (self._ending | set(listed)) - self.running
        self._quiet = [] if self.running else [*self._quiet, moment]
        self._absent = [] if listed else [*self._absent, moment]

    @property
    def proved(self) -> bool:
        """Whether all are gone."""
        if self.ids and self.ids <= self._ending and _lasted(self._absent, self._dropped_s):
            return True
        return _lasted(self._quiet, self._quiet_s)


def _lasted(moments: list[_Moment], seconds: float) -> bool:
    if len(moments) < LOOKS:
        return False
    (_, first_answered_s), (last_asked_s, _) = moments[0], moments[-1]
    return last_asked_s - first_answered_s >= seconds
