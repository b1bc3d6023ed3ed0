"""Measuring lock: one measurement at a time on a machine, because two disturb each other.

Skymark holds two locks; no other user can block the path of either.

- A file in a directory that only this user can write to. Another user cannot make, hold or break
it. - On Linux, a name in the kernel's abstract namespace of sockets. All users share it, and it
ends with its process. Another user's run can hold it; the kernel reports the process. Containers
with a network of their own do not see it.

``SKYMARK_LOCK=FILE`` replaces both with that file: for tests, for machines that share a disk, and
to measure although another process holds the locks.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Self

from skymark.machine.private_directory import name_of_user, private_directory
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

CREDENTIALS = struct.Struct("3i")
"""``struct ucred`` of unix(7): process, user and group."""
NOTE = re.compile(rb"(\d{1,9}) (\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\n")


class Holder(Frozen):
    """Process that holds the lock; None is unknown."""

    LONGEST_NOTE: ClassVar = 64
    """Bytes to read of a lock file."""

    pid: int | None = None
    user_id: int | None = None
    since: str | None = None
    """UTC date and time at which it took the lock, or the process began."""

    @classmethod
    def of_this_process(cls) -> Self:
        """Return this process as a holder from now on."""
        return cls(pid=os.getpid(), user_id=os.getuid(), since=_shown(datetime.now(UTC)))

    @classmethod
    def of_note(cls, note: bytes) -> Self:
        """Return the holder that a lock file names, or an unknown holder."""
        if (match := NOTE.fullmatch(note)) is None:
            return cls()
        return cls(pid=int(match[1]), user_id=int(match[2]), since=match[3].decode())

    def note(self) -> bytes:
        """Return the content of a lock file that `of_note` reads."""
        return f"{self.pid} {self.user_id} {self.since} UTC\n".encode()

    def __str__(self) -> str:
        """Return process, user and time in words."""
        if not self.pid:
            return "a process that cannot be seen from here"
        user = "" if self.user_id is None else f" of {name_of_user(self.user_id)}"
        return f"process {self.pid}{user}" + (f", since {self.since} UTC" if self.since else "")


def peer_of(address: str) -> Holder:
    """Return the process that listens at a socket's address, from the kernel."""
    import psutil

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(address)
        except OSError:
            return Holder()  # it does not listen, or ends just now
        told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, user_id, _ = CREDENTIALS.unpack(told)
    try:
        since = _shown(datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC))
    except (psutil.Error, ValueError):
        since = None
    return Holder(pid=pid, user_id=user_id, since=since)


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


LOCK_VARIABLE = "SKYMARK_LOCK"
MACHINE_NAME = "skymark-measuring"
"""Name in the abstract namespace of sockets."""
POLL_S = 0.2


def lock_path() -> Path:
    """Return the path of ``SKYMARK_LOCK``, or else a lock file that only this user can touch.

    Raises:
        UsageError: no directory is this user's alone.
    """
    if chosen := os.environ.get(LOCK_VARIABLE):
        return Path(chosen)
    try:
        return private_directory(_candidates()) / "skymark.lock"
    except UsageError as error:
        raise UsageError(f"{error}, or set {LOCK_VARIABLE} to a file of your own") from error


def _candidates() -> Iterator[Path]:
    """Yield directories for the lock: of the session, of the machine, and of the user."""
    user = os.getuid()
    session = Path(f"/run/user/{user}")
    if session.is_dir():
        yield session
    yield Path(f"/tmp/skymark-{user}")  # noqa: S108 - its owner is looked at
    yield Path.home() / f".skymark-{socket.gethostname()}"


@contextmanager
def measuring(
    wait_s: float = 3600.0, announce: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Hold the machine's measurement lock.

    Args:
        wait_s: how long to wait for another run to finish.
        announce: gets one message with the holder if there is a wait.

    Raises:
        UsageError: another run still measures after that time, or no lock can be made.
    """
    path = lock_path()
    takers: list[Callable[[], Holder | ExitStack]] = [lambda: _take_file(path)]
    if sys.platform == "linux" and not os.environ.get(LOCK_VARIABLE):
        takers.append(_take_machine)
    deadline = time.monotonic() + wait_s
    with ExitStack() as held:
        told = False
        for take in takers:
            while isinstance(taken := take(), Holder):
                if not told:
                    announce(f"waiting: another skymark run is measuring on this machine ({taken})")
                    told = True
                if time.monotonic() >= deadline:
                    raise UsageError(
                        f"another run still measures on this machine after {wait_s:g} s: {taken} "
                        f"holds the lock {path}; wait for it, have it stopped, or go on beside it "
                        f"with {LOCK_VARIABLE}=FILE, which disturbs both"
                    )
                time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
            held.enter_context(taken)
        yield


def _take_file(path: Path) -> Holder | ExitStack:
    """Lock the file and write this holder into it; return the holder if it is another process."""
    descriptor = _opened(path)
    with ExitStack() as closing:
        closing.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Holder.of_note(os.pread(descriptor, Holder.LONGEST_NOTE, 0))
        except OSError as error:
            raise UsageError(
                f"{path} cannot be a lock ({error.strerror}); set {LOCK_VARIABLE} to a file on a "
                "disk of this machine"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, Holder.of_this_process().note(), 0)
        return closing.pop_all()


def _opened(path: Path) -> int:
    """Open a lock file, without following a link or waiting for a pipe's other end.

    Raises:
        UsageError: something else lies there, or it may not be written.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be a lock ({error.strerror}); remove it, or set {LOCK_VARIABLE} to "
            "another file"
        ) from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise UsageError(
        f"{path} cannot be a lock (no regular file); remove it, or set {LOCK_VARIABLE} to another"
    )


def _take_machine() -> Holder | ExitStack:
    """Take the machine's name; return the holder if it is another process."""
    with ExitStack() as closing:
        held = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            held.bind(f"\0{MACHINE_NAME}")
        except OSError:
            return peer_of(f"\0{MACHINE_NAME}")
        held.listen()  # no connection is accepted: the kernel names the listener to a client
        return closing.pop_all()
