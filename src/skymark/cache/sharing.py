"""Claims on entries of the cache, and the directories of jobs.

A user records its use and then looks for a process that removes the entry. A remover takes the
entry and then looks for users. So at least one of the two sees the other.

Lustre without ``-o flock`` answers ENOSYS, NFS without a lock daemon ENOLCK. Libraries then fail
or wait for ever. skymark's own caches do not need such locks.

A job that crashed leaves its directory; the next one sweeps it away.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from skymark.cache.location import JOB_VARIABLE, Policy, make_shared_folder, refusal, writable
from skymark.leases import Lease, Leases, Tenant, this_machine
from skymark.machine.private_directory import private_directory
from skymark.model.errors import CacheError, UsageError
from skymark.plain_files import write_whole

CLAIMS = ".leases"
"""Directory of leases, beside their entries."""
POLL_S = 0.1
LONGEST_NAME = 60


def claims_beside(entry: Path) -> Leases:
    """Return the leases of an entry and of its neighbours."""
    return Leases(entry.parent / CLAIMS)


def claim_name(entry: Path) -> str:
    """Return the name of an entry's lease: readable and unique."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", entry.name)[:LONGEST_NAME]
    return f"{readable}-{hashlib.sha256(entry.name.encode()).hexdigest()[:8]}"


def users_of(entry: Path, leases: Leases | None = None) -> list[Tenant | None]:
    """Return the users of an entry; None for an unreadable one."""
    leases = leases or claims_beside(entry)
    names = [name for name in leases.names(_use_prefix(entry)) if not leases.is_abandoned(name)]
    return [leases.holder(name) for name in names]


