"""The explanation of a split: each worker's part, its CPUs and memory, and the reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skymark.execute.partition.shard import Item, parts_of, weights_of
from skymark.execute.partition.split import Part, Split, WorkerPlace, WorkerType
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.sizes import count_of

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
            f"the worker with the most has {most / ideal - 1:.1%} more than in an ideal split "
            "(an equal part of the total, or the longest item if that is more)"
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
    more = len(keys) - MOST_KEYS
    return ", ".join(keys[:MOST_KEYS]) + (f" and {more} more" if more > 0 else "")


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
