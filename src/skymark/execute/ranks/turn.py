"""Turn of a job among those that start at once, by the numbers that schedulers give them."""

from __future__ import annotations

from contextlib import suppress

from skymark.cache.jobs import PARTS
from skymark.execute.ranks.rank import Variables, number
from skymark.execute.ranks.reading import FIRST, STEP, TASK, slurm_rank
from skymark.model.errors import UsageError


def turn_of(variables: Variables) -> int:
    """Return the number of jobs that start before this one; 0 where nothing tells it.

    A task of an array of Slurm has its place in the array, wherever the array's numbers begin.
    Where its numbers have gaps that nothing tells, it has the largest place that they leave. What
    is no number does not count.
    """
    turns = [_number(variables, name) or 0 for name in PARTS]
    return max(_slurm_turn(variables), *turns)


def _slurm_turn(variables: Variables) -> int:
    with suppress(UsageError):
        rank = slurm_rank(variables)
        return 0 if rank is None else rank.index
    task, first = _number(variables, TASK), _number(variables, FIRST)
    return max(0, (task or 0) - (first or 0)) // (_number(variables, STEP) or 1)


def _number(variables: Variables, name: str) -> int | None:
    with suppress(UsageError):
        return number(variables, name)
    return None
