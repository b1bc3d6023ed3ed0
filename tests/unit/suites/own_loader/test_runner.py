"""The figures of a trial, and what they say that a user could buy."""

from __future__ import annotations

import pytest

from skymark.model.metric import Figure
from skymark.model.record import Resources
from skymark.suites.own_loader.metrics import COST, RATE, UTILISATION
from skymark.suites.own_loader.runner import _to_buy, metrics_of
from skymark.suites.own_loader.trial import Counted
from tests.scripted_suite import cell_of
from tests.unit.execute.tuning import record_of


def test_a_loop_s_figures_follow_from_its_time_its_samples_and_its_cpu_time():
    waits = (10_000_000,) * 50
    counted = Counted(elapsed_ns=1_000_000_000, waits_ns=waits, samples=1600)
    found = metrics_of(counted, Resources(cpu_s=0.88), wall_s=1.1)
    assert found[RATE] == pytest.approx(1600)
    assert found[UTILISATION] == pytest.approx(0.5)
    assert found[COST] == pytest.approx(1000 * 0.8 / 1600)
    assert found["median_wait_ns"] == found["p99_wait_ns"] == 10_000_000


def test_unknown_cpu_time_is_no_figure():
    counted = Counted(elapsed_ns=9_000_000, waits_ns=(1,), samples=4)
    assert COST not in metrics_of(counted, Resources(), wall_s=1.0)


@pytest.mark.parametrize(("cores", "buys"), [(2, True), (16, False)])
def test_more_cores_are_advised_where_the_work_takes_more_than_there_are(cores, buys):
    record = record_of(cell_of("a"), 0.5, 1.0)
    figures = {UTILISATION: 0.5, COST: 2.0, RATE: 1000.0}  # 2,000 samples/s at 2 ms of CPU each
    record = record.model_copy(
        update={"metrics": {name: Figure(value=value) for name, value in figures.items()}}
    )
    assert any("4 cores" in line for line in _to_buy(record, cores, None)) == buys
