"""Stores: their protocols, kinds and registry, and stores opened through it by address.

A class that inherits from a protocol, `Store` or its reading side `RunSource`, has its defaults.

The kinds of other packages are entry points of the group ``skymark.stores``: the name is the
scheme, the object a `StoreKind`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skymark.model.errors import StoreError, StoreUnavailableError, UsageError
from skymark.resources import extensions

if TYPE_CHECKING:
    from tenacity import Retrying
    from tenacity.stop import stop_base

FINISH_S = 120.0
"""Longest wait at the end of a run for stores that are slow or away."""
STORE_WAIT_VARIABLE = "SKYMARK_STORE_WAIT_S"
"""Another wait in seconds, where `skymark run --store-wait` says none."""
STALL_VARIABLE = "SKYMARK_STALL_TOKEN"
"""A word with which a run says that a store takes nothing, for a client that follows it."""


class RunSource(Protocol):
    """Files of one stored run: the reading side of a store."""

    @property
    def url(self) -> str:
        """The run's address as ``skymark fetch`` takes it; holds no secret."""

    @property
    def parallel(self) -> int:
        """The useful and allowed number of threads that use the store at a time."""
        return 1

    def get(self, path: str) -> bytes:
        """Read one file of at most `LARGEST_FILE_BYTES`.

        Raises:
            FileNotFoundError: there is none.
        """

    def sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of every file of the run, by path; empty for an unknown run."""

    def close(self) -> None:
        """Give back connections and processes, if any; nothing may be called afterwards."""
        return


class Store(RunSource, Protocol):
    """Files of one run in a remote place, addressed by their paths in the run's directory.

    `parallel` calls may be under way at a time. Every method returns within a bounded time, and
    raises `StoreUnavailableError` where trying again later may help, `StoreRefusedError` where
    only the user can help. No method trusts a success status where it can read back instead.
    """

    @property
    def live(self) -> bool:
        """Whether files can be put one by one; else all go with `complete`."""
        return True

    @property
    def several_writers(self) -> bool:
        """Whether several processes may put different files of one run at a time."""
        return True

    def check(self) -> None:
        """Prove that the store can be written and read, before anything is measured."""

    def put(self, path: str, data: bytes) -> None:
        """Write or replace one file, whole or not at all."""

    def delete(self, path: str) -> None:
        """Remove one file; no error if there is none."""

    def complete(self, directory: Path) -> str | None:
        """Finish storing a run, and read the result back.

        Called when the run's files no longer change, while the last of them are still being put;
        may be called again where it raised.

        Args:
            directory: the run's directory on disk.

        Returns:
            A line about the result for the user, or None.
        """
        del directory  # where every file was put by itself, nothing is left to do
        return None


LONGEST_WAIT_S = 30.0


def attempts(
    stop: stop_base,
    *,
    after: type[StoreError] = StoreUnavailableError,
    longest_wait_s: float = LONGEST_WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Retrying:
    """Return a caller that repeats a call after an error, and raises the last error at the end.

    Args:
        stop: when to give up.
        after: the errors after which to call again.
        longest_wait_s: between two attempts; the first waits are much shorter.
        sleep: waits that many seconds.
    """
    from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

    return Retrying(
        retry=retry_if_exception_type(after),
        wait=wait_exponential_jitter(multiplier=0.5, max=longest_wait_s),
        stop=stop,
        sleep=sleep,
        reraise=True,
    )


Variables = Mapping[str, str]
"""Environment variables."""


@dataclass(frozen=True)
class ClientLibrary:
    """Client library of a kind of store."""

    module: str
    install: Callable[[], str]
    """Returns the command that installs it."""


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """Declaration of a kind of store.

    A module that declares one imports the client in the function that opens a store, because
    declarations are read by commands that store nothing.
    """

    scheme: str
    """The beginning of its addresses, up to the colon; also the name it is registered by."""
    address: str
    """The form of an address, for messages: ``s3://BUCKET/PREFIX``."""
    opener: Callable[[str, str], Store]
    """Opens the store of a run from an address and the run's id; contacts nobody yet."""
    outlives_machine: bool
    """Whether every run stored here outlives the machine that made it, and is found again as
    ``ADDRESS/RUN-ID``: a managed job goes on from it on the next machine."""
    leaves_machine: Callable[[Variables], bool]
    """Returns whether results leave the machine, given its variables."""
    reader: Callable[[str], object] = lambda _: None
    """Reads an address or raises `UsageError`, without any connection."""
    run_opener: Callable[[str], RunSource] | None = None
    """Opens a stored run from its address; None where that is ``ADDRESS/RUN-ID``."""
    run_addresses: tuple[str, ...] = ()
    """The forms of a stored run's address, for messages; none means ``ADDRESS/RUN-ID``."""
    lister: Callable[[str], list[str]] | None = None
    """Returns the ids of the runs at an address; None where a store cannot tell."""
    default_url: Callable[[Variables], str | None] = lambda _: None
    """Returns the address that is used without being named, or None."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that its client reads."""
    has_credentials: Callable[[Variables], bool] = lambda _: True
    """Returns whether the variables are worth sending to another machine."""
    key_check: Callable[[Variables], None] | None = None
    """Proves that the store takes the key, where a probe would leave something; needs no client."""
    client: ClientLibrary | None = None
    """Client library of the store; None if skymark itself suffices."""

    def open(self, url: str, run_id: str) -> Store:
        """Open the store of a run; contacts nobody yet.

        Raises:
            UsageError: the address is none, the client is not installed, or a variable that it
                needs is not set.
        """
        self._require_client(url)
        return self.opener(url, run_id)

    def check(self, url: str, run_id: str, variables: Variables) -> None:
        """Prove that the store takes a run, by reversible writes and reads.

        Raises:
            StoreError: the store does not take it.
            UsageError: as `open`.
        """
        if self.key_check is not None:
            self.key_check(variables)
            return
        with closing(self.open(url, run_id)) as store:
            store.check()

    def open_run(self, url: str) -> RunSource:
        """Open a stored run for reading; contacts nobody yet.

        Raises:
            UsageError: the address names no run, or the client is not installed.
        """
        self._require_client(url)
        if self.run_opener is not None:
            return self.run_opener(url)
        address, _, run_id = url.rstrip("/").rpartition("/")
        if not run_id or not address or address.endswith(":/"):
            raise UsageError(f"{url!r} names no stored run; write {self.run_address}")
        return self.opener(address, run_id)

    def list_runs(self, url: str) -> list[str]:
        """Return the ids of the runs at an address; empty where the store cannot tell.

        Raises:
            UsageError: the address is none, or the client is not installed.
            StoreError: the store cannot be read.
        """
        if self.lister is None:
            return []
        self._require_client(url)
        return self.lister(url)

    def secrets(self, variables: Variables) -> dict[str, str]:
        """Return the set variables that another machine needs to use the store."""
        if not self.has_credentials(variables):
            return {}
        return {name: variables[name] for name in self.variables if variables.get(name)}

    @property
    def run_address(self) -> str:
        """The form of a stored run's address, for messages."""
        return " or ".join(self.run_addresses or (f"{self.address}/RUN-ID",))

    def _require_client(self, url: str) -> None:
        if self.client is not None and find_spec(self.client.module) is None:
            raise UsageError(
                f"{url} needs {self.client.module}, which is not installed; {self.client.install()}"
            )


