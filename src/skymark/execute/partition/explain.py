"""The explanation of a split: who takes what, and why, with its CPUs and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skymark.execute.partition.shard import Item, parts_of, weights_of
from skymark.execute.partition.split import Part, Split, WorkerPlace, WorkerType
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

MOST_KEYS = 4
"""Keys that a worker's line names; more are counted."""

RULES = {
    "even": "neighbouring items, as many for each worker; numbers differ by one at most",
    "balanced": "those with the most cells first, each to the worker with the fewest",
    "longest": "those that take the longest first, each to the worker that has the least to do",
    "weighted": "neighbouring items, in proportion to each worker's CPUs",
    "two-level": "a slice of neighbouring items for each worker, and an equal part of it for each "
    "of its completions, which all run at once",
    "waves": "a slice of neighbouring items for each worker, and an equal part of it for each of "
    "its completions, of which some run at once",
}

ENOUGH = {"weighted": "even:{}", "two-level": "two-level:{}x1", "waves": "waves:{}x1/1"}
"""A split of each kind for so many workers, of kinds that take more than their number."""


class WorkerPart(Frozen):
    """The part of one worker: its keys, cells and time."""

    number: int
    """Of the worker among all, from 0."""
    part: Part
    keys: tuple[str, ...]
    cells: int
    expected_s: float | None
    """Of one round of its cells; None where one of them has no guess."""

    @property
    def span(self) -> str:
        """Its items' numbers, such as ``1–100`` and ``2 5 9``; empty for none."""
        return span_of(self.part.items)


def worker_parts(split: Split, items: Sequence[Item]) -> tuple[WorkerPart, ...]:
    """Return what every worker of a split takes."""
    return tuple(
        _worker_part(number, part, [items[one - 1] for one in part.items])
        for number, part in enumerate(parts_of(split, items))
    )


def reasons(split: Split, items: Sequence[Item]) -> list[str]:
    """Return why the workers take what they take, a sentence a line."""
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
            f"the worker with the most has {most / ideal - 1:.1%} more than in an ideal split, "
            "whose time is the longest item's or an equal part of all"
        )
    lines.append(
        "a worker's number alone decides: started again, it takes the same part, and skips what "
        "is stored"
    )
    return lines


def idle_workers(split: Split, parts: Sequence[WorkerPart], items: int) -> list[str]:
    """Return the sentence that names the workers without work, and a split without them."""
    idle = [name_of(one.part.place, split) for one in parts if not one.part.items]
    if not idle:
        return []
    enough = ENOUGH.get(split.kind, f"{split.kind}:{{}}").format(len(parts) - len(idle))
    who = f"{len(idle)} of {len(parts)} workers take nothing ({named_keys(idle)})"
    why = f"there are {items} sets of cells that stay together on one machine"
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
        return "an item weighs as much as it has cells, so that machines of any kind agree"
    unknown = [item.key for item in items if item.expected_s is None]
    if unknown:
        return (
            f"no time is known of {named_keys(unknown)}, so every item weighs as much as it has "
            "cells"
        )
    return (
        "an item weighs as much as its cells take by the plan: the times of earlier runs where "
        "--measured gave them, else guesses"
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
"""Memory is asked for in hundredths of a gigabyte, rounded down."""


class ResourceRequest(Frozen):
    """The request of each process of one type of workers."""

    type: WorkerType
    cpus: int | float | None = None
    """Whole where a total is divided; None where nothing tells how many."""
    memory_gb: float | None = None


def requests_of(
    split: Split, total_cpus: int | None = None, total_memory_gb: float | None = None
) -> tuple[ResourceRequest, ...]:
    """Return the request of each process, so that the processes of one moment fit the total.

    A worker with more CPUs than another gets more of either, in proportion. Without a total, the
    CPUs are those that the split names.

    Args:
        split: who works.
        total_cpus: of all machines together.
        total_memory_gb: likewise, in GB of 10⁹ bytes.

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
            f"{option} {total:g} is too little for the {running} processes of --split {split.text} "
            "that run at once; give more, or a split of fewer, such as waves:5x10/2"
        )
