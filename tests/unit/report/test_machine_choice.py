"""The cheapest machine that suffices, by runs that were made on several kinds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from skymark.model.errors import UsageError
from skymark.report.tuning import cheapest, machine_row, machines_of
from tests.scripted_suite import ScriptedSuite, cell_of
from tests.unit.execute.tuning import ORDER, record_of

WORK = cell_of("a", step=20)


def run_on(machine, price, *records):
    """As much of a run as is looked at."""
    hardware = SimpleNamespace(name=machine, limits=SimpleNamespace(usable_cores=8))
    manifest = SimpleNamespace(machine=hardware, hourly_price_usd=price)
    return SimpleNamespace(records=records, manifest=manifest, directory=Path(machine))


def found(*runs, same=("step",)):
    return machines_of(runs, WORK, ScriptedSuite(), ORDER, same)


def fed(share, **settings):
    return record_of(cell_of("b", **({"step": 20} | settings)), share, 1.0)


def test_of_machines_that_suffice_the_cheapest_is_named():
    machines = found(
        run_on("small", 0.5, fed(0.7)),
        run_on("dear", 4.0, fed(0.99)),
        run_on("right", 2.0, fed(0.5), fed(0.96)),
        run_on("own", None, fed(1.0)),
    )
    assert [one.name for one in machines] == [
        "right, 8 cores",
        "dear, 8 cores",
        "own, 8 cores",
        "small, 8 cores",
    ]
    best = cheapest(machines)
    assert best is not None
    assert best.hourly_price_usd == 2.0
    assert machine_row(best, ORDER)[:4] == ("right, 8 cores", "2.00", "yes", "b")


def test_where_none_suffices_or_no_price_is_known_none_is_named():
    assert cheapest(found(run_on("small", 0.5, fed(0.7)), run_on("own", None, fed(1.0)))) is None


def test_the_best_run_of_one_kind_of_machine_counts():
    (machine,) = found(run_on("x", 1.0, fed(0.7)), run_on("x", 1.0, fed(0.97)))
    assert machine.suffices


def test_runs_of_other_work_are_refused_with_what_to_measure():
    with pytest.raises(UsageError, match="S-1:small with step=20 "):
        found(run_on("x", 1.0, fed(0.99, step=30)))
    other = record_of(cell_of("b", "S-2", step=20), 0.99, 1.0)
    with pytest.raises(UsageError, match=r"S-1:small .*--runs"):
        found(run_on("x", 1.0, other))


def test_a_tune_s_own_axes_are_no_other_work():
    cell = cell_of("b", step=20, workers=4).model_copy(update={"axes": {"workers": 4}})
    (machine,) = found(run_on("x", 1.0, record_of(cell, 0.99, 1.0)))
    assert machine.suffices
