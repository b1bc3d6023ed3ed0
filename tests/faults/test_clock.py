"""A wall clock that is set back while a run goes, as a time server may do it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from skymark.rundir.reader import open_run
from tests.faults.runs import Case, skymark, workers_of
from tests.waiting import until

pytestmark = pytest.mark.needs("compiler")

SOURCE = Path(__file__).with_name("clock.c")


@pytest.fixture
def clock(tmp_path):
    """The file that shifts the wall clock, and the variables of processes that it does it for."""
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
    offset.write_text("0")
    return offset, {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}


def test_a_clock_that_is_stepped_back_breaks_neither_records_nor_report_nor_resume(
    tmp_path, moments, chance, table, clock
):
    offset, variables = clock
    for moment in range(moments):
        offset.write_text("0")
        case = Case(tmp_path, output=tmp_path / f"out-{moment}", variables=variables)
        at = chance.randint(1, 6)
        process = case.start_and_hold(at)
        offset.write_text("-3600")
        case.release()
        until(lambda case=case, at=at: len(case.begun()) >= at + 1, what=f"round {at + 1}")
        process.kill()
        until(lambda process=process: not workers_of(process), 20)
        case.finish(process)
        case.faulted()
        status, stderr = case.run("--resume")
        assert status == 0, stderr
        row = case.row()
        table.add("clock stepped back one hour", row)
        assert row.lost == 0
        assert row.repeated <= 1
        begins = [one.started_at for r in open_run(case.output).records for one in r.rounds]
        assert (max(begins) - min(begins)).total_seconds() > 3000, "the clock did not step"
        assert skymark(tmp_path, "report", str(case.output)).returncode == 0


def test_a_record_may_end_before_it_began(tmp_path, clock):
    offset, variables = clock
    case = Case(tmp_path, variables=variables)
    process = case.start_and_hold(4)
    offset.write_text("-3600")
    case.release()
    status, stderr = case.finish(process)
    assert status == 0, stderr
    assert any(record.ended_at < record.started_at for record in open_run(case.output).records)
    assert case.row().repeated == 0
    assert skymark(tmp_path, "report", str(case.output)).returncode == 0
