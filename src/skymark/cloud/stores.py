"""Stores of a run on a rented machine: the lasting one, and the secrets that reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenacity import stop_after_attempt

from skymark.model.errors import StoreError, UsageError
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
    """Return the set variables that the machine needs to reach its stores."""
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
    """Return the kinds of the named stores and of the default stores."""
    return [kind_of(url) for url in (*stores, *default_urls(variables))]
