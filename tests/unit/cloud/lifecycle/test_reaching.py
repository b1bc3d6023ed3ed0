"""Reach machines over the SSH settings that SkyPilot writes: source, commands, the newest run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from skymark.cli.machines import rsync as copy
from skymark.cloud.machine_script import LATEST, RESULTS, source_place, within
from skymark.cloud.machines import newest_run
from skymark.cloud.sky.ssh import output_of, send_source, shell
from skymark.model.errors import UsageError

CLUSTER = "skymark-cpu"


@pytest.fixture
def homes(machines):
    """Homes of a cluster's two machines."""
    found = [machines.node(CLUSTER), machines.node(f"{CLUSTER}-worker1")]
    settings = Path("~/.sky/generated/ssh").expanduser() / CLUSTER
    settings.write_text(f"Host {CLUSTER}\n  User me\n\nHost {CLUSTER}-worker1\n  User me\n")
    return found


@pytest.fixture
def source(tmp_path):
    """A directory of files that are sent."""
    directory = tmp_path / "source"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "mine.py").write_text("print('one')\n")
    (directory / ".gitignore").write_text("mine.py\n")
    return directory


def run_in(home, submission):
    done = subprocess.run(
        ["bash", "-c", within(submission, "python3 -c 'import mine'")],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.needs("rsync")
def test_every_machine_gets_all_of_the_directory(homes, source):
    send_source(CLUSTER, 2, source, "first")
    for home in homes:
        there = home / source_place("first")
        names = {path.relative_to(there).as_posix() for path in there.rglob("*")}
        assert names == {"src", "src/mine.py", ".gitignore"}


@pytest.mark.needs("rsync")
def test_a_job_that_waits_keeps_its_source_when_the_next_one_is_sent(homes, source):
    send_source(CLUSTER, 2, source, "first")
    (source / "src" / "mine.py").write_text("print('two')\n")
    send_source(CLUSTER, 2, source, "second")
    for home in homes:
        assert (run_in(home, "first"), run_in(home, "second")) == ("one\n", "two\n")


def test_a_command_runs_on_the_machine_that_is_named(homes, capfd):
    (homes[1] / "here").touch()
    assert shell(CLUSTER, ("test", "-f", "here"), 1) == 0
    assert shell(CLUSTER, ("exit 7",)) == 7
    assert shell(CLUSTER, ("echo", "said")) == 0
    assert capfd.readouterr().out == "said\n"
    assert output_of(CLUSTER, ("echo", "read")) == "read"
    assert output_of(CLUSTER, ("echo read; false",)) == ""


def test_a_machine_that_is_not_there_is_refused(homes):
    with pytest.raises(UsageError, match="--node 2"):
        shell(CLUSTER, ("true",), 2)
    with pytest.raises(UsageError, match="skymark status"):
        shell("skymark-gone", ("true",))


def test_the_newest_run_of_a_machine_is_found_by_its_link(homes):
    with pytest.raises(UsageError, match="no run yet"):
        newest_run(CLUSTER)
    (homes[0] / RESULTS).mkdir()
    (homes[0] / RESULTS / LATEST).symlink_to("sky-1")
    assert newest_run(CLUSTER) == "sky-1"


@pytest.mark.parametrize("name", ["../../away", "/etc", "a\nskymark: b", "..", "x" * 300])
def test_a_machine_names_no_other_place_for_its_newest_run(homes, name):
    (homes[0] / RESULTS).mkdir()
    (homes[0] / RESULTS / LATEST).symlink_to(name)
    with pytest.raises(UsageError, match="no id of"):
        newest_run(CLUSTER)


def test_a_machine_that_says_too_much_has_said_nothing(homes):
    assert output_of(CLUSTER, ("head -c 100000000 /dev/zero",)) == ""


@pytest.mark.needs("rsync")
def test_what_is_copied_from_a_machine_is_the_user_s_own_and_leads_nowhere(homes, tmp_path):
    there = homes[0] / "copies"
    there.mkdir()
    (there / "program").write_text("")
    (there / "program").chmod(0o6755)
    (there / "away").symlink_to("/etc/passwd")
    os.mkfifo(there / "fifo")
    copy(f"{CLUSTER}:copies", str(tmp_path))
    came = tmp_path / "copies"
    assert [path.name for path in came.iterdir()] == ["program"]
    assert (came / "program").stat().st_mode & 0o7777 == 0o755
