"""Stores of a run on a rented machine: the lasting one, and the secrets that reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skymark.model.errors import UsageError
from skymark.store.kind import StoreKind
from skymark.store.kinds import default_urls, kind_of, kinds


def lasting_store(stores: Sequence[str]) -> str:
    """Return the first store that outlives a machine.

    Raises:
        UsageError: there is none.
    """
    for store in stores:
        if kind_of(store).outlives_machine:
            return store.rstrip("/")
    fit = " or ".join(f"--store {one.address}" for one in kinds() if one.outlives_machine)
    raise UsageError(
        "--managed needs a store that outlives the machine, where the next one finds what was "
        f"measured; add {fit}"
    )


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


def _used(stores: Sequence[str], variables: Mapping[str, str]) -> list[StoreKind]:
    """Return the kinds of the stores that are named, and of those used without being named."""
    return [kind_of(url) for url in (*stores, *default_urls(variables))]