GROUP = "skymark.stores"
BUILT_IN = (
    EntryPoint("s3", "skymark.store.bucket.address:BUCKET", GROUP),
    EntryPoint("wandb", "skymark.store.wandb.kind:WANDB", GROUP),
    EntryPoint("file", "skymark.store.directory:DIRECTORY", GROUP),
)


def kind_of(url: str) -> StoreKind:
    """Return the kind of store for an address.

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
    """Return the addresses of the default stores."""
    urls = (kind.default_url(variables) for kind in kinds())
    return tuple(url for url in urls if url is not None)


def wanted_urls(named: Iterable[str], variables: Variables) -> tuple[str, ...]:
    """Return the addresses of the named and the default stores, each once."""
    plain = (url.rstrip("/") for url in named)
    return tuple(dict.fromkeys((*plain, *default_urls(variables))))


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
    by_scheme = {point.name: point for point in BUILT_IN}
    for point in sorted(extensions(GROUP), key=lambda point: point.name):
        known = by_scheme.setdefault(point.name, point)
        if known.value != point.value:
            raise UsageError(
                f"two packages have a store of the scheme {point.name!r}: {known.value} and "
                f"{point.value}; remove one of them"
            )
    return by_scheme


@cache
def _kind(scheme: str) -> StoreKind:
    point = _entry_points()[scheme]
    try:
        kind = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the kind of store {scheme!r} ({point.value}) does not load: {error}; mend or remove "
            "the package that has it"
        ) from error
    if not isinstance(kind, StoreKind) or kind.scheme != scheme:
        raise UsageError(
            f"{point.value} is no StoreKind of the scheme {scheme!r}; mend or remove the package "
            "that has it"
        )
    return kind
