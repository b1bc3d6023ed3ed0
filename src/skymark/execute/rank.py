"""A rank: a worker's number among several, read from the variables of wherever it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import combinations

from pydantic import Field

from skymark.execute.partition.split import MOST_WORKERS, read_index
from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class Rank(Frozen):
    """A worker's number among several, from 0."""

    index: int = Field(ge=0)
    count: int | None = Field(default=None, ge=1)
    """Number of all workers; None if unknown."""
    told_by: str
    """The variable of the number, with its value, or the option."""
    counted_by: str = ""
    """The variable of the count, with its value."""
    note: str = ""
    """A note for the user."""

    @property
    def source(self) -> str:
        """The variables or the option of the rank, for messages."""
        return f"{self.told_by} of {self.counted_by}" if self.counted_by else self.told_by


class ReplicaRank(Rank):
    """The rank of a pod of a JobSet: `index` and `count` are of its replica, over all types.

    All completions of a replica share these.
    """

    type: str
    """The replicated job's name."""
    job: int = Field(ge=0)
    """Number of the replica within its type."""
    replicas: int | None = Field(default=None, ge=1)
    """Number of replicas of its type; None if unknown."""
    completion: int = Field(default=0, ge=0)
    """Number of the pod within its replica."""


ALONE = Rank(index=0, count=1, told_by="no variable tells a rank")


def read_rank(text: str) -> Rank:
    """Read ``--rank 3/10``.

    Raises:
        UsageError: it is not INDEX/COUNT with 0 ≤ INDEX < COUNT.
    """
    index, count = read_index(text, "--rank")
    return Rank(index=index, count=count, told_by=f"--rank {text}")


Variables = Mapping[str, str]

LARGEST = 4_000_000
"""Largest number of a task in Slurm (``MaxArraySize`` 4,000,001)."""


def number(variables: Variables, name: str, least: int = 0) -> int | None:
    """Return the number in a variable; None where it is not set, or empty.

    Raises:
        UsageError: it holds something else.
    """
    text = variables.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", text) or not least <= int(text) <= LARGEST:
        raise UsageError(
            f"{shown(variables, name)} is not a worker's number; unset {name}, or give --rank I/N"
        )
    return int(text)


def pair(variables: Variables, index_name: str, count_name: str) -> tuple[int, int] | None:
    """Return a worker's number and the count of workers; None if the number is not set.

    Raises:
        UsageError: a variable is missing or no number, or the number is not below the count.
    """
    index = number(variables, index_name)
    count = number(variables, count_name, least=1)
    if index is None:
        return None
    if count is None:
        raise UsageError(
            f"{shown(variables, index_name)} is set and {count_name} is not; set both, or give "
            "--rank I/N"
        )
    require_below(variables, index, index_name, count, count_name)
    return index, count


def require_below(
    variables: Variables, index: int, index_name: str, count: int, count_name: str
) -> None:
    """Refuse a number that is not below the count, and more than `MOST_WORKERS` workers.

    Raises:
        UsageError: the number or the count is out of range.
    """
    if index >= count or count > MOST_WORKERS:
        raise UsageError(
            f"{shown(variables, index_name)} and {shown(variables, count_name)} contradict each "
            f"other: numbers go from 0 to one below the count, which is {MOST_WORKERS:,} at most; "
            "give --rank I/N"
        )


def shown(variables: Variables, name: str) -> str:
    """Return a variable with its value, as a message names it."""
    return f"{name}={variables[name]}"


COMPLETION = "JOB_COMPLETION_INDEX"
JOB = "JOB_INDEX"
GLOBAL = "JOB_GLOBAL_INDEX"
TYPE = "REPLICATED_JOB_NAME"
REPLICAS = "REPLICATED_JOB_REPLICAS"
ALL_REPLICAS = "GLOBAL_REPLICAS"


