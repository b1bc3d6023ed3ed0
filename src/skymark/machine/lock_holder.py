"""Holder of the measuring lock: a process and its user, as a message names them."""

from __future__ import annotations

import os
import pwd
import re
import socket
import struct
from datetime import UTC, datetime
from typing import ClassVar, Self

from skymark.model.base import Frozen

CREDENTIALS = struct.Struct("3i")
"""``struct ucred`` of unix(7): process, user and group."""
NOTE = re.compile(rb"(\d{1,9}) (\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\n")


class Holder(Frozen):
    """A process that holds the lock; None for what it does not tell."""

    LONGEST_NOTE: ClassVar = 64
    """Bytes that are read of a lock file."""

    pid: int | None = None
    user_id: int | None = None
    since: str | None = None
    """Date and time, UTC: when it took the lock, or when the process began."""

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the holder that this process is from now on."""
        return cls(pid=os.getpid(), user_id=os.getuid(), since=_shown(datetime.now(UTC)))

    @classmethod
    def of_note(cls, note: bytes) -> Self:
        """Return the holder that a lock file names; an unknown one where it says something else."""
        if (found := NOTE.fullmatch(note)) is None:
            return cls()
        return cls(pid=int(found[1]), user_id=int(found[2]), since=found[3].decode())

    def note(self) -> bytes:
        """Return the content of a lock file that `of_note` reads."""
        return f"{self.pid} {self.user_id} {self.since} UTC\n".encode()

    def __str__(self) -> str:
        """Return process, user and time in words."""
        if not self.pid:
            return "a process that cannot be seen from here"
        user = "" if self.user_id is None else f" of {_user_name(self.user_id)}"
        return f"process {self.pid}{user}" + (f", since {self.since} UTC" if self.since else "")


def peer_of(address: str) -> Holder:
    """Return the process that listens at a socket's address, as the kernel knows it."""
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


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"
