"""Read the rank of this process from wherever it runs; several that disagree are an error."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from skymark.execute.ranks.kubernetes import pod_rank
from skymark.execute.ranks.machines import skypilot_rank, torchrun_rank, tpu_rank
from skymark.execute.ranks.numbers import Variables
from skymark.execute.ranks.rank import ALONE, Rank, ReplicaRank
from skymark.execute.ranks.slurm import slurm_rank
from skymark.model.errors import UsageError

SOURCES: tuple[Callable[[Variables], Rank | None], ...] = (
    slurm_rank,
    pod_rank,
    skypilot_rank,
    tpu_rank,
    torchrun_rank,
)


def rank_here(variables: Variables) -> Rank:
    """Return the rank of a process with these variables; `ALONE` where none tells it.

    One that says "the only one" does not contradict another: a machine of its own may start several
    processes.

    Raises:
        UsageError: two contradict each other, or one cannot be read.
    """
    found = [rank for source in SOURCES if (rank := source(variables)) is not None]
    telling = [rank for rank in found if not _is_alone(rank)]
    for one, other in combinations(telling, 2):
        if (one.index, one.count) != (other.index, other.count):
            raise UsageError(
                f"{one.source} and {other.source} contradict each other: they tell different "
                "ranks; unset one, or give --rank I/N"
            )
    return next(iter(telling or found), ALONE)


def _is_alone(rank: Rank) -> bool:
    """Whether there is one worker only, by all that is known."""
    several = isinstance(rank, ReplicaRank) and rank.completion > 0
    return rank.count == 1 and not several
