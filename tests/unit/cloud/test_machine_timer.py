"""The timer of a machine, run here by a real bash in a home of its own.

Two homes are two nodes. In place of SSH between them, which needs two machines, a script called
``ssh`` runs the command in the other home; a node that is lost has none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from skymark.cloud.machine_script import MARGIN_S, TIMER, arming, script, settings

SSH = """\
#!/bin/bash
node=${@: -4:1}
[ -d "HOMES/$node" ] || exit 255
cd "HOMES/$node" && HOME=$PWD exec "${@: -3}"
"""
SOON = {"idle_s": "1", "tick_s": "0.1", "kept": ""}
TIMEOUT_S = 120
UNTIL_GO = "touch ~/begun; until [ -e ~/go ]; do sleep 0.1; done"


class Node:
    """A home with a timer, which only writes down that it would end the machine."""

    def __init__(self, homes, name):
        self.home = homes / name
        self.home.mkdir()
        self._tools = homes / "tools"

    def run(self, text, **variables):
        known = {"PATH": f"{self._tools}:{os.environ['PATH']}", "HOME": str(self.home)}
        return subprocess.Popen(["bash", "-c", text], env={**known, **variables})

    def arm(self, files, rank=0, others="", start_s=0):
        text = arming({**files, "start_s": str(start_s)}, "", "touch ~/ended")
        nodes = {"SKYPILOT_NODE_IPS": others, "SKYPILOT_NODE_RANK": str(rank)}
        assert self.run(text, **nodes).wait() == 0
        return self

    def begin(self, command, deadline_s=0):
        """Begin a run's job."""
        limit = {"SKYMARK_RUN_ID": "one", "SKYMARK_DEADLINE_S": str(deadline_s)}
        return self.run(script(None, command), **limit)

    @property
    def ended(self):
        return (self.home / "ended").exists()

    def await_file(self, name):
        until = time.monotonic() + TIMEOUT_S
        while not (self.home / name).exists():
            assert time.monotonic() < until, (self.home / TIMER / "log").read_text()
            time.sleep(0.05)

    def await_end(self):
        self.await_file("ended")

    def stays(self, seconds=2.0):
        """Whether it is there for longer than its idle time."""
        time.sleep(seconds)
        return not self.ended


