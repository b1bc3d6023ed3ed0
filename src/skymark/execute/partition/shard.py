"""The part of a plan that one worker takes: cells that stay together are one item of a split."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from skymark.execute.partition.split import MOST_WORKERS, Balanced, Part, Split
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.plan import PlannedCell


class Item(Frozen):
    """The cells of one shard key, which stay on one machine."""

    key: str
    cells: int
    expected_s: float | None
    """Of one round of all of them; None where one of them has no guess."""


class Shard(Frozen):
    """One worker's part of a plan: its number in a split, from 0."""

    split: Split
    number: int = Field(ge=0)

    @classmethod
    def of(cls, index: int, count: int) -> Shard:
        """Return one of `count` parts with as many cells each as their keys allow."""
        return cls(split=Balanced(workers=count), number=index)

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``0/2``: the first of two.

        Raises:
            UsageError: it is not INDEX/COUNT with 0 ≤ INDEX < COUNT.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
        if match is None or not int(match[1]) < int(match[2]) <= MOST_WORKERS:
            raise UsageError(f"--shard {text!r} must be INDEX/COUNT, such as 0/2 and 1/2")
        return cls.of(int(match[1]), int(match[2]))

    def take(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """Return this part of a whole plan's cells; all parts are the whole, each cell once.

        Give all of them, those too that cannot run or are done: a worker that is started again
        takes the same part.
        """
        found = items_of(cells)
        numbers = parts_of(self.split, found)[self.number].items
        keys = {found[number - 1].key for number in numbers}
        return tuple(planned for planned in cells if planned.shard_key in keys)


def parts_of(split: Split, items: Sequence[Item]) -> tuple[Part, ...]:
    """Return the parts of all workers."""
    return split.parts(weights_of(split, items))


def items_of(cells: Sequence[PlannedCell]) -> list[Item]:
    """Return what a split divides: the shard keys of a plan, in its order."""
    found: dict[str, list[PlannedCell]] = {}
    for planned in cells:
        found.setdefault(planned.shard_key, []).append(planned)
    return [
        Item(key=key, cells=len(members), expected_s=_expected_s(members))
        for key, members in found.items()
    ]


def weights_of(split: Split, items: Sequence[Item]) -> list[float]:
    """Return the weight of each item: its time where the split weighs that and it is known of all.

    Where the time of one item is not known, all are weighed by their cells.
    """
    times = [item.expected_s for item in items if item.expected_s is not None]
    if split.weighs == "time" and len(times) == len(items):
        return times
    return [float(item.cells) for item in items]


def _expected_s(members: Sequence[PlannedCell]) -> float | None:
    guesses = [one.guess.expected_s for one in members if one.guess is not None]
    return sum(guesses) if len(guesses) == len(members) else None
