"""One worker's part of a plan, and the mapping from ranks to workers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from skymark.execute.partition.split import (
    MOST_WORKERS,
    Part,
    Split,
    WorkerPlace,
    WorkerType,
    read_split,
)
from skymark.execute.ranks.rank import ALONE, Rank, ReplicaRank
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.plan import PlannedCell


class Item(Frozen):
    """The cells of one shard key, which stay on one machine."""

    key: str
    cells: int
    expected_s: float | None
    """Time of one round of all cells; None if a cell has no guess."""


class Shard(Frozen):
    """One worker's part of a plan: its number in a split, from 0."""

    split: Split
    number: int = Field(ge=0)

    @classmethod
    def of(cls, index: int, count: int) -> Shard:
        """Return one of `count` parts with equally many cells, as nearly as their keys allow."""
        return cls(split=Split.alike("balanced", count), number=index)

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
        """Return this part of a whole plan's cells; each cell is in exactly one part.

        Pass all cells, including finished cells and cells that cannot run, so that a restarted
        worker takes the same part.
        """
        found = items_of(cells)
        numbers = parts_of(self.split, found)[self.number].items
        keys = {found[number - 1].key for number in numbers}
        return tuple(planned for planned in cells if planned.shard_key in keys)


def parts_of(split: Split, items: Sequence[Item]) -> tuple[Part, ...]:
    """Return the parts of all workers."""
    return split.parts(weights_of(split, items))


def items_of(cells: Sequence[PlannedCell]) -> list[Item]:
    """Return the items that a split divides: the shard keys of a plan, in its order."""
    found: dict[str, list[PlannedCell]] = {}
    for planned in cells:
        found.setdefault(planned.shard_key, []).append(planned)
    return [
        Item(key=key, cells=len(members), expected_s=_expected_s(members))
        for key, members in found.items()
    ]


def weights_of(split: Split, items: Sequence[Item]) -> list[float]:
    """Return the weight of each item: its time or its number of cells.

    The weight is the time only if the split uses times and all items have one.
    """
    times = [item.expected_s for item in items if item.expected_s is not None]
    if split.weighs == "time" and len(times) == len(items):
        return times
    return [float(item.cells) for item in items]


def _expected_s(members: Sequence[PlannedCell]) -> float | None:
    guesses = [one.guess.expected_s for one in members if one.guess is not None]
    return sum(guesses) if len(guesses) == len(members) else None


def shard_of(text: str, rank: Rank) -> Shard:
    """Return the part of a split that a rank takes.

    Args:
        text: value of ``--split``; without a number of workers, the rank's count applies.
        rank: rank of this process.

    Raises:
        UsageError: split and rank contradict each other; the message names both.
    """
    split = read_split(text, rank.count)
    if isinstance(rank, ReplicaRank):
        return Shard(split=split, number=split.places.index(_place_of_pod(split, rank)))
    count = len(split.places)
    if rank is ALONE and count > 1:
        raise UsageError(
            f"--split {split.text} has {count} workers, and {rank.source}: the number of this "
            f"worker is unknown; give --rank I/{count}"
        )
    if rank.count is not None and rank.count != count:
        raise _contradiction(split, rank, f"the split has {count} workers, and {rank.count} run")
    if rank.index >= count:
        raise _contradiction(split, rank, f"the split has {count} workers, from 0 to {count - 1}")
    return Shard(split=split, number=rank.index)


def _place_of_pod(split: Split, rank: ReplicaRank) -> WorkerPlace:
    """Return the place of a pod, by its replica and, if the split has several types, its type."""
    if len(split.types) > 1:
        return _place_in(split, _type_of(split, rank), rank, rank.job, rank.replicas)
    (only,) = split.types
    if only.completions == 1 and rank.count == 1:
        # One replica, whose completions are the workers.
        if rank.completion >= only.count:
            raise _contradiction(split, rank, f"the split has {only.count} workers")
        return WorkerPlace(type=only.name, index=rank.completion)
    return _place_in(split, only, rank, rank.index, rank.count)


def _type_of(split: Split, rank: ReplicaRank) -> WorkerType:
    found = [one for one in split.types if one.name == rank.type]
    if not found:
        names = ", ".join(one.name for one in split.types)
        raise _contradiction(split, rank, f"the types of the split are {names}")
    return found[0]


def _place_in(
    split: Split, kind: WorkerType, rank: ReplicaRank, index: int, count: int | None
) -> WorkerPlace:
    if count is not None and count != kind.count:
        raise _contradiction(
            split, rank, f"the split has {kind.count} of the type {kind.name}, and {count} run"
        )
    if index >= kind.count:
        raise _contradiction(split, rank, f"the split has {kind.count} of the type {kind.name}")
    if rank.completion >= kind.completions:
        raise _contradiction(
            split,
            rank,
            f"the split has {kind.completions} completions for each worker; all of a replica share "
            "its number, and a split such as two-level:5x10 tells them apart",
        )
    return WorkerPlace(type=kind.name, index=index, completion=rank.completion)


def _contradiction(split: Split, rank: Rank, why: str) -> UsageError:
    return UsageError(
        f"--split {split.text} and {rank.source} contradict each other: {why}. Change the split, "
        "or give --rank I/N"
    )
