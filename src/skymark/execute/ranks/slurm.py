"""Ranks in Slurm: tasks of an array, of a step, and steps within an array."""

from __future__ import annotations

import re

from skymark.execute.ranks.numbers import LARGEST, Variables, number, pair, shown
from skymark.execute.ranks.rank import Rank
from skymark.model.errors import UsageError

TASK = "SLURM_ARRAY_TASK_ID"
COUNT = "SLURM_ARRAY_TASK_COUNT"
FIRST = "SLURM_ARRAY_TASK_MIN"
LAST = "SLURM_ARRAY_TASK_MAX"
STEP = "SLURM_ARRAY_TASK_STEP"
PROCESS = "SLURM_PROCID"
PROCESSES = "SLURM_STEP_NUM_TASKS"
"""Set in a step alone. A batch script has ``SLURM_NTASKS`` of processes that it does not start."""

WHOLE = "SKYMARK_ARRAY"
"""All tasks of the array, as ``sbatch --array`` takes them; `skymark render slurm` sets it. Slurm
tells a task neither its place among uneven numbers nor, where some are submitted again, the others.
"""


def slurm_rank(variables: Variables) -> Rank | None:
    """Return the rank of a process in Slurm; None outside an array and outside a step of several.

    Raises:
        UsageError: the place of the task among those of its array cannot be known.
    """
    task, step = _array_rank(variables), _step_rank(variables)
    if task is None or step is None or task.count is None or step.count is None:
        return task or step
    return Rank(
        index=task.index * step.count + step.index,
        count=task.count * step.count,
        told_by=f"{task.told_by} and {step.told_by}",
        counted_by=f"{task.counted_by} times {step.counted_by}",
        note=task.note,
    )


def _array_rank(variables: Variables) -> Rank | None:
    task = number(variables, TASK)
    if task is None:
        return None
    if variables.get(WHOLE):
        return _placed(task, variables)
    first, last, step, count = (number(variables, name) for name in (FIRST, LAST, STEP, COUNT))
    if first is None or last is None or not step or not count:
        missing = [name for name in (FIRST, LAST, STEP, COUNT) if not variables.get(name)]
        raise UsageError(
            f"{shown(variables, TASK)} is set and {', '.join(missing) or STEP} is not; "
            f"set {WHOLE} to what sbatch --array was given, or give --rank I/N"
        )
    # Evenly spaced numbers alone have as many as their ends and step say, and each its place.
    even = (last - first) % step == 0 and (last - first) // step + 1 == count
    if not even or (task - first) % step or not first <= task <= last:
        numbers = ", ".join(shown(variables, name) for name in (FIRST, LAST, STEP, COUNT))
        raise UsageError(
            f"the place of {shown(variables, TASK)} in its array cannot be known: its numbers "
            f"have gaps ({numbers}), and Slurm does not tell which they are. Set {WHOLE} to what "
            "sbatch --array was given, such as 1,5,9-12, or give --rank I/N"
        )
    return Rank(
        index=(task - first) // step,
        count=count,
        told_by=shown(variables, TASK),
        counted_by=shown(variables, COUNT),
    )


def _placed(task: int, variables: Variables) -> Rank:
    """Return the place of a task among all that the whole array has."""
    whole = array_tasks(variables[WHOLE])
    if task not in whole:
        raise UsageError(
            f"{shown(variables, TASK)} and {shown(variables, WHOLE)} contradict each other: the "
            f"array has no such task; set {WHOLE} to all that the array has"
        )
    count = number(variables, COUNT)
    note = (
        f"{count} of the {len(whole)} tasks were submitted; the others' parts are theirs"
        if count is not None and count != len(whole)
        else ""
    )
    return Rank(
        index=whole.index(task),
        count=len(whole),
        told_by=shown(variables, TASK),
        counted_by=shown(variables, WHOLE),
        note=note,
    )


def array_tasks(text: str) -> list[int]:
    """Return the numbers of an array as ``sbatch --array`` takes it: ``1,5,9-12`` or ``0-30:5%4``.

    Raises:
        UsageError: it is none.
    """
    found: set[int] = set()
    for one in re.sub(r"%[0-9]+$", "", text).split(","):
        match = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?", one)
        first, last, step = (
            (int(match[1]), int(match[2] or match[1]), int(match[3] or 1)) if match else (1, 0, 1)
        )
        if not first <= last <= LARGEST or step < 1:
            raise UsageError(
                f"{WHOLE}={text} is no array; set it to what sbatch --array takes, such as "
                "0-9 or 1,5,9-12"
            )
        found |= set(range(first, last + 1, step))
    return sorted(found)


def _step_rank(variables: Variables) -> Rank | None:
    """Return the rank of a process that ``srun`` started beside others."""
    if number(variables, PROCESSES, least=1) in {None, 1}:
        return None
    found = pair(variables, PROCESS, PROCESSES)
    if found is None:
        return None
    index, count = found
    return Rank(
        index=index,
        count=count,
        told_by=shown(variables, PROCESS),
        counted_by=shown(variables, PROCESSES),
    )
