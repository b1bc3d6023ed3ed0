"""Leases: named claims of one process at a time; another process takes over after its death.

A lease is a file ``NAME.GENERATION`` in a shared directory. It is made by an exclusive create,
which is atomic on local disks and on NFS 3 and later, where ``flock`` may hold for one machine
only. The holder touches it every few seconds. A process that finds it untouched for a while, by its
own clock, makes the next generation, which then counts. If the holder's process on this machine is
gone, there is no wait.

filelock 4.2 has leases, too. Its `SoftFileLease` never replaces a dead holder where the file system
cannot exchange two names (NFS, SMB, Lustre). Its `SoftReadWriteLock` belongs to one user, and waits
for a dead holder on this machine, too.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from skymark.model.base import Frozen
from skymark.plain_files import read_regular

BEAT_S = 5.0
"""Between two touches."""
EXPIRY_S = 30.0
"""Without a touch, after which a holder counts as dead."""
ABANDONED_S = 10 * EXPIRY_S
"""Expiry for a single look: longer, so that an unreachable disk makes no holder count as dead."""
LARGEST_BYTES = 4096


class Tenant(Frozen):
    """The process that holds a lease, as the lease's file names it."""

    token: str
    """Of this one claim."""
    machine: str
    """Host name and boot; processes of another machine cannot be checked."""
    pid: int
    began_s: float
    """When the process began, in seconds since the epoch; a later one may have its number."""

    @classmethod
    def of(cls, pid: int) -> Tenant:
        """Return a process of this machine as a holder.

        Raises:
            psutil.NoSuchProcess: there is none.
        """
        import psutil

        began_s = psutil.Process(pid).create_time()
        return cls(token=secrets.token_hex(16), machine=this_machine(), pid=pid, began_s=began_s)

    @classmethod
    def read(cls, path: Path) -> Tenant | None:
        """Return the holder that a file names; None if it is gone, or not wholly written."""
        try:
            return cls.model_validate_json(read_regular(path, largest=LARGEST_BYTES))
        except (OSError, ValueError):
            return None

    @property
    def title(self) -> str:
        """The process, as a message names it."""
        return f"process {self.pid} on {self.machine.partition(' ')[0]}"

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine that has ended, reaped or not."""
        import psutil

        if self.machine != this_machine():
            return False
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.began_s) > 1 or not process.is_running():
                return True
            return bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


def this_machine() -> str:
    """Return a name of this machine since it booted, also where containers share it."""
    import psutil

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = f"{psutil.boot_time():.0f}"
    try:
        processes = os.fspath(Path("/proc/self/ns/pid").readlink())
    except OSError:
        processes = ""
    return f"{socket.gethostname()} {boot} {processes}"


class Lease:
    """A claim that this process holds, kept alive by a thread until it is released or lost."""

    def __init__(self, path: Path, tenant: Tenant, beat_s: float = BEAT_S) -> None:
        """Keep a new claim alive.

        Args:
            path: its file.
            tenant: what is in it.
            beat_s: seconds between two touches.
        """
        self.path = path
        self._tenant = tenant
        self._beat_s = beat_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease-{path.name}", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        """Whether this process still holds it: another may take it from a stalled process."""
        name, generation = _parts(self.path)
        claims = _claims(self.path.parent, name)
        return max(claims, default=0) == generation and Tenant.read(self.path) == self._tenant

    def release(self) -> None:
        """Give it back, with the claims of dead holders."""
        self._over.set()
        self._thread.join()
        if not self.is_held:
            return
        name, _ = _parts(self.path)
        for _, path in sorted(_claims(self.path.parent, name).items()):
            path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._over.wait(self._beat_s):
            if Tenant.read(self.path) != self._tenant:
                return
            try:
                os.utime(self.path)
            except OSError:  # a disk that is away comes back, or somebody takes over
                continue


class Leases:
    """The leases of a directory, as one process sees and takes them."""

    def __init__(
        self,
        directory: Path,
        *,
        expiry_s: float = EXPIRY_S,
        beat_s: float = BEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use a directory; it is made when the first lease is taken.

        Args:
            directory: shared by all that may take its leases.
            expiry_s: seconds without a touch after which a holder counts as dead.
            beat_s: seconds between two touches of a lease that is held here.
            clock: of this process, in seconds; no other clock counts.
        """
        self.directory = directory
        self._expiry_s = expiry_s
        self._beat_s = beat_s
        self._clock = clock
        self._seen: dict[Path, tuple[int, float]] = {}
        """Modification time of each claim, and when it was first seen so."""

    def take(self, name: str) -> Lease | None:
        """Take a lease; None if a live process holds it.

        Args:
            name: letters, digits, ``-`` and ``_``.

        Raises:
            OSError: the directory cannot be written.
        """
        before = _claims(self.directory, name)
        if before and not self._is_dead(before[max(before)]):
            return None
        known = {path: Tenant.read(path) for path in before.values()}
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.{max(before, default=0) + 1}"
        tenant = Tenant.of(os.getpid())
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(tenant.model_dump_json())
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            return None
        after = _claims(self.directory, name)
        others = [claim for claim in after.values() if claim != path]
        if any(claim not in known or known[claim] != Tenant.read(claim) for claim in others):
            path.unlink(missing_ok=True)  # another one came at the same moment
            return None
        return Lease(path, tenant, self._beat_s)

    def is_held(self, name: str) -> bool:
        """Return whether a live process holds a lease."""
        claims = _claims(self.directory, name)
        return bool(claims) and not self._is_dead(claims[max(claims)])

    def holder(self, name: str) -> Tenant | None:
        """Return the holder of a lease; None without a live, readable one."""
        claims = _claims(self.directory, name)
        return Tenant.read(claims[max(claims)]) if self.is_held(name) and claims else None

    def is_abandoned(self, name: str) -> bool:
        """Return whether no live process holds a lease, by a single look.

        The time since its last touch is measured by the disk's clock, from a new file.
        """
        if not self.is_held(name):
            return True
        claims = _claims(self.directory, name)
        probe = self.directory / f".{secrets.token_hex(8)}"
        try:
            probe.touch(exist_ok=False)
            now_s = probe.stat().st_mtime
            touched_s = max((path.stat().st_mtime for path in claims.values()), default=0.0)
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
        return now_s - touched_s > ABANDONED_S

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all leases not given back, dead ones too."""
        names = {path.name.rpartition(".")[0] for path in self.directory.glob(f"{prefix}*.*")}
        return sorted(names - {""})

    def forget(self, name: str) -> None:
        """Remove the claims to a lease whose holder is dead."""
        if self.is_abandoned(name):
            for path in _claims(self.directory, name).values():
                path.unlink(missing_ok=True)

    def _is_dead(self, path: Path) -> bool:
        """Whether the holder of a claim is gone, or has not touched it for long."""
        try:
            touched_ns = path.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        tenant = Tenant.read(path)
        if tenant is not None and tenant.is_gone:
            return True
        now_s = self._clock()
        seen_ns, since_s = self._seen.get(path, (None, now_s))
        if seen_ns != touched_ns:
            since_s = now_s
        self._seen[path] = (touched_ns, since_s)
        return now_s - since_s > self._expiry_s


def _parts(path: Path) -> tuple[str, int]:
    name, _, generation = path.name.rpartition(".")
    return name, int(generation)


def _claims(directory: Path, name: str) -> dict[int, Path]:
    """Return the claims to a lease by generation; the highest one counts."""
    claims = {}
    for path in directory.glob(f"{name}.*"):
        generation = path.name.removeprefix(f"{name}.")
        if generation.isdecimal() and generation.isascii():
            claims[int(generation)] = path
    return claims
