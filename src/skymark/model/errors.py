"""Errors that skymark raises on purpose, of rented machines too. The CLI catches `SkymarkError`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from skymark.model.sizes import some_of

MOST_LISTED = 60
"""Most names that a message lists; further names are counted."""


class SkymarkError(Exception):
    """A failure whose message gives the value, the cause and the next action."""

    exit_code = 2


class UsageError(SkymarkError):
    """Impossible or invalid request; nothing was started."""


class UnknownNameError(UsageError):
    """A scenario, adapter, profile or setting that does not exist."""

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        titles: Mapping[str, str] | None = None,
        listing: str | None = None,
    ) -> None:
        """Name the nearest known name, and list all.

        Args:
            kind: the kind of the thing.
            name: its unknown name.
            known: the names to list.
            titles: known names by other names, which are not listed.
            listing: the command that shows the known names if they are many.
        """
        choices = sorted(known)
        by_folded = {other.casefold(): choice for other, choice in (titles or {}).items()}
        by_folded |= {choice.casefold(): choice for choice in choices}
        near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.4)
        hint = f" Did you mean {by_folded[near[0]]!r}?" if near else ""
        known_are = f"Known: {some_of(choices, MOST_LISTED)}"
        if listing is not None and len(choices) > MOST_LISTED:
            known_are = f"`{listing}` shows all"
        super().__init__(f"unknown {kind} {name!r}.{hint} {known_are}")


class DataError(UsageError):
    """Unreadable data set, or a data set that contradicts its description."""


class ChangedSincePlanError(DataError):
    """Data, texts, weights or an adapter that changed since the run was planned."""

    def __init__(self, changed: object) -> None:
        """Name the file, folder or address that changed."""
        super().__init__(f"{changed} changed since the run was planned; plan again")


class NothingToMeasureError(UsageError):
    """Plan without a cell that can be measured."""

    def __init__(self) -> None:
        super().__init__("the plan has nothing that can be measured; see `skymark plan`")


class RunDirectoryError(UsageError):
    """Output directory that holds another plan or cannot be written."""


class DamagedManifestError(RunDirectoryError):
    """Run with an unreadable manifest; its records may be whole."""


OFFLINE = re.compile(
    r"dns error|error sending request|failed to fetch|\(connect\)|unreachable|timed out"
    r"|(?:network|connectivity) (?:was|is) disabled|name resolution",
    re.IGNORECASE,
)
"""Words in uv's error when no package index answers."""


class VenvBuildError(SkymarkError):
    """An adapter's venv could not be made. `log_tail` says why."""

    exit_code = 1

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail

    @property
    def is_offline(self) -> bool:
        """Whether uv could not reach a package index."""
        return OFFLINE.search(self.log_tail) is not None


class LibraryAbsentError(SkymarkError):
    """The adapter's library is not installed for the worker; the cell is skipped."""

    exit_code = 1


class UnsupportedError(SkymarkError):
    """The library under test does not support this data or machine."""

    exit_code = 1


class CacheError(SkymarkError):
    """Cache that cannot be built or used, or that has changed."""

    exit_code = 1


class StorageFullError(SkymarkError):
    """The disk or store refused a write; what was written before is intact."""

    exit_code = 1


class StoreError(SkymarkError):
    """Failed request to a remote store."""

    exit_code = 1


class StoreUnavailableError(StoreError):
    """The store is unreachable, slow, busy or broken: the same request may succeed later."""


class StoreRefusedError(StoreError):
    """The store refused: credentials, permission, or a missing bucket or project."""

    exit_code = 2


class GateError(SkymarkError):
    """A gate failed: a budget or a regression."""

    exit_code = 3


class CloudError(SkymarkError):
    """The provider, the machine or SkyPilot did not do as asked."""

    exit_code = 1


class MachineLostError(CloudError):
    """The machine is gone: preempted, or ended by its timer or by somebody else."""


class NameTakenError(UsageError):
    """Another launch uses this machine name, or takes it at this moment."""


class UnknownMachineError(UsageError):
    """No machine of this name was rented from here."""


class UnreachableError(CloudError):
    """The machine does not answer, or the connection to it breaks."""


class StillBillingError(CloudError):
    """A machine did not end on request; it costs money until somebody ends it."""


class NoMachineError(UsageError):
    """A machine that does not exist, as far as SkyPilot knows."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no machine {name}; `skymark status` shows the names")
