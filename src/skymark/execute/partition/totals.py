"""CPUs and memory that each worker of a split asks for, of a total."""

from __future__ import annotations

import math

from skymark.execute.partition.split import Split, WorkerType
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

STEPS_PER_GB = 100
"""Memory is asked for in hundredths of a gigabyte, rounded down."""


class Request(Frozen):
    """The request of each process of one type of workers."""

    type: WorkerType
    cpus: int | float | None = None
    """Whole where a total is divided; None where nothing tells how many."""
    memory_gb: float | None = None


def requests_of(
    split: Split, total_cpus: int | None = None, total_memory_gb: float | None = None
) -> tuple[Request, ...]:
    """Return what each process of a split asks for, so that those that run at once fit the total.

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
        requests.append(Request(type=one, cpus=cpus, memory_gb=memory_gb))
    return tuple(requests)


def _require(found: float, option: str, total: float, split: Split) -> None:
    if not found:
        running = sum(one.running for one in split.types)
        raise UsageError(
            f"{option} {total:g} is too little for the {running} processes of --split {split.text} "
            "that run at once; give more, or a split of fewer, such as waves:5x10/2"
        )
