"""Runs whose cells borrow variance from each other, from the first round to a second reading."""

from __future__ import annotations

import pytest

from skymark.execute import session
from skymark.execute.sweeps import Sweeps
from skymark.model.requests import Results
from skymark.rundir.mending import damages
from skymark.rundir.reader import open_run
from skymark.statistics.interval import estimate
from tests.scripted_suite import EFFORT, ScriptedSuite, Witness, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

TIMES_MS = ("100,101,99", "100,104,97", "100,120,90", "100,102,100", "100,95,108", "100,100,103")


@pytest.fixture
def carried_out(bed, taken, monkeypatch, tmp_path):
    """Carry out a run of six cells of different spread."""
    monkeypatch.setattr(session, "suite_named", lambda _: ScriptedSuite())
    monkeypatch.setattr(session, "cache_directory", lambda: bed.cache)
    taken.shares = [0.0] * 3 * len(TIMES_MS)
    cells = [cell_of(name, ms=ms) for name, ms in zip("abcdef", TIMES_MS, strict=True)]
    plan = plan_of(*cells, effort=EFFORT.model_copy(update={"min_rounds": 3, "max_rounds": 3}))

    def carry_out(*, resume=False):
        results = Results(output=tmp_path / "run", resume=resume)
        return session.run(plan, results, Witness(), Sweeps(), own=False)

    return carry_out


def test_a_run_read_again_has_the_figures_of_its_records_and_their_rounds(carried_out):
    finished = carried_out()
    run = open_run(finished.path)
    assert run.records == finished.records
    assert damages(finished.path) == {}
    for record in run.records:
        values = record.values("steps_per_s")
        variance = record.borrowed_spreads["steps_per_s"] ** 2
        assert record.metrics["steps_per_s"] == estimate(values, "log", variance)
        assert record.metrics["steps_per_s"] != estimate(values)


def test_a_run_that_is_resumed_after_its_end_keeps_its_records(carried_out):
    path = carried_out().path
    before = {file.name: file.read_bytes() for file in (path / "records").iterdir()}
    assert carried_out(resume=True).path == path
    assert {file.name: file.read_bytes() for file in (path / "records").iterdir()} == before
