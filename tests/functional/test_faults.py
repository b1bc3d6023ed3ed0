"""Bad adapters and bad machines: a clear end for each cell, and nothing is lost."""

import os
import signal
import subprocess
import time

import psutil
import pytest

from skymark.model.record import Status
from tests.functional.conftest import CHEATS, command, environment


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of the broken adapters beside a good one."""
    directory = tmp_path_factory.mktemp("faults")
    broken = [f"{CHEATS}:{name}" for name in ("Hangs", "Leaks", "Dies", "Prints", "Raises")]
    done = subprocess.run(
        command(
            *("run", "--scenarios", "TAB-1", "--rounds", "1", "--timeout", "5"),
            *("--output", str(directory / "out"), "--adapters", *broken, "numpy"),
        ),
        capture_output=True,
        text=True,
        env=environment(directory),
        check=False,
    )
    from tests.functional.conftest import Ran

    return Ran(done.returncode, done.stdout, done.stderr, directory / "out")


def test_a_run_with_bad_cells_exits_with_status_1(ran):
    assert ran.status == 1, ran.stderr
    assert ran.manifest.finished


def test_an_adapter_that_hangs_is_ended_at_its_time_limit(ran):
    record = ran.records["TAB-1.small.hangs"]
    assert record.status is Status.TIMEOUT
    assert "5 s" in record.cause.message


def test_a_killed_worker_fails_its_cell_and_names_the_signal(ran):
    record = ran.records["TAB-1.small.dies"]
    assert record.status is Status.FAILED
    assert "signal 9" in record.cause.message


def test_an_adapter_that_raises_fails_and_its_log_has_the_traceback(ran):
    record = ran.records["TAB-1.small.raises"]
    assert record.status is Status.FAILED
    assert record.cause.message == "RuntimeError: the library is broken"
    assert "Traceback" in (ran.output / "logs" / "TAB-1.small.raises.log").read_text()


def test_an_adapter_that_writes_to_standard_output_disturbs_nothing(ran):
    assert ran.records["TAB-1.small.prints"].status is Status.OK
    assert "a library that talks" in (ran.output / "logs" / "TAB-1.small.prints.log").read_text()
    assert "a library that talks" not in ran.stdout + ran.stderr


def test_leaked_processes_are_ended_and_reported(ran):
    record = ran.records["TAB-1.small.leaks"]
    assert record.status is Status.OK
    assert [warning.kind for warning in record.warnings if warning.kind == "leaked-processes"]
    asleep = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "3600"]]
    assert not asleep


def test_the_good_adapter_beside_them_is_measured(ran):
    assert ran.records["TAB-1.small.numpy"].status is Status.OK


def test_ctrl_c_leaves_a_run_that_resume_completes(tmp_path, skymark):
    arguments = ("run", "--scenarios", "TAB-1", "NLP-1", "CV-1", "--adapters", "numpy")
    process = subprocess.Popen(
        [*command(*arguments), "--output", str(tmp_path / "out")],
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    rounds = tmp_path / "out" / "rounds"
    deadline = time.monotonic() + 60
    while not list(rounds.glob("*/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "--resume" in stderr
    kept = {path: path.read_bytes() for path in rounds.glob("*/*.json")}
    assert kept

    refused = skymark(*arguments)
    assert refused.status == 2
    assert "--resume" in refused.stderr

    resumed = skymark(*arguments, "--resume")
    assert resumed.status == 0, resumed.stderr
    assert resumed.manifest.finished
    assert [record.status for record in resumed.records.values()] == [Status.OK] * 3
    assert all(len(record.rounds) == 3 for record in resumed.records.values())
    assert not list(rounds.glob("*/*.json"))


def test_a_full_disk_stops_the_run_and_keeps_what_was_written(tmp_path, skymark):
    small = tmp_path / "small"
    small.mkdir()
    inside = (
        f"mount -t tmpfs -o size=120k tmpfs {small} && "
        f"ln -s {small} {tmp_path}/out && \"$@\"; status=$?; "
        f"cp -r {small} {tmp_path}/kept; exit $status"
    )
    ran = skymark(
        *("run", "--scenarios", "TAB-1", "NLP-1", "CV-1", "PC-1", "--adapters", "numpy"),
        prefix=("unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh"),
    )
    assert ran.status == 1, ran.stderr
    assert "the disk is full" in ran.stderr
    assert "--resume" in ran.stderr
    assert (tmp_path / "kept" / "manifest.json").stat().st_size > 0
