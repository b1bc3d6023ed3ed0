"""The times of earlier runs, as their records tell them."""

from __future__ import annotations

import pytest

from skymark.model.machine import SIMULATED
from skymark.model.manifest import Pair
from skymark.model.record import Status
from skymark.model.schema import sealed
from skymark.rundir.history import LONGEST_PAUSE_S, SHARED_FACTOR, past_run, read_history
from tests.unit.rundir.past_runs import EFFORT, cell, manifest, plan, record

FIRST, SECOND, GRAIN = cell("CV-1"), cell("CV-2"), cell("CV-1", "grain")


def run_of(*records):
    return past_run(manifest(plan([one.cell for one in records])), records)


def test_a_round_takes_until_the_next_round_of_any_cell_begins():
    found = run_of(record(FIRST, [0, 7]), record(SECOND, [3, 12], end_s=14))
    assert found.cells[FIRST.hash].round_s == pytest.approx((3 + 5) / 2)
    assert found.cells[FIRST.hash].rounds == 2


def test_all_parts_together_are_the_time_from_the_first_round_to_the_end():
    records = record(FIRST, [0, 10]), record(SECOND, [2, 13]), record(GRAIN, [6, 19], end_s=23)
    found = run_of(*records)
    cells = sum(one.rounds * one.round_s for one in found.cells.values())
    starts = sum(2 * one for one in found.start_s.values())
    assert cells + starts == pytest.approx(23)


def test_the_start_of_a_process_is_no_part_of_the_round_before_it():
    # Rounds inside a process take twice what is timed; the last one is followed by 5 s of start.
    found = run_of(record(FIRST, [0, 9]), record(SECOND, [2, 11], end_s=18))
    assert found.cells[SECOND.hash].round_s == pytest.approx(2)
    assert found.start_s["numpy"] == pytest.approx(5)


def test_a_pause_in_a_run_is_not_taken_for_a_long_round():
    found = run_of(record(FIRST, [0, 90_000]), record(SECOND, [2, 90_002], end_s=90_004))
    longest_s = EFFORT.cell_timeout_s + LONGEST_PAUSE_S
    assert found.start_s["numpy"] <= longest_s / 2


def test_rounds_of_machines_that_shared_a_run_are_not_taken_for_short_ones():
    # While the first machine measures for 4 s, the second begins.
    shared = run_of(
        record(FIRST, [0, 12], timed_s=4),
        record(SECOND, [1, 13], timed_s=4, end_s=25),
    )
    assert shared.cells[FIRST.hash].round_s == pytest.approx(4 * SHARED_FACTOR)


def test_a_cell_that_ended_badly_tells_nothing():
    found = run_of(record(FIRST, [0], end_s=1), record(SECOND, [3], end_s=4, status=Status.INVALID))
    assert set(found.cells) == {FIRST.hash}


def test_a_run_that_measured_nothing_tells_nothing():
    assert run_of(record(FIRST, [], status=Status.SKIPPED)) is None


def write(directory, made, records):
    (directory / "records").mkdir(parents=True)
    (directory / "manifest.json").write_bytes(sealed(made))
    for one in records:
        (directory / "records" / f"{one.cell.id}.json").write_bytes(sealed(one))


def test_runs_of_the_planned_cells_are_found_on_disk(tmp_path):
    write(tmp_path / "a", manifest(plan([FIRST])), [record(FIRST, [0, 4], end_s=8)])
    write(tmp_path / "b", manifest(plan([SECOND])), [record(SECOND, [0, 4], end_s=8)])
    (found,) = read_history(tmp_path, plan([FIRST]))
    assert set(found.cells) == {FIRST.hash}


def test_what_cannot_be_read_is_passed_over(tmp_path):
    write(tmp_path / "a", manifest(plan([FIRST, SECOND])), [record(FIRST, [0, 4], end_s=8)])
    (tmp_path / "a" / "records" / f"{SECOND.id}.json").write_text("{")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_text("no JSON")
    (found,) = read_history(tmp_path, plan([FIRST]))
    assert set(found.cells) == {FIRST.hash}


def test_what_was_rehearsed_tells_nothing_of_a_real_machine(tmp_path):
    real = manifest(plan([FIRST]))
    limits = real.machine.limits.model_copy(update={"container": SIMULATED})
    simulated = real.machine.model_copy(update={"limits": limits})
    rehearsed = real.model_copy(update={"machine": simulated})
    write(tmp_path / "a", rehearsed, [record(FIRST, [0, 4], end_s=8)])
    assert read_history(tmp_path, plan([FIRST])) == ()


def test_between_the_rounds_of_a_side_lie_those_of_the_other(tmp_path):
    duet = Pair(side="candidate", partner="a-baseline", commit="c" * 40)
    side = manifest(plan([FIRST])).model_copy(update={"duet": duet})
    write(tmp_path / "a", side, [record(FIRST, [0, 4], end_s=8)])
    assert read_history(tmp_path, plan([FIRST])) == ()


def test_no_directory_is_no_history(tmp_path):
    assert read_history(tmp_path / "none", plan([FIRST])) == ()


def test_only_the_latest_runs_are_looked_into_where_time_is_short(tmp_path):
    for name in ("a", "b", "c"):
        write(tmp_path / name, manifest(plan([FIRST])), [record(FIRST, [0, 4], end_s=8)])
    assert len(read_history(tmp_path, plan([FIRST]), latest=2)) == 2
