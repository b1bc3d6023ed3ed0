"""The choice of a policy: by size, jobs, file system and free space, with its reasons."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from skymark.cache.policy import Policy
from skymark.cache.prepared import GROWTH
from skymark.cache.thresholds import Rates
from skymark.machine.disk import NETWORK, disk_of
from skymark.model.base import Count, Frozen

GB = 1e9
SHORT_BUILD_S = 10.0
"""All jobs' own builds together, up to which nobody needs to share."""
LONG_BUILD_S = 1800.0
"""One build, from which a job that dies should not have to do it again: it is kept sealed."""
FREE_SHARE = 0.5
"""Of the free space that all caches together may take."""

NOT_STAGGERED = "not recommended: each job waits longer, and two still meet where one is late"

Use = Literal["once", "often"]


class Case(Frozen):
    """What a policy is chosen for."""

    size_bytes: Count | None
    """Of the sources; None where it is not known."""
    jobs: int | None
    """That start at once; None where it is not known."""
    use: Use = "once"
    """Whether the data set is read by one wave of jobs, or again and again."""
    free_bytes: Count
    cores: int
    filesystem: str | None = None
    network: bool = False


class Row(Frozen):
    """A row of the decision table."""

    policy: Policy
    use: str
    size: str
    jobs: str
    why: str


class Choice(Frozen):
    """A policy with the reason for it, and all rows that were looked at."""

    policy: Policy
    reason: str
    rows: tuple[Row, ...]
    case: Case
    rates: Rates


def case_of(
    root: Path,
    size_bytes: int | None,
    jobs: int | None,
    use: Use,
    disk: Callable[[Path], tuple[str | None, str | None, int | None]] = disk_of,
) -> Case:
    """Return the case of a data set on the disk of a root."""
    kind, filesystem, free = disk(root)
    return Case(
        size_bytes=size_bytes,
        jobs=jobs,
        use=use,
        free_bytes=free or 0,
        cores=len(os.sched_getaffinity(0)),
        filesystem=filesystem,
        network=kind == "network" or filesystem in NETWORK,
    )


def choose(case: Case, rates: Rates) -> Choice:
    """Choose a policy; `Policy.PER_JOB` where it cannot be told."""
    rows = decision_table(case, rates)
    policy, reason = _decide(case, rates)
    return Choice(policy=policy, reason=reason, rows=rows, case=case, rates=rates)


def decision_table(case: Case, rates: Rates) -> tuple[Row, ...]:
    """Return the six rows, with the limits of this machine in them."""
    small = f"up to {_gb(rates.build_bytes_per_s * SHORT_BUILD_S * case.cores)} over all jobs"
    fits = f"up to {_gb(case.free_bytes * FREE_SHARE / GROWTH)}"
    large = f"over {_gb(rates.build_bytes_per_s * LONG_BUILD_S)}"
    huge = f"over {_gb(case.free_bytes * FREE_SHARE / GROWTH)}"
    make = (
        (Policy.PER_JOB, "once", small, "any", "nothing to agree on; each job builds its own"),
        (Policy.SHARED, "once", fits, "many", "built once, the others wait"),
        (Policy.PREBUILT, "often", fits, "many", "built before, sealed, reused for weeks"),
        (Policy.PARQUET, "any", huge, "few", "compressed, streamed from any row group"),
        (Policy.PARQUET_SHARED, "often", large, "many", "parsed once, then shared"),
        (Policy.STAGGERED, "–", "–", "–", NOT_STAGGERED),
    )  # fmt: skip
    return tuple(Row(policy=p, use=u, size=s, jobs=j, why=w) for p, u, s, j, w in make)


def _decide(case: Case, rates: Rates) -> tuple[Policy, str]:
    """Return the policy of the first row that fits."""
    if case.size_bytes is None or case.jobs is None:
        what = "number of jobs (--jobs)" if case.jobs is None else "size of the data"
        return Policy.PER_JOB, f"the {what} is not known, and a cache of its own is safe"
    room, one_s = case.free_bytes * FREE_SHARE, case.size_bytes / rates.build_bytes_per_s
    cached, many = case.size_bytes * GROWTH, case.jobs > 1
    convert_s = case.size_bytes / rates.convert_bytes_per_s
    all_s = one_s * case.jobs / min(case.jobs, case.cores)
    if cached > room:
        policy = Policy.PARQUET_SHARED if many and case.size_bytes < room else Policy.PARQUET
        return policy, (
            f"a cache of about {_gb(cached)} does not fit into half of the {_gb(case.free_bytes)} "
            f"that are free; Parquet is streamed, once {convert_s:,.0f} s have converted it"
        )
    if not many:
        return Policy.PER_JOB, "one job has nobody to share with"
    if case.use == "often":
        policy = Policy.PARQUET_SHARED if one_s > LONG_BUILD_S else Policy.PREBUILT
        return policy, f"it is used again and again: the {one_s:,.1f} s of a build are spent once"
    if all_s <= SHORT_BUILD_S and cached * case.jobs <= room:
        return Policy.PER_JOB, (
            f"all {case.jobs} builds take {all_s:,.1f} s together and {_gb(cached * case.jobs)}: "
            "sharing saves less than it costs to think about"
        )
    price = f"; the barrier costs each job about {2 * rates.lease_s:.2g} s"
    where = f" on {case.filesystem}, whose locks are not needed" if case.network else ""
    return Policy.SHARED, (
        f"{case.jobs} builds take {all_s:,.1f} s and {_gb(cached * case.jobs)}, one takes "
        f"{one_s:,.1f} s and {_gb(cached)}{where}{price}"
    )


def _gb(value: float) -> str:
    return f"{value / GB:,.3g} GB"