@pytest.fixture
def homes(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(SSH.replace("HOMES", str(tmp_path)))
    (tools / "ssh").chmod(0o755)
    yield tmp_path
    for process in Path("/proc").iterdir():  # whatever a test left: timers and their jobs
        with suppress(OSError, ValueError):
            if f"HOME={tmp_path}".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def node(homes):
    return Node(homes, "one")


def test_a_machine_to_which_no_run_comes_ends_itself(node):
    node.arm(SOON)
    node.await_end()


def test_a_machine_gives_a_run_the_time_to_begin(node):
    node.arm(SOON, start_s=60)
    assert node.stays()


def test_a_machine_that_works_stays_and_ends_when_it_has_ended(node):
    node.arm(SOON, start_s=60)
    job = node.begin(UNTIL_GO)
    assert node.stays()
    (node.home / "go").touch()
    assert job.wait() == 0
    node.await_end()


def test_a_job_that_is_killed_counts_as_ended_although_its_children_go_on(node):
    node.arm(SOON, start_s=60)
    job = node.begin("touch ~/begun; sleep 600")
    node.await_file("begun")
    assert node.stays(1.5)  # it has seen the job
    job.kill()
    job.wait()
    node.await_end()


def test_a_timer_that_is_set_anew_waits_so_long_from_then(node):
    node.arm({**SOON, "idle_s": "999"})
    node.await_file(f"{TIMER}/active")
    time.sleep(3)
    set_at_s = time.time()
    whole = node.home / TIMER / "idle_s.new"
    whole.write_text("4")
    whole.replace(whole.with_suffix(""))
    node.await_end()
    assert (node.home / "ended").stat().st_mtime - set_at_s > 2.5  # it counts whole seconds


def test_a_machine_ends_when_the_time_of_its_run_is_up_whatever_holds_the_run(node):
    node.arm({**SOON, "idle_s": "999"})
    with (node.home / TIMER / "parts" / "stuck").open("w") as part:
        part.write("1")  # a second after the kernel began
        part.flush()
        holder = subprocess.Popen(["flock", "--no-fork", part.name, "sleep", "600"])
        try:
            node.await_end()
        finally:
            holder.kill()
            holder.wait()


def test_a_machine_that_is_kept_is_left_to_skypilot_s_own_timer(node):
    node.arm({**SOON, "kept": "kept"}, start_s=60)
    assert node.begin("true").wait() == 0
    assert node.stays()


@pytest.fixture
def nodes(homes):
    names = ("one", "two")
    both = [Node(homes, name) for name in names]
    for rank, one in enumerate(both):
        one.arm(SOON, rank, "\n".join(names), start_s=60)
    return both


def test_a_node_whose_part_is_done_waits_for_the_others(nodes):
    first, second = nodes
    job = second.begin(UNTIL_GO)
    second.await_file("begun")
    assert first.begin("sleep 1").wait() == 0
    assert first.stays()
    (second.home / "go").touch()
    job.wait()
    first.await_end()
    second.await_end()


def test_nodes_that_were_armed_before_they_knew_of_each_other_meet_while_they_work(homes):
    """As SkyPilot still prepares the machines, nobody has told them the others' addresses."""
    names = ("one", "two")
    first, second = [Node(homes, name).arm(SOON, start_s=60) for name in names]
    jobs = [one.begin("sleep 600") for one in (first, second)]
    time.sleep(1)
    for rank, one in enumerate((first, second)):
        one.arm(SOON, rank, "\n".join(names), start_s=60)
    first.await_file(f"{TIMER}/met-two")
    second.home.rename(homes / "gone")
    for job in jobs:
        job.kill()
        job.wait()
    first.await_end()


@pytest.mark.parametrize("kept", ["", "kept"])
def test_a_node_that_is_lost_is_not_waited_for(nodes, homes, kept):
    first, second = nodes
    (first.home / TIMER / "kept").write_text(kept)
    other = second.begin("sleep 600")
    job = first.begin("sleep 2")
    first.await_file(f"{TIMER}/met-two")
    second.home.rename(homes / "gone")
    job.wait()
    first.await_end()
    other.kill()
    other.wait()


def test_a_node_that_was_never_reached_counts_as_working_until_the_time_of_the_run_is_up(node):
    node.arm(SOON, 0, "one\nnobody", start_s=0)
    assert node.begin("true", deadline_s=60).wait() == 0
    assert node.stays()
    (node.home / TIMER / "parts" / "one").write_text("1")  # a second after the kernel began
    node.await_end()


def test_a_cluster_of_one_s_own_gets_no_timer(node):
    text = arming(SOON, "", "touch ~/ended")
    assert node.run(text, SLURM_JOB_ID="1").wait() == 0
    assert node.run(text, KUBERNETES_SERVICE_HOST="10.0.0.1").wait() == 0
    assert not (node.home / TIMER).exists()


def test_armed_twice_there_is_one_timer(node):
    node.arm(SOON, start_s=60)
    node.arm(SOON, start_s=60)
    name = f"{node.home}/{TIMER}/timer"

    def timers():
        found = {
            one.pid: one.info["ppid"]
            for one in psutil.process_iter(["cmdline", "ppid"])
            if name in (one.info["cmdline"] or ())
        }
        return sum(parent not in found for parent in found.values())  # no subshells

    node.await_file(f"{TIMER}/active")
    until = time.monotonic() + TIMEOUT_S
    while (count := timers()) != 1 and time.monotonic() < until:
        time.sleep(0.1)  # the second one finds the first, which takes a busy machine some time
    assert count == 1


def test_skypilot_s_timer_is_to_be_first():
    assert settings(10, keep=False)["idle_s"] == str(600 + MARGIN_S)
    assert MARGIN_S > 60
    assert settings(30, keep=True)["kept"]
