"""The choice of a policy follows size, jobs and room, and is per-job where it cannot be told."""

from __future__ import annotations

import pytest

from skymark.cache.location import Policy
from skymark.cache.providing import (
    MEASURED,
    Case,
    Rates,
    case_of,
    choose,
    known_rates,
    measure_rates,
)

GB = 10**9
RATES = Rates(build_bytes_per_s=50e6)


def chosen(size_gb, jobs, use="once", free_gb=1000, **fields):
    size = None if size_gb is None else int(size_gb * GB)
    case = Case(size_bytes=size, jobs=jobs, use=use, free_bytes=free_gb * GB, cores=4, **fields)
    return choose(case, RATES)


@pytest.mark.parametrize(
    ("size_gb", "jobs", "use", "free_gb", "policy"),
    [
        (None, 64, "once", 1000, Policy.PER_JOB),
        (1, None, "once", 1000, Policy.PER_JOB),
        (0.01, 64, "once", 1000, Policy.PER_JOB),
        (10, 1, "once", 1000, Policy.PER_JOB),
        (1, 64, "once", 1000, Policy.SHARED),
        (1, 64, "often", 1000, Policy.PREBUILT),
        (100, 64, "often", 1000, Policy.PARQUET_SHARED),
        (200, 64, "once", 1000, Policy.PARQUET_SHARED),
        (600, 64, "once", 1000, Policy.PARQUET),
        (200, 1, "once", 1000, Policy.PARQUET),
    ],
)
def test_a_case_gets_its_policy(size_gb, jobs, use, free_gb, policy):
    choice = chosen(size_gb, jobs, use, free_gb)
    assert choice.policy is policy
    assert choice.reason


def test_the_table_has_six_rows_and_never_recommends_staggered_starts():
    rows = chosen(1, 64).rows
    assert [row.policy for row in rows] == [
        *(Policy.PER_JOB, Policy.SHARED, Policy.PREBUILT, Policy.PARQUET, Policy.PARQUET_SHARED),
        Policy.STAGGERED,
    ]
    assert "not recommended" in rows[-1].why


def test_a_network_disk_is_named_and_its_locks_are_not_needed(tmp_path):
    case = case_of(tmp_path, GB, 64, "once", lambda _: ("network", "lustre", 1000 * GB))
    choice = choose(case, RATES)
    assert choice.policy is Policy.SHARED
    assert "on lustre" in choice.reason


def test_rates_are_measured_on_the_disk_of_the_root_and_kept(tmp_path):
    assert not known_rates(tmp_path).measured
    rates = measure_rates(tmp_path, None)
    assert known_rates(tmp_path) == rates
    assert rates.measured
    assert 0 < rates.lease_s < 5
    assert rates.convert_bytes_per_s > 1e5
    assert [path.name for path in tmp_path.iterdir()] == [MEASURED]
