"""The process-tree instruments, held against children that use known amounts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
import pytest

from skymark.machine.processes import MARKER_VARIABLE, Process, kill_tree, process_table, tree_of
from skymark.measure import process_tree
from skymark.measure.process_tree import (
    TreeSampler,
    cpu_seconds_of_tree,
    pss_bytes,
    pss_bytes_of_tree,
)
from tests.waiting import until

MIB = 1 << 20

PATIENCE_S = 120
"""Longest wait for what a machine does at once that has nothing else to do."""

BURN = """
import sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""


@contextmanager
def python(code: str, marker: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in a child whose standard input and output are pipes."""
    environment = dict(os.environ)
    if marker is not None:
        environment[MARKER_VARIABLE] = marker
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process: subprocess.Popen[str]) -> str:
    """Let the child go one step on, and wait until it says that the step is done."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def told(process: subprocess.Popen[str]) -> str:
    """Wait for the child's next line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def seen_cpu_s(pid: int, processes: Mapping[tuple[int, float], Process]) -> float:
    """Return the CPU time with which a process was last seen; -1 if it was not."""
    return next((process.cpu_s for process in processes.values() if process.pid == pid), -1.0)


@pytest.fixture
def marker() -> str:
    return uuid.uuid4().hex


def test_the_cpu_time_that_a_child_burns_is_found_from_outside() -> None:
    code = BURN + "print('up', flush=True); input(); burn(0.5); print('done', flush=True); input()"
    with python(code) as child:
        told(child)
        with TreeSampler(child.pid, interval_s=0.05) as sampler:
            ask(child)
    assert sampler.resources().cpu_s == pytest.approx(0.5, abs=0.03)


def test_cpu_time_used_before_begin_does_not_count() -> None:
    with python(BURN + "burn(0.3); print('done', flush=True); input()") as child:
        told(child)
        with TreeSampler(child.pid) as sampler:
            time.sleep(0.05)
    assert sampler.resources().cpu_s == pytest.approx(0.0, abs=0.01)


GRANDCHILDREN = (
    BURN
    + """
import subprocess
print('up', flush=True); input()
code = "import time\\nwhile time.process_time() < 0.25: pass\\ninput()"
command = [sys.executable, "-S", "-c", code]
children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
burn(0.1)
print('begun', flush=True); input()
for child in children: child.communicate(b"\\n")
print('done', flush=True); input()
"""
)


def test_grandchildren_that_start_and_end_in_between_count_once() -> None:
    with python(GRANDCHILDREN) as child:
        told(child)
        with TreeSampler(child.pid, interval_s=0.05) as sampler:
            ask(child)
            until(lambda: sampler._most_processes == 3)
            ask(child)
    seen = sampler.resources()
    assert seen.cpu_s == pytest.approx(0.6, abs=0.06)
    assert seen.processes == 3


DETACHED_BURNER = (
    BURN
    + """
import os
print('up', flush=True); input()
go_parent, go_detached, end = os.pipe(), os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(go_parent[1]); os.close(go_detached[1])  # so that both end with the first process
    if os.fork() == 0:
        os.setsid(); print(os.getpid(), flush=True)
        os.read(go_detached[0], 1); burn(0.4); os.read(go_detached[0], 1); os._exit(0)
    os.read(go_parent[0], 1); os._exit(0)
os.close(end[1])
input(); os.write(go_parent[1], b"."); os.wait(); os.write(go_detached[1], b".")
print('apart', flush=True); input(); os.write(go_detached[1], b".")
os.read(end[0], 1)  # Returns when the detached process has ended.
print('done', flush=True); input()
"""
)


def test_a_detached_process_that_ends_keeps_the_time_it_was_last_seen_with() -> None:
    with python(DETACHED_BURNER) as child:
        told(child)
        with TreeSampler(child.pid, interval_s=0.02) as sampler:
            detached = int(ask(child))
            until(lambda: seen_cpu_s(detached, sampler._ledger._members) >= 0)
            ask(child)
            until(lambda: seen_cpu_s(detached, sampler._ledger._members) >= 0.4)
            ask(child)
    assert sampler.resources().cpu_s == pytest.approx(0.4, abs=0.06)


def test_an_excluded_process_counts_neither_while_it_runs_nor_when_it_is_reaped() -> None:
    code = BURN + (
        "import subprocess\n"
        "aside = subprocess.Popen([sys.executable, '-S', '-c',"
        " 'import time\\nwhile time.process_time() < 0.4: pass\\ninput()'],"
        " stdin=subprocess.PIPE)\n"
        "print(aside.pid, flush=True); input(); burn(0.1); print('burnt', flush=True); input()\n"
        "aside.communicate(b'\\n'); print('done', flush=True); input()"
    )
    with python(code) as child:
        aside = int(told(child))
        with TreeSampler(child.pid, interval_s=0.02, exclude=[aside]) as sampler:
            ask(child)
            until(lambda: seen_cpu_s(aside, sampler._ledger._excluded) >= 0.4)
            ask(child)
    seen = sampler.resources()
    assert seen.cpu_s == pytest.approx(0.1, abs=0.04)
    assert seen.processes == 1


def test_peak_memory_finds_an_allocation_that_is_freed_before_the_end() -> None:
    code = (
        "print('up', flush=True); input(); block = bytearray(b'x') * (200 << 20)\n"
        "print('held', flush=True); input(); del block; print('done', flush=True); input()"
    )
    with python(code) as child:
        told(child)
        before = pss_bytes(child.pid)
        assert before is not None
        with TreeSampler(child.pid, interval_s=0.05) as sampler:
            ask(child)
            until(lambda: (sampler._peak_pss or 0) >= before + 196 * MIB)
            ask(child)
    peak = sampler.resources().peak_pss_bytes
    assert peak is not None
    assert peak - before == pytest.approx(200 * MIB, abs=4 * MIB)


def test_memory_of_a_lone_process_is_read_again_only_when_it_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []

    def counted(pid: int) -> int | None:
        reads.append(pid)
        return pss_bytes(pid)

    monkeypatch.setattr(process_tree, "pss_bytes", counted)
    code = (
        "print('up', flush=True); input(); block = bytearray(b'x') * (50 << 20)\n"
        "print('held', flush=True); input()"
    )
    with python(code) as child:
        told(child)
        with TreeSampler(child.pid, interval_s=60) as sampler:
            sampler._sample()
            sampler._sample()
            assert len(reads) == 1
            ask(child)
    assert len(reads) == 2
    assert (sampler.resources().peak_pss_bytes or 0) > 50 * MIB


def test_memory_shared_with_a_child_counts_once() -> None:
    code = (
        "import os, time; block = bytearray(b'x') * (100 << 20)\n"
        "if os.fork() == 0: time.sleep(30)\n"
        "time.sleep(0.2); print('up', flush=True); input()"
    )
    with python(code) as child:
        told(child)
        with TreeSampler(child.pid) as sampler:
            pass
        at_once = pss_bytes_of_tree(child.pid)
        kill_tree(child.pid, grace_s=0.0)
    peak = sampler.resources().peak_pss_bytes
    assert sampler.resources().processes == 2
    for size in (peak, at_once):
        assert size is not None
        assert 100 * MIB < size < 130 * MIB


def test_a_process_that_is_not_there_leaves_every_figure_missing() -> None:
    with python("pass") as child:
        child.wait()
        with TreeSampler(child.pid) as sampler:
            pass
    seen = sampler.resources()
    assert (seen.cpu_s, seen.peak_pss_bytes, seen.processes) == (None, None, None)


def test_ending_a_sampler_twice_changes_nothing() -> None:
    sampler = TreeSampler(os.getpid())
    sampler.end()
    assert sampler.resources().cpu_s is None
    sampler.begin()
    sampler.end()
    first = sampler.resources()
    sampler.end()
    assert sampler.resources() == first


def test_cpu_seconds_inside_a_process_do_not_count_the_instrument_itself() -> None:
    begin = cpu_seconds_of_tree(os.getpid())
    for _ in range(50):
        cpu_seconds_of_tree(os.getpid())
    instrument_s = cpu_seconds_of_tree(os.getpid()) - begin
    assert instrument_s < 0.01


def test_cpu_seconds_inside_a_process_find_what_it_and_its_child_burn() -> None:
    begin = cpu_seconds_of_tree(os.getpid())
    own_begin = time.process_time()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
    expected = time.process_time() - own_begin + 0.3
    assert cpu_seconds_of_tree(os.getpid()) - begin == pytest.approx(expected, abs=0.04)


def test_cpu_seconds_leave_out_an_excluded_child() -> None:
    with python(BURN + "burn(0.2); print('done', flush=True); input()") as child:
        told(child)
        whole = cpu_seconds_of_tree(os.getpid())
        rest = cpu_seconds_of_tree(os.getpid(), exclude=[child.pid])
    assert whole - rest >= 0.2


def test_a_tree_is_a_process_with_all_below_it() -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'],"
        " stdin=subprocess.PIPE); print(child.pid, flush=True); input()"
    )
    with python(code) as child:
        grandchild = int(told(child))
        table = process_table()
        assert tree_of(child.pid, table) == {child.pid, grandchild}
        assert tree_of(os.getpid(), table) >= {os.getpid(), child.pid, grandchild}
        assert tree_of(child.pid, table, exclude=[grandchild]) == {child.pid}


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_tree_that_ignores_sigterm_is_gone_after_kill_tree() -> None:
    with python(STUBBORN) as child:
        lines = told(child), told(child)  # the two processes tell in either order
        grandchild = int(next(line for line in lines if line != "up"))
        left = kill_tree(child.pid, grace_s=0.1)
        assert child.wait(PATIENCE_S) == -9
    assert not psutil.pid_exists(grandchild) or _is_zombie(grandchild)
    assert len(left) == 1
    assert f"pid {grandchild}" in left[0]


def test_a_tree_that_obeys_sigterm_gets_no_sigkill() -> None:
    with python("import time; print('up', flush=True); time.sleep(60)") as child:
        told(child)
        assert kill_tree(child.pid, grace_s=PATIENCE_S) == ()
        assert child.wait(PATIENCE_S) == -15


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(0); os.close(1)
        time.sleep(60)
    os._exit(0)
os.wait()
print("up", flush=True)
"""


def test_a_detached_process_whose_parent_has_ended_is_found_by_its_marker(marker: str) -> None:
    with python(DAEMON, marker) as child:
        told(child)
        child.wait()
        left = kill_tree(child.pid, grace_s=1.0, marker=marker)
    assert len(left) == 1
    assert kill_tree(child.pid, marker=marker) == ()


def test_a_helper_that_follows_its_parent_by_itself_is_no_leak(marker: str) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '0.1']); print('up', flush=True)"
    with python(code, marker) as child:
        told(child)
        child.wait()
        assert kill_tree(child.pid, marker=marker, settle_s=PATIENCE_S) == ()


