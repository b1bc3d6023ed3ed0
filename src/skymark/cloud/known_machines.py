"""Local notes about rented machines: their runs, facts, and files to send.

A plan stays as long as another machine may replace the machine. Secrets stay until it is up. The
facts that end the machine stay until it is proved gone.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field, ValidationError

from skymark.cache.location import own_cache
from skymark.cloud.rented_run import RentedRun
from skymark.execute.planner import write_plan
from skymark.machine.private_directory import own_folder, private_directory
from skymark.model.base import Frozen, faults_of
from skymark.model.errors import NameTakenError, UnknownMachineError, UsageError
from skymark.model.plan import Plan
from skymark.plain_files import write_whole

SECRETS_SUFFIX = ".secrets"
PLAN_SUFFIX = ".plan.json"
RENTED_SUFFIX = ".rented.json"
DAY_S = 86400


class ProviderAddress(Frozen):
    """Directions to a cluster in its provider's own list."""

    provider: str
    """SkyPilot's name of it."""
    name: str
    """The cluster's name with the provider."""
    settings: dict[str, Any]
    """SkyPilot's settings, such as region and zone; no credentials."""


class RentedMachines(Frozen):
    """The machines of a cluster or managed job as rented: all that is needed to end them."""

    name: str
    """Name of the cluster or the managed job in skymark."""
    cluster: str
    """Name of the cluster in SkyPilot."""
    ids: tuple[str, ...] = ()
    """The provider's ids; empty if they are not known yet."""
    kind: str = "a machine of unknown kind"
    instance_type: str | None = None
    """The provider's name of the kind."""
    nodes: int = 1
    spot: bool = False
    hourly_price_usd: float | None = Field(default=None, gt=0)
    """Price of all machines together; None if unknown."""
    price_from: Literal["catalogue", "provider"] = "catalogue"
    address: ProviderAddress | None = None
    not_ended_since: AwareDatetime | None = None
    """Time of the last failed attempt to end them; None without one."""
    absent_since_s: float | None = None
    """Moment of `skymark.cloud.waiting.clock_s` from which SkyPilot and their provider list none of
    them."""

    def with_what_was_told(self, before: RentedMachines | None) -> RentedMachines:
        """Return a copy with missing ids and price filled in from earlier facts."""
        if before is None:
            return self
        changes: dict[str, Any] = {} if self.ids else {"ids": before.ids}
        if before.price_from == "provider" or self.hourly_price_usd is None:
            changes["hourly_price_usd"] = before.hourly_price_usd
            changes["price_from"] = before.price_from
        return self.model_copy(update=changes)

    @property
    def in_words(self) -> str:
        """Ids, kind and price per hour."""
        price = self.hourly_price_usd
        cost = "of unknown price" if price is None else f"at ${price:.2f}/h"
        return ", ".join((*self.ids, self.kind, cost))


def claim(run: RentedRun) -> None:
    """Record a run under a name that no other local run uses.

    Raises:
        NameTakenError: another run uses the name, and its machine may still exist.
    """
    try:
        with _path(run.name).open("xb") as file:
            file.write(run.model_dump_json(indent=1).encode())
    except FileExistsError as error:
        raise taken(run.name) from error


def taken(cluster: str) -> NameTakenError:
    """Return the error of a launch under a name in use."""
    return NameTakenError(
        f"nothing was rented: the name {cluster} is in use by another launch, of "
        f"yours or of another user; give another --cluster, or end yours: `skymark down {cluster}`"
    )


@contextmanager
def turn_of(cluster: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other local process puts jobs into a machine's queue."""
    from filelock import FileLock, Timeout

    path = _path(cluster)
    lock = FileLock(path.with_suffix(".lock"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"waiting: another skymark is putting jobs into the queue of {cluster}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def recall(name: str) -> RentedRun:
    """Return the recorded run of a machine rented from here.

    Raises:
        UnknownMachineError: there is none.
        UsageError: the note is damaged, or from another version of skymark.
    """
    path = _path(name)
    try:
        return RentedRun.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UnknownMachineError(
            f"{name} was not rented from here; `skymark status` shows what was"
        ) from error
    except (ValidationError, UsageError) as error:
        faults = faults_of(error) if isinstance(error, ValidationError) else [str(error)]
        raise UsageError(
            f"the note of {name} in {path} is damaged ({'; '.join(faults)}); end the machine with "
            f"`skymark down {name}`"
        ) from error


def known_names() -> set[str]:
    """Return the names of machines rented from here that may still exist."""
    names = (path.name for path in _directory().glob("*.json") if path.is_file())
    return {
        name.removesuffix(".json").removesuffix(".rented")
        for name in names
        if not name.endswith(PLAN_SUFFIX)
    }


def forget(cluster: str) -> None:
    """Remove the notes and the files of a machine that is gone."""
    for suffix in (".json", PLAN_SUFFIX, ".lock", RENTED_SUFFIX, SECRETS_SUFFIX):
        _path(cluster).with_suffix(suffix).unlink(missing_ok=True)


def is_known(cluster: str) -> bool:
    """Return whether a machine was rented from here and may still exist."""
    return any(_path(cluster).with_suffix(one).exists() for one in (".json", RENTED_SUFFIX))


def note_rented(machines: RentedMachines) -> None:
    """Persist the facts of rented machines."""
    path = _path(machines.name).with_suffix(RENTED_SUFFIX)
    write_whole(path, machines.model_dump_json(indent=1).encode())


def rented(cluster: str) -> RentedMachines | None:
    """Return the facts of machines rented from here; None without facts."""
    return _read_rented(_path(cluster).with_suffix(RENTED_SUFFIX))


def all_rented() -> list[RentedMachines]:
    """Return the facts of all machines that were rented from here and not proved gone."""
    noted = map(_read_rented, sorted(_directory().glob(f"*{RENTED_SUFFIX}")))
    return [machines for machines in noted if machines is not None]


def keep_plan(cluster: str, plan: Plan) -> Path:
    """Write a machine's plan into a file, for SkyPilot to take it there; returns the file."""
    path = _path(cluster).with_suffix(PLAN_SUFFIX)
    write_plan(plan, path)
    return path


def keep_secrets(cluster: str, secrets: Mapping[str, str]) -> Path:
    """Write a machine's secrets into a file for SkyPilot to send, and return the file.

    Leftover files of killed clients are removed after a day.
    """
    path = _path(cluster).with_suffix(SECRETS_SUFFIX)
    for left in path.parent.glob(f"*{SECRETS_SUFFIX}"):
        if time.time() - left.stat().st_mtime > DAY_S:
            left.unlink(missing_ok=True)
    write_secrets(path, secrets)
    return path


def forget_secrets(cluster: str) -> None:
    """Remove a machine's secrets, once it has them."""
    _path(cluster).with_suffix(SECRETS_SUFFIX).unlink(missing_ok=True)


def write_secrets(path: Path, secrets: Mapping[str, str]) -> None:
    """Write a new file of variables for bash that only its owner may read.

    SkyPilot's own ``secrets`` appear in its API server's database and in the arguments of its
    processes. Only managed jobs use them, because nobody sends files to their next machine.

    Raises:
        FileExistsError: another process made the file at the same moment.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())


def _read_rented(path: Path) -> RentedMachines | None:
    try:
        return RentedMachines.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _directory() -> Path:
    """Return the directory of notes, made on first use and this user's alone."""
    return private_directory([own_folder(own_cache()) / "machines"])


def _path(cluster: str) -> Path:
    return _directory() / f"{Path(cluster).name}.json"
