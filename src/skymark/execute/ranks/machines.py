"""Ranks of machines and of their processes: SkyPilot, TPU slices, torchrun."""

from __future__ import annotations

from skymark.execute.ranks.numbers import Variables, number, pair, require_below, shown
from skymark.execute.ranks.rank import Rank
from skymark.model.errors import UsageError

NODE = "SKYPILOT_NODE_RANK"
NODES = "SKYPILOT_NUM_NODES"
MANAGED = "SKYPILOT_JOB_RANK"
"""Of a managed job among those of one ``sky jobs launch --num-jobs``; 0 where it is alone."""
MANAGED_JOBS = "SKYPILOT_NUM_JOBS"
TPU_WORKER = "TPU_WORKER_ID"
TPU_HOSTS = "TPU_WORKER_HOSTNAMES"
SLICE = "MEGASCALE_SLICE_ID"
SLICES = "MEGASCALE_NUM_SLICES"


def skypilot_rank(variables: Variables) -> Rank | None:
    """Return the rank of a node in a job of SkyPilot, over all managed jobs of one launch.

    Raises:
        UsageError: a variable is missing or no number, or two contradict each other.
    """
    node = pair(variables, NODE, NODES)
    job = pair(variables, MANAGED, MANAGED_JOBS) if variables.get(MANAGED_JOBS) else None
    return _two_levels(variables, (job, MANAGED, MANAGED_JOBS), (node, NODE, NODES))


def tpu_rank(variables: Variables) -> Rank | None:
    """Return the rank of a host of a TPU slice, over all slices where there are several.

    Raises:
        UsageError: a variable is missing or no number, or two contradict each other.
    """
    worker = number(variables, TPU_WORKER)
    if worker is None:
        return None
    hosts = [host for host in variables.get(TPU_HOSTS, "").split(",") if host.strip()]
    if not hosts:
        raise UsageError(
            f"{shown(variables, TPU_WORKER)} is set and {TPU_HOSTS} is not, which tells how many "
            "there are; give --rank I/N"
        )
    require_below(variables, worker, TPU_WORKER, len(hosts), TPU_HOSTS)
    slice_ = pair(variables, SLICE, SLICES) if variables.get(SLICES) else None
    host = worker, len(hosts)
    return _two_levels(variables, (slice_, SLICE, SLICES), (host, TPU_WORKER, TPU_HOSTS))


def torchrun_rank(variables: Variables) -> Rank | None:
    """Return the rank of a process of torchrun.

    Raises:
        UsageError: a variable is missing or no number, or two contradict each other.
    """
    if not variables.get("WORLD_SIZE"):  # RANK alone is a name that others use
        return None
    return _two_levels(
        variables,
        (None, "", ""),
        (pair(variables, "RANK", "WORLD_SIZE"), "RANK", "WORLD_SIZE"),
    )


Level = tuple[tuple[int, int] | None, str, str]
"""Number and count, with the variables that told them; None where they are not set."""


def _two_levels(variables: Variables, outer: Level, inner: Level) -> Rank | None:
    """Return the rank of an inner worker over all outer ones."""
    levels = [(found, told, counted) for found, told, counted in (outer, inner) if found]
    if not levels:
        return None
    index, count = 0, 1
    for (one, many), _, _ in levels:
        index, count = index * many + one, count * many
    return Rank(
        index=index,
        count=count,
        told_by=" and ".join(shown(variables, told) for _, told, _ in levels),
        counted_by=" times ".join(shown(variables, counted) for _, _, counted in levels),
    )