def test_a_reused_pid_is_not_killed_for_a_worker_that_ended(marker: str) -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'],"
        " stdin=subprocess.PIPE); print(child.pid, flush=True); input()"
    )
    with python(code) as child:
        bystander = int(told(child))  # Neither this process's child nor marked.
        assert kill_tree(bystander, marker=marker) == ()
        assert psutil.Process(bystander).is_running()
        kill_tree(child.pid, grace_s=0.0)


def test_kill_tree_spares_the_one_who_asks(marker: str) -> None:
    code = (
        "import os, sys; from skymark.machine.processes import kill_tree\n"
        "print(kill_tree(2**22 - 1, marker=os.environ['SKYMARK_WORKER']), flush=True)"
    )
    with python(code, marker) as child:
        assert told(child) == "()"


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_psutil_agrees_with_the_table_of_processes() -> None:
    with python(BURN + "burn(0.1); print('done', flush=True); input()") as child:
        told(child)
        before = process_table()
        known = {pid: psutil.Process(pid).as_dict() for pid in (os.getpid(), child.pid)}
        after = process_table()
    for pid, process in known.items():
        assert process["ppid"] == after[pid].parent
        used_s = process["cpu_times"].user + process["cpu_times"].system
        assert before[pid].cpu_s - 0.02 <= used_s <= after[pid].cpu_s + 0.02
        assert not after[pid].ended


def test_memory_of_a_process_that_one_may_not_look_into_is_unknown() -> None:
    if os.getuid() != 0:
        assert pss_bytes(1) is None
        return
    # As root everything may be looked into, so a child asks that has become somebody else.
    code = (
        "import os; from skymark.measure.process_tree import pss_bytes\n"
        "os.setuid(65534); print(pss_bytes(os.getppid()), flush=True)"
    )
    with python(code) as child:
        assert told(child) == "None"
