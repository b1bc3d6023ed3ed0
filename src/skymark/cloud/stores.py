"""Stores and secrets of a run on a rented machine, and how they reach it.

Only its owner may read it, and the run takes it away as it begins. SkyPilot's own ``secrets`` would
lie in its API server's database and in the arguments of its processes; they are used for managed
jobs alone, whose next machine is hired when nobody is there to send a file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenacity import stop_after_attempt

from skymark.model.errors import StoreError, UsageError
from skymark.model.plan import Plan
from skymark.store.attempts import attempts
from skymark.store.kinds import StoreKind, default_urls, kind_of, kinds

ATTEMPTS = 3
LONGEST_WAIT_S = 4.0
"""Between two attempts to check a store that is away."""


def lasting_store(stores: Sequence[str]) -> str:
    """Return the first store that outlives a machine.

    Raises:
        UsageError: there is none.
    """
    if lasting := stores_that_last(stores):
        return lasting[0]
    fit = " or ".join(f"--store {one.address}" for one in kinds() if one.outlives_machine)
    raise UsageError(
        "--managed needs a store that outlives the machine, where the next one finds what was "
        f"measured; add {fit}"
    )


def stores_that_last(stores: Sequence[str]) -> list[str]:
    """Return the stores that outlive a machine and find a run again by its id."""
    return [store.rstrip("/") for store in stores if kind_of(store).outlives_machine]


def results_leave(stores: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Whether results leave the machine while it measures.

    Args:
        stores: of ``skymark run --store`` on the machine.
        variables: the caller's, whose secrets go to the machine.
    """
    return any(kind.leaves_machine(variables) for kind in _used(stores, variables))


def store_secrets(stores: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the machine needs to reach its stores, of those that are set."""
    secrets: dict[str, str] = {}
    for kind in _used(stores, variables):
        secrets |= kind.secrets(variables)
    return secrets


def check_stores(stores: Sequence[str], run_id: str, variables: Mapping[str, str]) -> None:
    """Prove from here that the stores which results leave a machine for take them.

    Raises:
        StoreError: one cannot be written, read, listed or cleaned with these keys.
        UsageError: an address is none, or its client is not installed here.
    """
    for url in dict.fromkeys((*stores, *default_urls(variables))):
        kind = kind_of(url)
        if not kind.leaves_machine(variables):
            continue  # it is on the machine's own disk
        try:
            attempts(stop_after_attempt(ATTEMPTS), longest_wait_s=LONGEST_WAIT_S)(
                kind.check, url, run_id, variables
            )
        except StoreError as error:
            raise type(error)(f"nothing was hired: {error}") from error


def _used(stores: Sequence[str], variables: Mapping[str, str]) -> list[StoreKind]:
    """Return the kinds of the stores that are named, and of those used without being named."""
    return [kind_of(url) for url in (*stores, *default_urls(variables))]


HUB_ADDRESS = "hf://"
HUB = ("HF_TOKEN",)


def secrets_for(plan: Plan, stores: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of a run: of its stores, and of the Hub if its plan reads from there.

    Args:
        plan: the cells.
        stores: of ``skymark run --store``.
        variables: the caller's.
    """
    secrets = store_secrets(stores, variables)
    if any(HUB_ADDRESS in one.cell.model_dump_json() for one in plan.cells):
        secrets |= {name: variables[name] for name in HUB if variables.get(name)}
    return secrets


def write_secrets(path: Path, secrets: Mapping[str, str]) -> None:
    """Write a new file that bash reads as variables, and that only its owner may read.

    Raises:
        FileExistsError: another process made one at the same moment.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
