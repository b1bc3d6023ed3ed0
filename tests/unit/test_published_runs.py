"""Runs in benchmarks/results are whole and verified; docs/reference/measured.md shows them."""

import re

import pytest

from skymark.model.record import Status
from skymark.rundir.mending import damages
from tests.published_runs import RUNS, published, renewed

MOST_BYTES = 4_000_000
"""Of all runs together: a clone of the repository stays small."""

LOCAL = re.compile(rb"/(?:home|root|Users|work)/")
"""Paths of one machine."""


@pytest.mark.parametrize("run", published(), ids=lambda run: run.manifest.run_id)
def test_a_published_run_is_whole_and_verified(run):
    assert damages(run.directory) == {}
    assert run.manifest.finished
    assert not run.missing
    assert not run.problems
    assert not [record.cell.id for record in run.records if record.status.is_bad]
    passed = [record for record in run.records if record.status is Status.OK]
    assert passed
    assert all(record.verification.passed for record in passed)
    assert run.manifest.machine.git is not None
    assert not run.manifest.machine.git.dirty


def test_published_runs_are_small_and_name_no_local_path():
    contents = {path: path.read_bytes() for path in RUNS.rglob("*") if path.is_file()}
    assert contents
    assert sum(map(len, contents.values())) < MOST_BYTES
    assert [path for path, content in contents.items() if LOCAL.search(content)] == []


def test_the_page_of_published_runs_is_made_from_them():
    page = (RUNS.parents[1] / "docs" / "reference" / "measured.md").read_text("utf-8")
    assert renewed(page) == page
