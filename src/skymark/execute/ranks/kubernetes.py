"""Ranks of pods: Indexed Jobs, and JobSets, those of AIchor among them."""

from __future__ import annotations

from skymark.execute.ranks.numbers import Variables, number, require_below, shown
from skymark.execute.ranks.rank import Rank, ReplicaRank
from skymark.model.errors import UsageError

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
