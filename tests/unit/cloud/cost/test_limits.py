"""The limits of a run on rented machines, and the time of its rounds."""

from __future__ import annotations

import pytest

from skymark.cli.options import PlanOptions
from skymark.cloud.rented_run import require_time_before
from skymark.model.errors import UsageError


def plan(time):
    return PlanOptions(scenarios=("TAB-1",), adapters=("numpy",), time=time).plan()


@pytest.mark.parametrize(
    ("time", "deadline_s"), [(None, 1), ("20m", None), ("20m", 1201), ("1s", 600)]
)
def test_a_time_that_ends_before_the_deadline_passes(time, deadline_s):
    require_time_before(plan(time), deadline_s)


@pytest.mark.parametrize(("time", "deadline_s"), [("20m", 1200), ("1d", 600)])
def test_a_time_that_does_not_end_before_the_deadline_is_refused(time, deadline_s):
    with pytest.raises(UsageError, match=rf"--time \d+s .* {deadline_s} s,.*--deadline"):
        require_time_before(plan(time), deadline_s)
