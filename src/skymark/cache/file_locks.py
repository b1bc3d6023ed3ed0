"""Locks of files: whether a file system has them, and where jobs keep theirs if it has not.

Lustre without ``-o flock`` answers ENOSYS, NFS without a lock daemon ENOLCK. Libraries then fail,
or wait for ever. Nothing of skymark's own caches rests on such locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skymark.cache.permissions import make_shared_folder
from skymark.cache.policy import Policy
from skymark.machine.private_directory import private_directory
from skymark.model.errors import CacheError, UsageError

REFUSALS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
NOT_LOCKED = ".tar"
"""Ending of data whose library takes no locks."""


def refused_locks(directory: Path) -> str | None:
    """Return the words with which the file system of a directory refuses locks.

    None where it has locks, or where this user may not write there.
    """
    try:
        make_shared_folder(directory)
        with tempfile.TemporaryFile(dir=directory) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return os.strerror(error.errno) if error.errno in REFUSALS else None
    return None


def require_locks(root: Path, instead: str) -> None:
    """Refuse a directory of caches whose file system has no locks.

    Raises:
        CacheError: it is so; the message ends with the next step.
    """
    if (words := refused_locks(root)) is not None:
        raise CacheError(
            f"the file system of {root} refuses locks ({words}), which libraries need there; "
            f"{instead}"
        )


def root_of_jobs(
    root: Path,
    policy: Policy,
    addresses: Sequence[str],
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the directory below which jobs have theirs: a root, or one on this machine's own disk.

    Args:
        root: directory of the caches.
        policy: of the job's caches.
        addresses: of its data; none where they are not known.
        announce: told where a job's directory lies instead.

    Raises:
        CacheError: the policy needs locks below the root, and its file system refuses them.
    """
    if addresses and all(one.endswith(NOT_LOCKED) for one in addresses):
        return root
    if policy in {Policy.PER_JOB, Policy.STAGGERED}:
        require_locks(
            root,
            f"choose shared, prebuilt, parquet or parquet+shared in place of {policy}, which need "
            "none there, or a --cache-root on a disk of this machine",
        )
    if (words := refused_locks(root)) is None:
        return root
    try:
        own = private_directory([Path(tempfile.gettempdir()) / f"skymark-jobs-{os.getuid()}"])
    except UsageError as error:
        raise CacheError(f"{error}, or set TMPDIR") from error
    require_locks(own, "set TMPDIR to a directory on a disk of this machine")
    announce(f"the file system of {root} refuses locks ({words}): this job's lie below {own}")
    return own


@contextmanager
def unlocked(directory: Path) -> Iterator[None]:
    """Let this process's locks succeed while the file system of its own directory has none."""
    if refused_locks(directory) is None:
        yield
        return
    real = fcntl.flock
    fcntl.flock = lambda *_: None
    try:
        yield
    finally:
        fcntl.flock = real