def pod_rank(variables: Variables) -> Rank | None:
    """Return the rank of a pod; None where this is none of an Indexed Job or a JobSet.

    An Indexed Job does not tell how many completions it has. Two of its pods may rarely have one
    index at the same time, for which storing is made.

    Raises:
        UsageError: a variable is missing or no number, or two contradict each other.
    """
    completion = number(variables, COMPLETION)
    job, over_all = number(variables, JOB), number(variables, GLOBAL)
    if job is None and over_all is None:
        if completion is None:
            return None
        return Rank(index=completion, told_by=shown(variables, COMPLETION))
    if job is None or over_all is None:
        given, absent = (JOB, GLOBAL) if over_all is None else (GLOBAL, JOB)
        raise UsageError(
            f"{shown(variables, given)} is set and {absent} is not; a pod needs both, from the "
            f"labels jobset.sigs.k8s.io/job-index and job-global-index (`skymark render jobset`)"
        )
    replicas = number(variables, REPLICAS, least=1)
    count = number(variables, ALL_REPLICAS, least=1)
    if replicas is not None:
        require_below(variables, job, JOB, replicas, REPLICAS)
    if count is not None:
        require_below(variables, over_all, GLOBAL, count, ALL_REPLICAS)
    if over_all < job:
        raise UsageError(
            f"{shown(variables, JOB)} and {shown(variables, GLOBAL)} contradict each other: a "
            "number over all types is never below that within one; give --rank I/N"
        )
    return ReplicaRank(
        index=over_all,
        count=count,
        told_by=_told(variables),
        counted_by="" if count is None else shown(variables, ALL_REPLICAS),
        type=variables.get(TYPE, ""),
        job=job,
        replicas=replicas,
        completion=completion or 0,
    )


def _told(variables: Variables) -> str:
    names = (TYPE, JOB, GLOBAL, COMPLETION)
    return " ".join(shown(variables, name) for name in names if variables.get(name))


NODE = "SKYPILOT_NODE_RANK"
NODES = "SKYPILOT_NUM_NODES"
MANAGED = "SKYPILOT_JOB_RANK"
"""Number of a managed job in one ``sky jobs launch --num-jobs``; 0 for a single job."""
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
    return _nested(variables, (job, MANAGED, MANAGED_JOBS), (node, NODE, NODES))


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
    return _nested(variables, (slice_, SLICE, SLICES), (host, TPU_WORKER, TPU_HOSTS))


def torchrun_rank(variables: Variables) -> Rank | None:
    """Return the rank of a process of torchrun.

    Raises:
        UsageError: a variable is missing or no number, or two contradict each other.
    """
    if not variables.get("WORLD_SIZE"):  # RANK alone is a name that others use
        return None
    names = "RANK", "WORLD_SIZE"
    return _nested(variables, (pair(variables, *names), *names))


Level = tuple[tuple[int, int] | None, str, str]
"""Number and count, with the variables that told them; None where they are not set."""


def _nested(variables: Variables, *levels: Level, note: str = "") -> Rank | None:
    """Return the rank of a worker of the innermost level over all levels, the outermost first."""
    known = [(found, told, counted) for found, told, counted in levels if found]
    if not known:
        return None
    index, count = 0, 1
    for (one, many), _, _ in known:
        index, count = index * many + one, count * many
    return Rank(
        index=index,
        count=count,
        told_by=" and ".join(shown(variables, told) for _, told, _ in known),
        counted_by=" times ".join(shown(variables, counted) for _, _, counted in known),
        note=note,
    )


TASK = "SLURM_ARRAY_TASK_ID"
COUNT = "SLURM_ARRAY_TASK_COUNT"
FIRST = "SLURM_ARRAY_TASK_MIN"
LAST = "SLURM_ARRAY_TASK_MAX"
STEP = "SLURM_ARRAY_TASK_STEP"
PROCESS = "SLURM_PROCID"
PROCESSES = "SLURM_STEP_NUM_TASKS"
"""Set only in a step. ``SLURM_NTASKS`` is also set in a batch script, which starts no tasks."""

WHOLE = "SKYMARK_ARRAY"
"""All tasks of the array, as in ``sbatch --array``; `skymark render slurm` sets it. Slurm does not
report the numbers of an uneven array, or of the whole array if only some tasks are resubmitted.
"""


