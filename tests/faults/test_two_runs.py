"""Two runs that write into one directory, also where nothing makes them take turns."""

from __future__ import annotations

from skymark.rundir.directory import RunDirectory
from tests.faults.runs import Case
from tests.waiting import until


def test_a_second_run_of_one_plan_is_refused_or_waits_and_measures_nothing_again(tmp_path, table):
    one = Case(tmp_path, lock="one.lock")
    other = Case(tmp_path, lock="other.lock")
    first = one.start_and_hold(1)
    refused = other.start()
    _, words = refused.communicate(timeout=300)
    assert first.poll() is None
    assert refused.returncode == 2, words
    assert f"writing to {one.output}" in words
    assert "--resume" in words
    second = other.start("--resume")
    assert any("waiting" in line for line in second.stderr)
    one.release()
    status, stderr = one.finish(first)
    assert status == 0, stderr
    one.kept = one.on_disk()
    status, stderr = other.finish(second)
    assert status == 0, stderr
    row = one.row()
    table.add("two runs of one plan into one directory", row)
    assert (row.lost, row.repeated) == (0, 0)


def test_two_runs_of_one_plan_started_at_once_share_the_directory_in_turn(tmp_path, table):
    cases = [Case(tmp_path, lock=name) for name in ("one.lock", "other.lock")]
    processes = [case.start("--resume") for case in cases]
    for case, process in zip(cases, processes, strict=True):
        status, stderr = case.finish(process)
        assert status == 0, stderr
    row = cases[0].row()
    table.add("two runs of one plan into one directory", row)
    assert (row.lost, row.repeated) == (0, 0)


def test_a_run_of_another_plan_is_refused_and_disturbs_nothing(tmp_path, table):
    one = Case(tmp_path, lock="one.lock")
    different = ("--scenarios", "PC-1", "--axis", "depth=3", "--adapters", "numpy")
    other = Case(tmp_path, different, lock="other.lock")
    first = one.start()
    until(one.begun, what="a round")
    for more in ((), ("--resume",)):
        refused = other.start(*more)
        _, words = refused.communicate(timeout=300)
        assert refused.returncode == 2, words
    status, stderr = one.finish(first)
    assert status == 0, stderr
    row = one.row()
    table.add("two runs of different plans into one directory", row)
    assert (row.lost, row.repeated) == (0, 0)


def test_two_workers_that_finish_the_same_cells_leave_whole_records(
    tmp_path, moments, chance, table
):
    """Where locks do not hold, both runs measure; removing the lock file shows it."""
    for moment in range(moments):
        output = tmp_path / f"out-{moment}"
        cases = [Case(tmp_path, output=output, lock=f"{name}-{moment}") for name in ("a", "b")]
        at = chance.randint(1, 3)
        first = cases[0].start_and_hold(at)
        (output / ".lock").unlink()
        second = cases[1].start("--resume")
        until(lambda case=cases[0], at=at: len(case.begun()) > at, what="a round of the other")
        cases[0].release()
        for case, process in zip(cases, (first, second), strict=True):
            status, stderr = case.finish(process)
            assert status == 0, stderr
        case = cases[0]
        run, begun = RunDirectory(output), case.begun()
        assert len(begun) > 8, "the two did not measure at once"
        broken = [cell.id for cell in run.manifest().cells.values() if run.record(cell) is None]
        status, stderr = case.run("--resume")
        assert status == 0, stderr
        row = case.row()
        table.add("two workers finishing the same cell", row)
        assert row.lost == 0
        assert not broken, "records whose samples are the other worker's"
        assert row.repeated <= 8
