"""Freezing of process trees, by a control group of their own or by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from skymark.machine.processes import PROC, members, process_table, tree_of

GROUPS = Path("/sys/fs/cgroup")
PATIENCE_S = 5.0
"""Longest time for the kernel to freeze a tree."""
POLL_S = 0.0002
SCAN_S = 0.5
"""Interval of searches for process groups that a tree has started since."""
GUARD = 'while read -r line; do groups=$line; done; [ -z "$groups" ] || kill -s KILL -- $groups'
"""Program that kills the process groups in its last line of input, once nobody can write another.
A frozen process would outlive skymark otherwise."""


class FreezeError(Exception):
    """A process tree that cannot be frozen, with the reason."""


class Freezer(ABC):
    """One process tree that is frozen and thawed as a whole."""

    def __init__(self) -> None:
        self._is_proven = False

    def freeze(self) -> None:
        """Stop every process of the tree.

        The first time, it waits until all have stopped. Later it does not: a process that has yet
        to stop does so before it computes again.

        Raises:
            FreezeError: a process goes on.
        """
        self._stop()
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_proven:
            self._is_proven = self._has_stopped()
            if time.monotonic() > deadline:
                raise FreezeError("some of its processes do not stop")
            time.sleep(POLL_S)

    @abstractmethod
    def thaw(self) -> None:
        """Let every process go on."""

    @abstractmethod
    def close(self) -> None:
        """Thaw the tree and free what holds it; safe to call again."""

    @abstractmethod
    def _stop(self) -> None:
        """Have every process stop."""

    @abstractmethod
    def _has_stopped(self) -> bool:
        """Whether every process has stopped."""


def freezer_of(pid: int, marker: str, groups: Path = GROUPS) -> Freezer:
    """Return the freezer of a process and everything it has started or starts later.

    A control group also holds processes that the tree detaches later; signals reach only those that
    are found. Source: "Control Group v2", section Core Interface Files, in the Linux kernel's
    documentation.

    Args:
        pid: the root of the tree.
        marker: the value of ``SKYMARK_WORKER`` that the root was started with.
        groups: where control groups are mounted.
    """
    for mounted in (groups, groups / "unified"):
        parent = mounted / _own_group()
        with suppress(OSError, FreezeError):
            return GroupFreezer(pid, marker, parent / f"skymark-{marker}")
    return SignalFreezer(pid, marker)


def _own_group() -> str:
    """Return this process's control group of version 2, relative to where it is mounted."""
    lines = (PROC / "self/cgroup").read_text().splitlines()
    return next((line[len("0::/") :] for line in lines if line.startswith("0::/")), "")


class GroupFreezer(Freezer):
    """A tree in a control group of its own (version 2)."""

    def __init__(self, pid: int, marker: str, group: Path) -> None:
        """Make the group and move the tree into it.

        Raises:
            OSError: this user may not, or there is no such hierarchy.
            FreezeError: processes of the tree stay outside.
        """
        super().__init__()
        self.group = group
        self._home = group.parent / "cgroup.procs"
        if not self._home.exists():
            raise FileNotFoundError(self._home)
        group.mkdir()
        try:
            self._take_in(pid, marker)
            self._events = os.open(group / "cgroup.events", os.O_RDONLY)
        except BaseException:
            self._empty()
            raise

    def thaw(self) -> None:
        """Let every process go on."""
        (self.group / "cgroup.freeze").write_text("0")

    def close(self) -> None:
        """Thaw the tree and remove the group; safe to call again."""
        if self.group.exists():
            self.thaw()
            os.close(self._events)
            self._empty()

    def _stop(self) -> None:
        (self.group / "cgroup.freeze").write_text("1")

    def _has_stopped(self) -> bool:
        return b"frozen 1" in os.pread(self._events, 256, 0)

    def _take_in(self, pid: int, marker: str) -> None:
        """Move the tree into the group; a process may fork while others are moved."""
        deadline = time.monotonic() + PATIENCE_S
        while left := {one.pid for one in members(pid, marker)} - self._inside():
            if time.monotonic() > deadline:
                raise FreezeError("its processes cannot be moved into a control group")
            for member in left:
                with suppress(ProcessLookupError):
                    (self.group / "cgroup.procs").write_text(str(member))

    def _inside(self) -> set[int]:
        return set(map(int, (self.group / "cgroup.procs").read_text().split()))

    def _empty(self) -> None:
        """Move the processes back and remove the group, once those that end are gone."""
        deadline = time.monotonic() + PATIENCE_S
        while self.group.exists() and time.monotonic() < deadline:
            for member in self._inside():
                with suppress(OSError):
                    self._home.write_text(str(member))
            with suppress(OSError):
                self.group.rmdir()
                return
            time.sleep(POLL_S)


class SignalFreezer(Freezer):
    """A tree whose process groups are stopped by SIGSTOP."""

    def __init__(self, pid: int, marker: str) -> None:
        super().__init__()
        self._pid = pid
        self._groups = _groups_of(one.pid for one in members(pid, marker))
        self._scanned = time.monotonic()
        self._guard: subprocess.Popen[bytes] | None = subprocess.Popen(
            ["/bin/sh", "-c", GUARD], stdin=subprocess.PIPE, start_new_session=True
        )
        self._tell_guard()

    def _stop(self) -> None:
        if time.monotonic() - self._scanned > SCAN_S:
            table = process_table()
            self._groups |= _groups_of(tree_of(self._pid, table))
            self._scanned = time.monotonic()
            self._tell_guard()
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process go on."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """Thaw the tree and end the guard; safe to call again."""
        if self._guard is None:
            return
        self.thaw()
        self._groups.clear()
        self._tell_guard()
        guard, self._guard = self._guard, None
        guard.communicate()

    def _has_stopped(self) -> bool:
        return all(_state_of(member) in "TtZX" for member in tree_of(self._pid, process_table()))

    def _send(self, number: signal.Signals) -> None:
        for group in list(self._groups):
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                self._groups.discard(group)
            except PermissionError as error:
                raise FreezeError("its processes belong to another user") from error

    def _tell_guard(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(BrokenPipeError):
                line = " ".join(f"-{group}" for group in sorted(self._groups))
                self._guard.stdin.write(line.encode() + b"\n")
                self._guard.stdin.flush()


def _groups_of(pids: Iterable[int]) -> set[int]:
    """Return the process groups of processes, without this process's own."""
    groups = set()
    for pid in pids:
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(pid))
    return groups - {os.getpgrp()}


def _state_of(pid: int) -> str:
    """Return a process's state as one letter; X for a process that has ended."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