def slurm_rank(variables: Variables) -> Rank | None:
    """Return the rank of a process in Slurm; None outside an array and outside a step of several.

    Raises:
        UsageError: the position of the task in its array is unknown.
    """
    step = None  # outside a step of several processes
    if (number(variables, PROCESSES, least=1) or 1) > 1:
        step = pair(variables, PROCESS, PROCESSES)
    steps = step, PROCESS, PROCESSES
    task = number(variables, TASK)
    if task is None:
        return _nested(variables, steps)
    if not variables.get(WHOLE):
        return _nested(variables, (_evenly_placed(task, variables), TASK, COUNT), steps)
    whole = array_tasks(variables[WHOLE])
    if task not in whole:
        raise UsageError(
            f"{shown(variables, TASK)} and {shown(variables, WHOLE)} contradict each other: the "
            f"array has no such task; set {WHOLE} to all tasks of the array"
        )
    count, note = number(variables, COUNT), ""
    if count is not None and count != len(whole):
        note = (
            f"{count} of the {len(whole)} tasks were submitted; the parts of the rest stay theirs"
        )
    placed = whole.index(task), len(whole)
    return _nested(variables, (placed, TASK, WHOLE), steps, note=note)


def _evenly_placed(task: int, variables: Variables) -> tuple[int, int]:
    """Return the position of a task in its array of evenly spaced numbers, and their count."""
    first, last, step, count = (number(variables, name) for name in (FIRST, LAST, STEP, COUNT))
    if first is None or last is None or not step or not count:
        missing = [name for name in (FIRST, LAST, STEP, COUNT) if not variables.get(name)]
        raise UsageError(
            f"{shown(variables, TASK)} is set and {', '.join(missing) or STEP} is not; "
            f"set {WHOLE} to the value of sbatch --array, or give --rank I/N"
        )
    # Only evenly spaced numbers have the count that follows from their ends and step.
    even = (last - first) % step == 0 and (last - first) // step + 1 == count
    if not even or (task - first) % step or not first <= task <= last:
        numbers = ", ".join(shown(variables, name) for name in (FIRST, LAST, STEP, COUNT))
        raise UsageError(
            f"the position of {shown(variables, TASK)} in its array is unknown: its numbers have "
            f"gaps ({numbers}), and Slurm does not list them. Set {WHOLE} to the value of sbatch "
            "--array, such as 1,5,9-12, or give --rank I/N"
        )
    return (task - first) // step, count


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
                f"{WHOLE}={text} is no array; set it to a value of sbatch --array, such as "
                "0-9 or 1,5,9-12"
            )
        found |= set(range(first, last + 1, step))
    return sorted(found)


SOURCES: tuple[Callable[[Variables], Rank | None], ...] = (
    slurm_rank,
    pod_rank,
    skypilot_rank,
    tpu_rank,
    torchrun_rank,
)


def rank_here(variables: Variables) -> Rank:
    """Return the rank of a process with these variables; `ALONE` if no variable has a rank.

    A rank of a single worker does not contradict others: a single machine may start several
    processes.

    Raises:
        UsageError: two ranks contradict each other, or a variable cannot be read.
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
    """Whether the rank's worker is the only one."""
    several = isinstance(rank, ReplicaRank) and rank.completion > 0
    return rank.count == 1 and not several


def turn_of(variables: Variables) -> int:
    """Return the number of jobs that start before this one; 0 if unknown.

    For a task of a Slurm array, this is its position in the array. If the numbers have unknown
    gaps, it is the largest possible position. Values other than numbers are ignored.
    """
    from skymark.cache.sharing import PARTS  # plans, which need no turn, are quicker without it

    turns = [_number_or_none(variables, name) or 0 for name in PARTS]
    return max(_slurm_turn(variables), *turns)


def _slurm_turn(variables: Variables) -> int:
    with suppress(UsageError):
        rank = slurm_rank(variables)
        return 0 if rank is None else rank.index
    task, first = _number_or_none(variables, TASK), _number_or_none(variables, FIRST)
    return max(0, (task or 0) - (first or 0)) // (_number_or_none(variables, STEP) or 1)


def _number_or_none(variables: Variables, name: str) -> int | None:
    with suppress(UsageError):
        return number(variables, name)
    return None
