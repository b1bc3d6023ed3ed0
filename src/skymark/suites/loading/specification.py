"""The specification of a cell: what decides its data and its work, beyond names and settings."""

from __future__ import annotations

from pydantic import JsonValue

from skymark.model.base import Frozen
from skymark.model.cell import Cell
from skymark.suites.loading.dataset.sources.opening import split_asked_for
from skymark.suites.loading.scenario import Size

IMPORT_VERSION = 2
"""Raise when real data becomes other elements. Version 1 encoded all images as JPEG."""


class LoadingSpecification(Frozen):
    """Versions, seed, size, real data and the file of a user's own adapter; all of it is hashed."""

    scenario_version: int = 1
    seed: int = 0
    size: Size
    data: str | None = None
    """The user's ``--data`` text; None for synthetic data."""
    data_fingerprint: str | None = None
    """What the real data held when the run was planned."""
    skip_damaged: bool | None = None
    """True where damaged elements of the real data are left out, None where they are refused."""
    import_version: int | None = None
    """How the real data becomes elements (`IMPORT_VERSION`)."""
    adapter_version: int = 1
    adapter_file: str | None = None
    """``FILE.py:CLASS`` of an adapter outside any package, from the directory it was planned in."""
    adapter_digest: str | None = None
    """SHA-256 hex digest of that file."""

    @classmethod
    def of(cls, cell: Cell) -> LoadingSpecification:
        """Return the specification of a cell.

        Raises:
            ValidationError: the cell is not of this suite.
        """
        return cls.model_validate(cell.specification)

    @property
    def local_files(self) -> list[str]:
        """Files and directories of the user's own that only this machine has."""
        found = [] if self.adapter_file is None else [self.adapter_file.rpartition(":")[0]]
        if self.data is None or "://" in self.data:
            return found
        return [*found, split_asked_for(self.data)[0]]

    def json_content(self) -> dict[str, JsonValue]:
        """Return it as a cell holds it: what is not there is left out."""
        content: dict[str, JsonValue] = self.model_dump(mode="json", exclude_none=True)
        return content


def reference_of(cell: Cell) -> str:
    """Return how to find a cell's adapter: its slug, ``slug@version`` or ``FILE.py:CLASS``."""
    return LoadingSpecification.of(cell).adapter_file or cell.adapter
