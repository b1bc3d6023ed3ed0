"""Logs of cells: bounded however much is printed, and nothing of a shorter output is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.execute import starting
from skymark.execute.starting import CappedLog, WorkerOutput
from skymark.execute.sweeps import run_sweeps
from skymark.model.record import Status
from tests.scripted_suite import cell_of, plan_of
from tests.waiting import until

NOTICE = re.compile(rb"\n\[skymark left out ([\d,]+) bytes here; .*\]\n")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of at most 100 bytes, of which the first and last 20 stay."""
    monkeypatch.setattr(starting, "HEAD_BYTES", 20)
    monkeypatch.setattr(starting, "TAIL_BYTES", 20)
    monkeypatch.setattr(starting, "MOST_BYTES", 200)


def taken_apart(log: Path) -> tuple[bytes, int, bytes]:
    """Return what a log has before its notice, the bytes that were left out, and the rest."""
    head, number, tail = NOTICE.split(log.read_bytes())
    return head, int(number.replace(b",", b"")), tail


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [0, 1, 19, 199, 200])
def test_a_short_log_is_whole(tmp_path: Path, size: int) -> None:
    printed = bytes(97 + n % 26 for n in range(size))
    log = CappedLog(tmp_path / "log")
    for begin in range(0, size, 7):
        log.write(printed[begin : begin + 7])
    log.close()
    assert (tmp_path / "log").read_bytes() == printed


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [201, 500, 5_000])
@pytest.mark.parametrize("step", [1, 7, 150, 5_000])
@pytest.mark.parametrize("again", [False, True])  # opened anew for each part, as by runs that go on
def test_a_long_log_keeps_its_beginning_and_end_and_says_how_much_is_left_out(
    tmp_path: Path, size: int, step: int, again: bool
) -> None:
    printed = bytes(97 + n % 26 for n in range(size))
    log = CappedLog(tmp_path / "log")
    for begin in range(0, size, step):
        if again:
            log.close()
            log = CappedLog(tmp_path / "log")
        log.write(printed[begin : begin + step])
        assert (tmp_path / "log").stat().st_size <= 200
    log.close()
    head, left_out, tail = taken_apart(tmp_path / "log")
    assert head == printed[:20]
    assert printed.endswith(tail)
    assert len(tail) >= 20
    assert len(head) + left_out + len(tail) == size


@pytest.mark.usefixtures("small")
def test_what_earlier_versions_left_long_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a" * 1_000)
    log = CappedLog(tmp_path / "log")
    log.write(b"b")
    log.close()
    assert taken_apart(tmp_path / "log") == (b"a" * 20, 961, b"a" * 19 + b"b")


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        CappedLog(tmp_path / "log")


FLOOD = "import sys, os; [os.write(1, b'x' * 65536) for _ in iter(int, 1)]"


def test_a_program_that_prints_without_end_fills_no_disk(tmp_path: Path) -> None:
    log = tmp_path / "log"
    output = WorkerOutput(log)
    with output.handed_over():
        program = subprocess.Popen([sys.executable, "-c", FLOOD], stdout=output.descriptor)
    try:
        until(lambda: b"left out" in log.read_bytes()[: 3 << 20], 60, "a cut")
        assert log.stat().st_size <= starting.MOST_BYTES + starting.TAIL_BYTES
        other = tmp_path / "other"
        output.turn_to(other)
        size = log.stat().st_size
        until(lambda: other.exists() and other.stat().st_size > 1 << 20, 60, "the other log")
        assert log.stat().st_size == size
    finally:
        program.kill()
        program.wait()
    output.close()
    assert other.stat().st_size <= starting.MOST_BYTES


def test_what_was_printed_before_is_in_the_log_it_was_printed_for(tmp_path: Path) -> None:
    output = WorkerOutput(tmp_path / "0")
    for number in range(5):
        output.turn_to(tmp_path / str(number))
        os.write(output.descriptor, f"of {number}\n".encode())
    output.flush()
    os.close(output.descriptor)
    output.close()
    assert [(tmp_path / str(n)).read_text() for n in range(5)] == [f"of {n}\n" for n in range(5)]


@pytest.mark.usefixtures("processes_without_coverage")
@pytest.mark.parametrize("adapter", ["a", "forks"])
def test_a_library_that_prints_much_is_measured_and_its_run_ends_well(bed, monkeypatch, adapter):
    monkeypatch.setattr(starting, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(starting, "HEAD_BYTES", 1 << 10)
    monkeypatch.setattr(starting, "TAIL_BYTES", 1 << 10)
    cells = [cell_of(adapter, "S-1", does="gush-out"), cell_of(adapter, "S-2", does="print")]
    records = run_sweeps(bed.measurer(plan_of(*cells)))
    assert [record.status for record in records] == [Status.OK, Status.OK]
    loud, quiet = (bed.run.log_path(cell) for cell in cells)
    head, left_out, tail = taken_apart(loud)
    assert head.startswith(b"first\n")
    assert left_out > 30 << 20
    assert tail.endswith(b"last\n")
    assert loud.stat().st_size <= 1 << 20
    assert quiet.read_text().count("a library that talks") == 2
    assert b"a library that talks" not in loud.read_bytes()


@pytest.mark.usefixtures("processes_without_coverage")
def test_a_library_that_turned_its_output_elsewhere_prints_into_the_next_cells_log(bed):
    cells = [cell_of("a", "S-1", does="turn"), cell_of("a", "S-2", does="print")]
    run_sweeps(bed.measurer(plan_of(*cells)))
    assert "a library that talks" in bed.run.log_path(cells[1]).read_text()