@contextmanager
def using(entry: Path, announce: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Protect an entry from removal, whether it exists or not.

    A user without the right to write leases, as in another user's cache, uses it without one.
    """
    lease = _note_use(entry)
    try:
        if lease is not None:
            _wait_while_claimed(entry, announce)
        _note_time(entry)
        yield
    finally:
        _note_time(entry)
        if lease is not None:
            lease.release()


def taken_when_free(
    entry: Path,
    announce: Callable[[str], None],
    unless: Callable[[], bool] = lambda: False,
    busy: str = "has",
) -> Lease | None:
    """Take the one lease of an entry, after all earlier holders.

    Args:
        entry: directory of the entry, whether it exists or not.
        announce: callback for one message with the holder's name.
        unless: whether the wait has become needless; the result is then None.
        busy: verb for the holder's work.
    """
    leases, told = claims_beside(entry), False
    while not unless():
        if (lease := leases.take(claim_name(entry))) is not None:
            return lease
        if not told:
            announce(f"waiting: {held_by(leases, entry)} {busy} {entry.name}")
            told = True
        time.sleep(POLL_S)
    return None


@contextmanager
def exclusively(entry: Path, announce: Callable[[str], None] = lambda _: None) -> Iterator[Lease]:
    """Hold the one lease of an entry, after all earlier holders."""
    make_shared_folder(claims_beside(entry).directory)
    lease = taken_when_free(entry, announce)
    assert lease is not None, "nothing ends the wait but the lease"
    try:
        yield lease
    finally:
        lease.release()


def fetching_alone(
    variables: Mapping[str, str], announce: Callable[[str], None]
) -> AbstractContextManager[object]:
    """Return the barrier around filling a cache that several runs share.

    Args:
        variables: environment variables, which name the directory if a policy has chosen one.
        announce: callback for messages about waiting.
    """
    chosen = variables.get(JOB_VARIABLE)
    return nullcontext() if chosen is None else exclusively(Path(chosen), announce)


@contextmanager
def removing(entry: Path) -> Iterator[bool]:
    """Claim an entry for removal; yields False if it is in use."""
    leases = claims_beside(entry)
    leases.forget(claim_name(entry))
    lease = leases.take(claim_name(entry))
    try:
        yield lease is not None and not users_of(entry, leases)
    finally:
        if lease is not None:
            lease.release()


def _note_use(entry: Path) -> Lease | None:
    leases = claims_beside(entry)
    try:
        make_shared_folder(leases.directory)
        for name in leases.names(_use_prefix(entry)):
            leases.forget(name)
        return leases.take(f"{_use_prefix(entry)}{secrets.token_hex(8)}")
    except OSError:
        return None


def _note_time(entry: Path) -> None:
    """Note the time of use of this user's own entry."""
    with suppress(OSError):
        os.utime(entry)


def _wait_while_claimed(entry: Path, announce: Callable[[str], None]) -> None:
    leases, told = claims_beside(entry), False
    while leases.is_held(claim_name(entry)):
        if not told:
            announce(f"waiting: {held_by(leases, entry)} has {entry.name}")
            told = True
        time.sleep(POLL_S)


def held_by(leases: Leases, entry: Path) -> str:
    """Return the process that builds or removes an entry, in words."""
    tenant = leases.holder(claim_name(entry))
    return "another process" if tenant is None else tenant.title


def _use_prefix(entry: Path) -> str:
    return f"use-{claim_name(entry)}-"


REFUSALS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
NOT_LOCKED = ".tar"
"""Ending of data whose library takes no locks."""


def refused_locks(directory: Path) -> str | None:
    """Return the error text with which the file system of a directory refuses locks.

    None if it has locks, or if this user may not write there.
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
        CacheError: the file system refuses locks; the message ends with the next step.
    """
    if (words := refused_locks(root)) is not None:
        raise CacheError(
            f"the file system of {root} refuses locks ({words}), and libraries need them there; "
            f"{instead}"
        )


def root_of_jobs(
    root: Path,
    policy: Policy,
    addresses: Sequence[str],
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the parent of the jobs' directories: the root, or a directory on this machine's disk.

    Args:
        root: directory of the caches.
        policy: policy of the job's caches.
        addresses: addresses of its data; empty if unknown.
        announce: callback for a message about another directory.

    Raises:
        CacheError: the policy needs locks below the root, and its file system refuses them.
    """
    if addresses and all(address.endswith(NOT_LOCKED) for address in addresses):
        return root
    if policy in {Policy.PER_JOB, Policy.STAGGERED}:
        require_locks(
            root,
            f"choose shared, prebuilt, parquet or parquet+shared in place of {policy}, because "
            "they need no locks there, or a --cache-root on a disk of this machine",
        )
    if (words := refused_locks(root)) is None:
        return root
    try:
        own = private_directory([Path(tempfile.gettempdir()) / f"skymark-jobs-{os.getuid()}"])
    except UsageError as error:
        raise CacheError(f"{error}, or set TMPDIR") from error
    require_locks(own, "set TMPDIR to a directory on a disk of this machine")
    announce(f"the file system of {root} refuses locks ({words}): this job's caches are in {own}")
    return own


@contextmanager
def unlocked(directory: Path) -> Iterator[None]:
    """Let every lock of this process succeed if the file system of its directory has no locks."""
    if refused_locks(directory) is None:
        yield
        return
    real = fcntl.flock
    fcntl.flock = lambda *_: None
    try:
        yield
    finally:
        fcntl.flock = real


JOBS = "jobs"
"""Folder of the cache's root that the directories lie in."""
JOB_IDS = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID", "SKYPILOT_TASK_ID",
    "REPLICATED_JOB_NAME",
)  # fmt: skip
"""Variables of schedulers that hold a job's id; the first that is set counts."""
PARTS = (
    "JOB_INDEX", "JOB_COMPLETION_INDEX", "SLURM_STEP_ID", "SLURM_PROCID", "PBS_TASKNUM",
    "SGE_TASK_ID", "LSB_JOBINDEX", "SKYPILOT_NODE_RANK",
)  # fmt: skip
"""Variables that tell the processes of one job apart; all that are set count."""
COMMAND = "command.json"
"""File of a job's directory that tells its process."""
LONGEST_JOB_NAME = 100


def job_name(variables: Mapping[str, str]) -> str:
    """Return the name of a job from its scheduler's variables, such as ``4711-0``.

    Empty where no scheduler has set one.
    """
    id = next((variables[name] for name in JOB_IDS if variables.get(name)), "")
    if not id:
        return ""
    parts = [variables[name] for name in PARTS if variables.get(name)]
    return re.sub(r"[^A-Za-z0-9_-]", "_", "-".join([id, *parts]))[:LONGEST_JOB_NAME]


@contextmanager
def job_directory(
    root: Path, variables: Mapping[str, str], announce: Callable[[str], None]
) -> Iterator[Path]:
    """Make a directory for this job alone, and remove it at the end.

    Two processes of one job that nothing tells apart get one each.

    Raises:
        CacheError: it may not be made there.
    """
    folder = root / JOBS
    leases = Leases(folder / CLAIMS)
    try:
        make_shared_folder(folder)
        make_shared_folder(leases.directory)
        for name in sweep_jobs(root):
            announce(f"removed {folder / name}, which a dead job left")
        lease, directory = _claim(leases, folder, job_name(variables))
    except PermissionError as error:
        raise CacheError(refusal(folder / "job", error)) from error
    try:
        directory.mkdir()
        yield directory
    finally:
        _remove(directory)
        lease.release()


def note_command(directory: Path, pid: int) -> None:
    """Note the job's own process, which may outlive the process that made the directory."""
    import psutil

    with suppress(psutil.NoSuchProcess, OSError):  # it has ended already, or has all it needs
        write_whole(directory / COMMAND, Tenant.of(pid).model_dump_json().encode(), durable=False)


def sweep_jobs(root: Path) -> list[str]:
    """Remove the directories of dead jobs, and return their names."""
    folder = root / JOBS
    leases, swept = Leases(folder / CLAIMS), []
    for directory in sorted(folder.glob("[!.]*")):
        # Taken before it is removed: of two sweepers one does it, and no new job has the name.
        if not leases.is_abandoned(directory.name) or command_runs(directory):
            continue
        leases.forget(directory.name)
        if (lease := leases.take(directory.name)) is None:
            continue
        _remove(directory)
        lease.release()
        if not directory.exists():
            swept.append(directory.name)
    return swept


def command_runs(directory: Path) -> bool:
    """Whether a job's command still runs here although its waiting parent was killed."""
    tenant = Tenant.read(directory / COMMAND)
    return tenant is not None and tenant.machine == this_machine() and not tenant.is_gone


def _claim(leases: Leases, folder: Path, name: str) -> tuple[Lease, Path]:
    """Take the lease of an unused name, of which there is no directory."""
    chosen = name or f"here-{secrets.token_hex(4)}"
    while True:
        lease = leases.take(chosen)
        if lease is not None and not (folder / chosen).exists():
            return lease, folder / chosen
        if lease is not None:
            lease.release()
        chosen = f"{name or 'here'}-{secrets.token_hex(4)}"


def _remove(directory: Path) -> None:
    writable(directory)
    shutil.rmtree(directory, ignore_errors=True)
