"""The progress of a run, in a terminal and elsewhere."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.progress import Task, TaskID

from skymark.cli.progress import ProgressObserver, TimeLeftColumn, time_left_s
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Cause, Cell, Record, Round, Status
from skymark.report.progress import LiveStanding

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CELL = Cell(suite="loading", scenario="TAB-1", variant="small", adapter="grain")


def record_of(status, message="why\nand its traceback"):
    cause = None if status is Status.OK else Cause(kind="x", message=message)
    return Record(
        cell=CELL, cell_hash="0", status=status, cause=cause, started_at=NOW, ended_at=NOW
    )


RATES = Declaration(
    suite="loading",
    metrics=(
        Metric(name="rows_per_s", heading="rows/s", scale="log", better="higher"),
        Metric(name="epochs_per_s", heading="epochs/s", scale="log", better="higher"),
    ),
    primary="rows_per_s",
    stand_in="epochs_per_s",
    adapter_names={"grain": "Google Grain"},
)


def observer_on(*, terminal, declaration=None):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    return ProgressObserver(console, expected_s=90.0, declaration=declaration), file


def cell_of(adapter, scenario="TAB-1"):
    return CELL.model_copy(update={"adapter": adapter, "scenario": scenario})


def round_of(value, name="rows_per_s"):
    return Round(round=0, started_at=NOW, setup_s=0, timed_ns=1, metrics={name: value})


@pytest.mark.parametrize("status", list(Status))
def test_a_bad_or_skipped_cell_is_told_in_one_line_and_others_are_not(status):
    observer, file = observer_on(terminal=False)
    with observer:
        observer.planned(3)
        observer.ended(record_of(status), rounds_left=1)
    told = file.getvalue()
    if status in {Status.OK, Status.UNSUPPORTED}:
        assert told == ""
    elif status is Status.SKIPPED:
        assert told.splitlines() == ["    skipped  grain: why"]
    else:
        assert told.splitlines() == [f"{status.value:>11}  TAB-1:small  grain: why"]


def test_what_keeps_all_cells_of_an_adapter_from_running_is_told_once():
    observer, file = observer_on(terminal=False)
    with observer:
        for message in ("absent", "absent", "broken", ""):
            observer.ended(record_of(Status.SKIPPED, message))
    assert file.getvalue().splitlines() == [
        "    skipped  grain: absent",
        "    skipped  grain: broken",
        "    skipped  grain: ",
    ]


def test_stages_are_lines_whatever_brackets_they_hold():
    observer, file = observer_on(terminal=False)
    with observer:
        observer.stage("making [the environment] of grain[extra] (once)")
    assert file.getvalue() == "making [the environment] of grain[extra] (once)\n"


def test_nothing_is_drawn_where_there_is_no_terminal():
    observer, file = observer_on(terminal=False)
    with observer:
        observer.planned(2)
        observer.measuring(CELL, 0)
        observer.measured(CELL, 0, None)
    assert file.getvalue() == ""


def test_a_terminal_shows_cell_round_and_how_far_it_is():
    observer, file = observer_on(terminal=True)
    with observer:
        observer.planned(2)
        observer.measuring(CELL, 1)
        observer.measured(CELL, 1, None)
        observer._progress.refresh()
    drawn = file.getvalue()
    assert re.search(r"\b2 +TAB-1:small +grain", drawn)
    assert "1/2" in drawn
    assert "left 0:01:30" in drawn


def test_the_time_left_is_the_estimate_at_first_and_the_pace_at_last():
    assert time_left_s(90.0, elapsed_s=5.0, completed=0, total=4) == 90.0
    # Half of it took 100 s: half by the pace of 200 s, half by the estimate of 90 s.
    assert time_left_s(90.0, elapsed_s=100.0, completed=2, total=4) == (200.0 + 90.0) / 2 / 2
    assert time_left_s(90.0, elapsed_s=300.0, completed=4, total=4) == 0.0


def test_the_time_left_is_counted_down_between_rounds():
    now = [0.0]
    column = TimeLeftColumn(expected_s=90.0)
    task = Task(TaskID(0), "", 4, 0, _get_time=lambda: now[0])
    task.start_time = 0.0
    shown = []
    for now[0] in (0.0, 30.0, 100.0):
        shown.append(str(column.render(task)))
    task.completed = 2  # in 100 s: half by the pace of 200 s, half by the estimate
    shown += [str(column.render(task))]
    now[0] = 160.0
    shown += [str(column.render(task))]
    assert shown == ["0:01:30", "0:01:00", "0:00:00", "0:01:12", "0:00:12"]


def test_the_bar_grows_with_rounds_that_were_not_planned():
    observer, _ = observer_on(terminal=False)
    with observer:
        observer.planned(1)
        for number in range(3):
            observer.measured(CELL, number, None)
    (task,) = observer._progress.tasks
    assert (task.completed, task.total) == (3, 3)


def test_before_the_first_round_the_estimate_tells_the_time_that_is_left():
    assert time_left_s(120.0, 5.0, 0, 10) == 120.0


@pytest.mark.parametrize(("completed", "left_s"), [(2, 0.8 * 180), (5, 0.5 * 150), (10, 0.0)])
def test_the_more_is_done_the_less_the_estimate_counts(completed, left_s):
    """The estimate is 200 s; at the speed so far the whole takes 100 s."""
    assert time_left_s(200.0, 100.0 * completed / 10, completed, 10) == pytest.approx(left_s)


ROUNDS = (
    (cell_of("grain"), round_of(400.0)),
    (cell_of("numpy"), round_of(500.0)),
    (cell_of("grain"), None),  # the oracle refused it
    (cell_of("grain"), round_of(440.0)),
    (cell_of("grain", "CV-1"), round_of(7.0, "epochs_per_s")),
)


def test_without_a_terminal_each_round_has_a_line_with_the_figures_so_far():
    observer, file = observer_on(terminal=False, declaration=RATES)
    with observer:
        for number, (cell, result) in enumerate(ROUNDS):
            observer.measured(cell, number, result)
    first, second, third, fourth = file.getvalue().splitlines()
    assert first == "TAB-1:small, Google Grain: 400 rows/s"
    assert second == "TAB-1:small, numpy: 500 rows/s"
    standing = r"TAB-1:small, Google Grain: 440 rows/s, .* 420; .*numpy\b.* 500"
    assert re.fullmatch(standing, third)
    assert fourth == "CV-1:small, Google Grain: 7.00 epochs/s"


def test_a_terminal_has_a_table_of_the_medians_so_far():
    observer, file = observer_on(terminal=True, declaration=RATES)
    with observer:
        for number, (cell, result) in enumerate(ROUNDS):
            observer.measured(cell, number, result)
        observer._progress.refresh()
    table = [line.split() for line in file.getvalue().splitlines()]
    assert ["Google", "Grain", "420", "(2)", "7.00", "(1)"] in table
    assert ["numpy", "500", "(1)"] in table


def test_of_many_scenarios_the_table_has_the_one_that_is_measured():
    standing = LiveStanding(RATES)
    for number in range(6):
        standing.add(cell_of("grain", f"S-{number}"), {"rows_per_s": 1.0})
    assert standing.headings() == ("median so far", "S-5:small, rows/s (rounds)")


def test_the_best_so_far_is_the_least_where_less_is_better():
    waits = RATES.metric("rows_per_s").model_copy(update={"better": "lower"})
    standing = LiveStanding(RATES.model_copy(update={"metrics": (waits, RATES.metrics[1])}))
    standing.add(cell_of("grain"), {"rows_per_s": 2.0})
    said = standing.add(cell_of("numpy"), {"rows_per_s": 3.0})
    assert re.search(r"Google Grain\b.* 2\.00$", said)
