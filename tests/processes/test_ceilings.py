"""What the machine itself can do is asked once for each scenario, and is in each record of it."""

from __future__ import annotations

import os

import pytest

from skymark.execute import ceilings
from skymark.execute.sweeps import run_sweeps
from tests.processes.conftest import WORKER_SIDE
from tests.scripted_suite import EFFORT, ScriptedSuite, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")


class Decoding(ScriptedSuite):
    """A suite whose scenario S-1 has ceilings."""

    ceilings = "scripted_ceilings"

    def codec(self, cell):
        return "JPEG" if cell.scenario == "S-1" else None


@pytest.fixture
def records_of(bed, monkeypatch):
    """Return the records of a run of two scenarios, given what the program does."""
    paths = [os.fspath(WORKER_SIDE), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setattr(ceilings, "TIMEOUT_S", 5.0)

    def records(does="answer", rounds=3):
        effort = EFFORT.model_copy(update={"min_rounds": rounds, "max_rounds": rounds})
        first = [cell_of(name, "S-1", ceilings=does) for name in "ab"]
        other = cell_of("a", "S-2", ceilings=does)
        plan = plan_of(*first, other, effort=effort)
        return run_sweeps(bed.measurer(plan, suite=Decoding()))

    return records


def test_each_record_of_a_scenario_with_ceilings_has_them(records_of, bed):
    *first, other = records_of()
    assert [record.limits.lowest.rate for record in first] == [1000.0, 1000.0]
    assert other.limits is None
    assert len((bed.cache / "asked").read_text().splitlines()) == 1
    assert bed.run.record(first[0].cell) == first[0]


@pytest.mark.parametrize(
    ("does", "reason"), [("fail", "no decoder"), ("hang", "longer"), ("lack", "codec")]
)
def test_where_they_cannot_be_measured_the_record_says_why(records_of, does, reason):
    for record in records_of(does)[:2]:
        assert record.status == "ok"
        assert record.limits.ceilings == ()
        assert reason in record.limits.missing


def test_a_trial_of_one_round_asks_nothing(records_of, bed):
    assert [record.limits for record in records_of(rounds=1)] == [None, None, None]
    assert not (bed.cache / "asked").exists()


def test_one_scenario_of_each_codec_whose_data_is_here_is_measured(bed, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.fspath(WORKER_SIDE))

    class Partly(Decoding):
        def unprepared(self, cells, cache):
            return [cell for cell in cells if cell.adapter == "absent"]

    cells = [cell_of(name, "S-1", ceilings="answer") for name in ("absent", "b", "c")]
    cells.append(cell_of("b", "S-2", ceilings="answer"))
    found = ceilings.limits_of_data_here(Partly(), cells, bed.cache, own=False)
    assert list(found) == [cells[1].label]
    assert len((bed.cache / "asked").read_text().splitlines()) == 1
