"""Registry of the kinds of stores, and the stores opened through it by address.

The kinds of other packages are entry points of the group ``skymark.stores``: the name is the
scheme, the object a `StoreKind`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint

from skymark.model.errors import UsageError
from skymark.references import extensions
from skymark.store.kind import StoreKind, Variables
from skymark.store.store import RunSource, Store

GROUP = "skymark.stores"
BUILT_IN = (
    EntryPoint("s3", "skymark.store.bucket.kind:BUCKET", GROUP),
    EntryPoint("wandb", "skymark.store.wandb.kind:WANDB", GROUP),
    EntryPoint("file", "skymark.store.directory:DIRECTORY", GROUP),
)


def kind_of(url: str) -> StoreKind:
    """Return the kind of store that an address names.

    Raises:
        UsageError: it names none, or is no address of its kind, or the package that has the kind
            does not load.
    """
    if _scheme(url) not in _entry_points():
        raise UsageError(f"{url!r} names no store; known are {known_addresses()}")
    kind = _kind(_scheme(url))
    kind.reader(url)
    return kind


def kinds() -> tuple[StoreKind, ...]:
    """Return every kind of store that is installed, the built-in ones first.

    Raises:
        UsageError: a package that has one does not load, or two have the same scheme.
    """
    return tuple(map(_kind, _entry_points()))


def is_address(text: str) -> bool:
    """Return whether a text begins as the address of a store does."""
    return "://" in text or _scheme(text) in _entry_points()


def known_addresses() -> str:
    """Return the forms of all addresses, for messages."""
    return ", ".join(kind.address for kind in kinds())


def default_urls(variables: Variables) -> tuple[str, ...]:
    """Return the addresses of the stores that are used without being named."""
    urls = (kind.default_url(variables) for kind in kinds())
    return tuple(url for url in urls if url is not None)


def open_store(url: str, run_id: str) -> Store:
    """Open the store of a run; contacts nobody yet.

    Args:
        url: such as ``s3://bucket/prefix``, ``wandb`` or ``file:///directory``.
        run_id: the run's name; its files lie below it.

    Raises:
        UsageError: the address names no store, its client is not installed, or a variable that it
            needs is not set.
    """
    return kind_of(url).open(url, run_id)


def open_source(url: str) -> RunSource:
    """Open a stored run for reading; contacts nobody yet.

    Args:
        url: such as ``s3://bucket/prefix/RUN-ID``, ``file:///directory/RUN-ID`` or ``wandb://…``.

    Raises:
        UsageError: the address names no stored run, or its client is not installed.
    """
    if _scheme(url) not in _entry_points():
        known = ", ".join(kind.run_address for kind in kinds())
        raise UsageError(f"{url!r} names no stored run; known are {known}")
    return kind_of(url).open_run(url)


def runs_at(url: str) -> list[str]:
    """Return the ids of the runs at an address; empty where the store cannot tell.

    Raises:
        UsageError: the address names no store, or its client is not installed.
        StoreError: the store cannot be read.
    """
    return kind_of(url).list_runs(url)


def _scheme(url: str) -> str:
    return url.partition(":")[0]


@cache
def _entry_points() -> dict[str, EntryPoint]:
    found = {one.name: one for one in BUILT_IN}
    for one in sorted(extensions(GROUP), key=lambda one: one.name):
        if one.name in found and found[one.name].value != one.value:
            raise UsageError(
                f"two packages have a store of the scheme {one.name!r}: {found[one.name].value} "
                f"and {one.value}; remove one of them"
            )
        found[one.name] = one
    return found


@cache
def _kind(scheme: str) -> StoreKind:
    found = _entry_points()[scheme]
    try:
        kind = found.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the kind of store {scheme!r} ({found.value}) does not load: {error}; mend or remove "
            "the package that has it"
        ) from error
    if not isinstance(kind, StoreKind) or kind.scheme != scheme:
        raise UsageError(
            f"{found.value} is no StoreKind of the scheme {scheme!r}; mend or remove the package "
            "that has it"
        )
    return kind
