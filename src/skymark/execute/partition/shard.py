"""One worker's part of a plan, the mapping from ranks to workers, and its explanation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from skymark.execute.partition.split import (
    Part,
    Split,
    WorkerPlace,
    WorkerType,
    read_index,
    read_split,
)
from skymark.execute.rank import ALONE, Rank, ReplicaRank
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.plan import PlannedCell
from skymark.model.sizes import count_of, percent, some_of


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
        return cls.of(*read_index(text, "--shard"))

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


MOST_KEYS = 4
"""Most keys to list in a worker's line; the rest are counted."""

RULES = {
    "even": "equally many neighbouring items for each worker; numbers differ by one at most",
    "balanced": "items with the most cells first, each to the worker with the fewest",
    "longest": "longest items first, each to the worker with the least total time",
    "weighted": "neighbouring items, in proportion to each worker's CPUs",
    "two-level": "a slice of neighbouring items for each worker, divided equally among its "
    "completions, which all run at once",
    "waves": "a slice of neighbouring items for each worker, divided equally among its "
    "completions, which run in waves",
}

ENOUGH = {"weighted": "even:{}", "two-level": "two-level:{}x1", "waves": "waves:{}x1/1"}
"""The form of a split for a given number of workers, for kinds with more parameters."""


class WorkerPart(Frozen):
    """The part of one worker: its keys, cells and time."""

    number: int
    """Number of the worker, from 0."""
    part: Part
    keys: tuple[str, ...]
    cells: int
    expected_s: float | None
    """Time of one round of its cells; None if a cell has no guess."""

    @property
    def span(self) -> str:
        """Its items' numbers, such as ``1–100`` and ``2 5 9``; empty for none."""
        return span_of(self.part.items)


def worker_parts(split: Split, items: Sequence[Item]) -> tuple[WorkerPart, ...]:
    """Return the parts of all workers of a split."""
    return tuple(
        _worker_part(number, part, [items[one - 1] for one in part.items])
        for number, part in enumerate(parts_of(split, items))
    )


def reasons(split: Split, items: Sequence[Item]) -> list[str]:
    """Return the reasons for the workers' parts, a sentence a line."""
    parts = worker_parts(split, items)
    lines = [f"{split.text}: {RULES[split.kind]}"]
    if split.weighs:
        lines.append(_weighing(split, items))
    lines += idle_workers(split, parts, len(items))
    weights = weights_of(split, items)
    ideal = max(sum(weights) / len(parts), *weights, 0.0)
    if split.weighs and ideal > 0:
        most = max(sum(weights[one - 1] for one in part.part.items) for part in parts)
        lines.append(
            f"the worker with the most has {percent(most / ideal - 1, 1)} more than in an ideal "
            "split (an equal part of the total, or the longest item if that is more)"
        )
    lines.append(
        "the part depends only on the worker's number: a restarted worker takes the same part "
        "and skips its stored cells"
    )
    return lines


def idle_workers(split: Split, parts: Sequence[WorkerPart], items: int) -> list[str]:
    """Return the sentence that names the workers without work, and a split without them."""
    idle = [name_of(one.part.place, split) for one in parts if not one.part.items]
    if not idle:
        return []
    enough = ENOUGH.get(split.kind, f"{split.kind}:{{}}").format(len(parts) - len(idle))
    takes = "takes" if len(idle) == 1 else "take"
    who = f"{len(idle)} of {len(parts)} workers {takes} nothing ({named_keys(idle)})"
    why = f"the plan has only {count_of(items, 'set')} of cells that can run on different machines"
    return [f"{who}: {why}; --split {enough} is enough"]


def span_of(numbers: Sequence[int]) -> str:
    """Return numbers as a range where they are neighbours: ``1–100``, ``7``, ``2 5 9``."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return str(numbers[0])
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"{numbers[0]}–{numbers[-1]}"
    return " ".join(map(str, numbers))


def name_of(place: WorkerPlace, split: Split) -> str:
    """Return a worker's name: ``worker-3``, and ``worker-3-0`` where it has completions."""
    parted = any(one.completions > 1 for one in split.types)
    return f"{place.type}-{place.index}" + (f"-{place.completion}" if parted else "")


def named_keys(keys: Sequence[str]) -> str:
    """Return keys as a line names them: the first few, and how many more."""
    return some_of(keys, MOST_KEYS)


def _weighing(split: Split, items: Sequence[Item]) -> str:
    if split.weighs == "cells":
        return "an item's weight is its number of cells, the same on every machine"
    unknown = [item.key for item in items if item.expected_s is None]
    if unknown:
        return (
            f"the time of {named_keys(unknown)} is unknown, so an item's weight is its number of "
            "cells"
        )
    return (
        "an item's weight is its cells' time in the plan: from earlier runs with --measured, "
        "else a guess"
    )


def _worker_part(number: int, part: Part, items: Sequence[Item]) -> WorkerPart:
    known = [item.expected_s for item in items if item.expected_s is not None]
    return WorkerPart(
        number=number,
        part=part,
        keys=tuple(item.key for item in items),
        cells=sum(item.cells for item in items),
        expected_s=sum(known) if len(known) == len(items) else None,
    )


STEPS_PER_GB = 100
"""Requests of memory are in hundredths of a gigabyte, rounded down."""


class ResourceRequest(Frozen):
    """The request of each process of one type of workers."""

    type: WorkerType
    cpus: int | float | None = None
    """A whole number if a total is divided; None if unknown."""
    memory_gb: float | None = None


def requests_of(
    split: Split, total_cpus: int | None = None, total_memory_gb: float | None = None
) -> tuple[ResourceRequest, ...]:
    """Return the request of each process, so that simultaneous processes fit the total.

    Workers get CPUs and memory in proportion to their CPUs in the split. Without a total, the
    split's own CPUs apply.

    Args:
        split: the split of the workers.
        total_cpus: CPUs of all machines together.
        total_memory_gb: memory of all machines together, in GB of 10⁹ bytes.

    Raises:
        UsageError: the total is less than one CPU, or 0.01 GB, for each.
    """
    shares = [one.cpus or 1 for one in split.types]
    whole = sum(share * one.running for share, one in zip(shares, split.types, strict=True))
    requests = []
    for share, one in zip(shares, split.types, strict=True):
        cpus: int | float | None = one.cpus
        memory_gb: float | None = None
        if total_cpus is not None:
            cpus = math.floor(total_cpus * share / whole)
            _require(cpus, "--total-cpus", total_cpus, split)
        if total_memory_gb is not None:
            steps = math.floor(total_memory_gb * share / whole * STEPS_PER_GB)
            memory_gb = steps / STEPS_PER_GB
            _require(memory_gb, "--total-memory", total_memory_gb, split)
        requests.append(ResourceRequest(type=one, cpus=cpus, memory_gb=memory_gb))
    return tuple(requests)


def _require(found: float, option: str, total: float, split: Split) -> None:
    if not found:
        running = sum(one.running for one in split.types)
        raise UsageError(
            f"{option} {total:g} is too little for the {running} simultaneous processes of --split "
            f"{split.text}; give more, or a split with fewer at once, such as waves:5x10/2"
        )
