"""Claims on entries of the cache: one process builds or removes an entry, any number use it.

A user first notes its use and then looks whether somebody removes the entry; who removes it first
takes the entry and then looks for users. So at least one of the two sees the other.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from skymark.cache.library_variables import JOB_VARIABLE
from skymark.cache.permissions import make_shared_folder
from skymark.leases import Lease, Leases, Tenant

CLAIMS = ".leases"
"""Directory of leases, beside the entries that they are of."""
POLL_S = 0.1
LONGEST_NAME = 60


def claims_beside(entry: Path) -> Leases:
    """Return the leases of an entry and of its neighbours."""
    return Leases(entry.parent / CLAIMS)


def claim_name(entry: Path) -> str:
    """Return the name of the lease of an entry: readable, and another one for each entry."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", entry.name)[:LONGEST_NAME]
    return f"{readable}-{hashlib.sha256(entry.name.encode()).hexdigest()[:8]}"


def users_of(entry: Path, leases: Leases | None = None) -> list[Tenant | None]:
    """Return the processes that use an entry; None for one that cannot be told."""
    leases = leases or claims_beside(entry)
    names = [name for name in leases.names(_use_prefix(entry)) if not leases.is_abandoned(name)]
    return [leases.holder(name) for name in names]


@contextmanager
def using(entry: Path, announce: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Keep an entry, there or not yet, from being removed.

    Where leases cannot be written, as in a cache of another user, it is used without one.
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


@contextmanager
def exclusively(entry: Path, announce: Callable[[str], None] = lambda _: None) -> Iterator[Lease]:
    """Hold the one lease of an entry, after all who came before."""
    leases = claims_beside(entry)
    make_shared_folder(leases.directory)
    while (lease := leases.take(claim_name(entry))) is None:
        _wait_while_claimed(entry, announce)
    try:
        yield lease
    finally:
        lease.release()


def fetching_alone(
    variables: Mapping[str, str], announce: Callable[[str], None]
) -> AbstractContextManager[object]:
    """Return the barrier around what fills a cache that several runs share.

    Args:
        variables: this process's, which name the directory where a policy has chosen one.
        announce: told what is waited for.
    """
    chosen = variables.get(JOB_VARIABLE)
    return nullcontext() if chosen is None else exclusively(Path(chosen), announce)


@contextmanager
def removing(entry: Path) -> Iterator[bool]:
    """Claim an entry for removal; yields False, and claims nothing, where somebody has it."""
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
    """Note that an entry was used now, where it is this user's."""
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
