"""A rehearsal's end ends what SkyPilot's clients left running, and nobody else's processes."""

from __future__ import annotations

import signal
import subprocess

import psutil
import pytest

from sky_rehearsal.changes import end_processes_at_home, processes_at_home


def sleeper_at(home):
    return subprocess.Popen(["sleep", "600"], env={"HOME": str(home)}, start_new_session=True)


@pytest.fixture
def homes(tmp_path):
    """Two homes, of which one's path begins like the other's."""
    return tmp_path / "home", tmp_path / "home-of-another"


def test_processes_of_a_home_end_and_others_go_on(homes):
    here, elsewhere = (sleeper_at(home) for home in homes)
    try:
        assert [process.pid for process in processes_at_home(homes[0])] == [here.pid]
        end_processes_at_home(homes[0])
        assert processes_at_home(homes[0]) == []
        assert here.wait() == -signal.SIGKILL
        assert elsewhere.poll() is None
    finally:
        for process in (here, elsewhere):
            process.kill()
            process.wait()


def test_a_process_that_ends_by_itself_in_between_is_no_problem(homes, monkeypatch):
    gone = sleeper_at(homes[0])
    seen = iter([[psutil.Process(gone.pid)], []])
    gone.kill()
    gone.wait()
    monkeypatch.setattr("sky_rehearsal.changes.processes_at_home", lambda _: next(seen))
    end_processes_at_home(homes[0])
    assert list(seen) == []
