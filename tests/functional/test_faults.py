"""Bad adapters and bad machines: a clear end for each cell, and nothing is lost."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from skymark.model.record import RoundResult, Status
from skymark.rundir.reader import read_record
from tests.faults.runs import WITNESS
from tests.functional.conftest import CHEATS, Ran, command, environment, run_in
from tests.waiting import until

BROKEN = [f"{CHEATS}:{name}" for name in ("Leaks", "Dies", "Prints", "Raises")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of the broken adapters beside a good one."""
    return run_in(
        *(tmp_path_factory.mktemp("faults"), "run", "--scenarios", "TAB-1"),
        *("--effort", "check", "--adapters", *BROKEN, "numpy"),
    )


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """One of an adapter that hangs, whose time limit may be too short for the one beside it."""
    return run_in(
        *(tmp_path_factory.mktemp("hung"), "run", "--scenarios", "TAB-1", "--effort", "check"),
        *("--timeout", "10", "--adapters", f"{CHEATS}:Hangs", "numpy"),
    )


def test_a_run_with_bad_cells_exits_with_status_1(ran):
    assert ran.status == 1, ran.stderr
    assert ran.manifest.finished


def test_an_adapter_that_hangs_is_ended_at_its_time_limit_and_the_run_goes_on(hung):
    assert hung.status == 1, hung.stderr
    assert hung.manifest.finished
    records = hung.records
    assert set(records) == {"loading.TAB-1.small.hangs", "loading.TAB-1.small.numpy"}
    assert records["loading.TAB-1.small.hangs"].status is Status.TIMEOUT
    assert "10 s" in records["loading.TAB-1.small.hangs"].cause.message


def test_a_killed_worker_fails_its_cell_and_names_the_signal(ran):
    record = ran.records["loading.TAB-1.small.dies"]
    assert record.status is Status.FAILED
    assert "signal 9" in record.cause.message


def test_an_adapter_that_raises_fails_and_its_log_has_the_traceback(ran):
    record = ran.records["loading.TAB-1.small.raises"]
    assert record.status is Status.FAILED
    assert record.cause.kind == "RuntimeError"
    assert "Traceback" in (ran.output / "logs" / "loading.TAB-1.small.raises.log").read_text()


def test_an_adapter_that_writes_to_standard_output_disturbs_nothing(ran):
    assert ran.records["loading.TAB-1.small.prints"].status is Status.OK
    assert (
        "a library that talks"
        in (ran.output / "logs" / "loading.TAB-1.small.prints.log").read_text()
    )
    assert "a library that talks" not in ran.stdout + ran.stderr


def test_leaked_processes_are_ended_and_reported(ran):
    record = ran.records["loading.TAB-1.small.leaks"]
    assert record.status is Status.OK
    (warning,) = [one for one in record.warnings if one.kind == "leaked-processes"]
    pids = [int(pid) for pid in re.findall(r"sleep 3600 \(pid (\d+)\)", warning.message)]
    assert pids
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_the_good_adapter_beside_them_is_measured(ran):
    assert ran.records["loading.TAB-1.small.numpy"].status is Status.OK


# Interrupted runs

LASTING = ("--adapters", f"{WITNESS}:Witness", "--effort", "check", "--timeout", "300")
"""An adapter that a test can hold, and time for it."""
TWO = ("run", "--scenarios", "TAB-1", "NLP-1", *LASTING, "--rounds", "3")
HEEDS_CTRL_C = ("env", "--default-signal=INT")


@pytest.fixture
def hold(tmp_path, monkeypatch):
    """The file whose number is that of the round at which the runs told of it are to wait."""
    monkeypatch.setenv("WITNESS", str(tmp_path / "witness"))
    monkeypatch.setenv("SKYMARK_PASS_VARIABLES", "WITNESS,HOLD")
    return tmp_path / "hold"


def begun(directory):
    """How many rounds have begun there."""
    witness = directory / "witness"
    return len(witness.read_text().splitlines()) if witness.exists() else 0


def start(directory, *arguments, output="out", **variables):
    """Start a command in a session of its own, so that signals reach nothing else.

    A shell has what it starts in the background ignore Ctrl-C: these tests, perhaps.
    """
    return subprocess.Popen(
        [*HEEDS_CTRL_C, *command(*arguments), "--output", str(directory / output)],
        env=environment(directory) | variables,
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def rounds_in(directory):
    """The rounds of unfinished cells in a run, by file."""
    found = {}
    for path in directory.glob("rounds/*/[0-9]*.json"):
        with contextlib.suppress(FileNotFoundError):  # a record has replaced it
            found[path] = path.read_bytes()
    return found


def workers_of(directory):
    """The worker processes whose logs go there, and what they started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "SKYMARK_WORKER" in process.environ() and any(
                Path(file.path).is_relative_to(directory) for file in process.open_files()
            ):
                found.append(process)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupted_run_is_valid_and_resume_completes_it(tmp_path, skymark, hold, number):
    hold.write_text("2")
    with start(tmp_path, *TWO, HOLD=str(hold)) as process:
        until(lambda: begun(tmp_path) == 2)
        assert rounds_in(tmp_path / "out")
        os.kill(process.pid, number)
        hold.unlink()
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "--resume" in stderr
    until(lambda: not workers_of(tmp_path / "out"))
    kept = rounds_in(tmp_path / "out")
    assert kept
    assert skymark("report", "out").status == 0

    refused = skymark(*TWO)
    assert refused.status == 2
    assert "add --resume" in refused.stderr
    assert rounds_in(tmp_path / "out") == kept

    resumed = skymark(*TWO, "--resume")
    assert resumed.status == 0, resumed.stderr
    assert resumed.manifest.finished
    assert [record.status for record in resumed.records.values()] == [Status.OK] * 2
    for record in resumed.records.values():
        assert [one.round for one in record.rounds] == [0, 1, 2]
    assert not rounds_in(tmp_path / "out")
    for path, content in kept.items():
        first = RoundResult.model_validate(json.loads(content)["result"])
        record = resumed.records[path.parent.name]
        assert record.rounds[first.round] == first.summary


def test_only_cells_of_the_named_statuses_are_run_again(tmp_path, skymark):
    (tmp_path / "own.py").write_text(
        "import os\n"
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Own(NumpyReference):\n"
        "    slug = 'own'\n"
        "    def open(self, job):\n"
        "        if 'MENDED' not in os.environ:\n"
        "            raise RuntimeError('not yet')\n"
        "        return super().open(job)\n"
    )
    arguments = ("run", "--scenarios", "TAB-1", "--effort", "check", "--adapters", "numpy")
    arguments = (*arguments, "./own.py:Own")
    first = skymark(*arguments)
    assert first.status == 1
    mended = {"MENDED": "1", "SKYMARK_PASS_VARIABLES": "MENDED"}
    kept = skymark(*arguments, "--resume", **mended)
    assert kept.status == 1
    assert kept.records == first.records
    again = skymark(*arguments, "--resume", "--retry", "failed,timeout", **mended)
    assert again.status == 0, again.stderr
    assert again.records["loading.TAB-1.small.own"].status is Status.OK
    assert again.records["loading.TAB-1.small.numpy"] == first.records["loading.TAB-1.small.numpy"]


# Two at once


def test_a_second_run_waits_for_the_machine_and_then_measures(tmp_path, hold):
    arguments = ("run", "--scenarios", "TAB-1", *LASTING, "--rounds", "2")
    hold.write_text("1")
    with start(tmp_path, *arguments, output="a", HOLD=str(hold)) as one:
        until(lambda: begun(tmp_path))
        with start(tmp_path, *arguments, output="b") as two:
            assert any("waiting: " in line for line in two.stderr)
            assert begun(tmp_path) == 1
            hold.unlink()
            ends = [(p.communicate(timeout=300)[1], p.returncode) for p in (one, two)]
    assert [status for _, status in ends] == [0, 0], ends
    assert not any("waiting: " in stderr for stderr, _ in ends)
    spans = []
    for name in "ab":
        path = tmp_path / name / "records" / "loading.TAB-1.small.witness.json"
        record = read_record(path)
        spans.append((record.started_at, record.ended_at))
    (_, first_end), (second_begin, _) = spans
    assert first_end <= second_begin


# A machine without room


def test_a_full_disk_stops_the_run_and_keeps_what_was_written(tmp_path, skymark):
    small = tmp_path / "small"
    small.mkdir()
    inside = (
        f"mount -t tmpfs -o size=48k tmpfs {small} || exit 77; "
        f'ln -s {small} {tmp_path}/out; "$@"; status=$?; '
        f"cp -r {small} {tmp_path}/kept; exit $status"
    )
    ran = skymark(
        *(
            "run",
            "--scenarios",
            "TAB-1",
            "NLP-1",
            "PC-1",
            "--adapters",
            "numpy",
            "--effort",
            "check",
        ),
        prefix=("unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh"),
    )
    if ran.status == 77 or "unshare:" in ran.stderr:
        pytest.skip(f"this machine lets nobody mount a small disk: {ran.stderr.strip()}")
    assert ran.status == 1, ran.stderr
    assert "disk is full" in ran.stderr
    assert "--resume" in ran.stderr
    kept = Ran(ran.status, "", "", tmp_path / "kept")
    assert not kept.manifest.finished
    assert rounds_in(kept.output) or kept.records
    for content in rounds_in(kept.output).values():
        RoundResult.model_validate(json.loads(content)["result"])
    assert not list(kept.output.rglob("*.part"))
