"""Datasets on disk: their places, and their making once, under a lease, outside any timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.cache.location import own_cache
from skymark.machine.private_directory import require_own
from skymark.model.base import digest_of
from skymark.model.errors import DataError
from skymark.suites.loading.registry import bind_scenario
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.specification import IMPORT_VERSION, LoadingSpecification
from skymark.suites.loading.storage_formats import IN_PLACE, SHARED

if TYPE_CHECKING:
    from skymark.model.record import Cell
    from skymark.suites.loading.adapter import Adapter
    from skymark.suites.loading.dataset.canonical import Dataset

LAYOUT_VERSION = 5
"""Raise when a shared format or the canonical form changes, so that old caches are not read."""


@dataclass(frozen=True)
class Storage:
    """The places of one scenario's data under the cache directory.

    `data` is None for synthetic data, else the user's ``--data`` text; imported data is keyed by
    `fingerprint` too, which tells what it held when the run was planned.
    """

    cache: Path
    scenario: Scenario
    data: str | None = None
    fingerprint: str | None = None
    skip_damaged: bool = False

    @classmethod
    def of_cell(cls, cache: Path, cell: Cell) -> Storage:
        """Return the places of a cell's data."""
        specification = LoadingSpecification.of(cell)
        return cls(
            cache,
            bind_scenario(cell),
            specification.data,
            specification.data_fingerprint,
            skip_damaged=bool(specification.skip_damaged),
        )

    @property
    def canonical(self) -> Path:
        """The canonical dataset's directory."""
        scenario = self.scenario
        if self.data is not None:
            source = [self.data, self.fingerprint, scenario.id, scenario.version]
            source += [self.skip_damaged, IMPORT_VERSION]
            size = scenario.size.model_dump(mode="json", exclude={"batch_size"})
            key = digest_of([LAYOUT_VERSION, source, size])
            return self.cache / "datasets" / f"imported-{key[:16]}"
        key = digest_of(
            [
                LAYOUT_VERSION,
                scenario.version,
                scenario.size.elements,
                dict(scenario.size.values),
                [{}],  # in the place of axes that change the data, of which no scenario has any
            ]
        )
        return self.cache / "datasets" / f"{scenario.id}-{key[:16]}"

    def of(self, adapter: type[Adapter], format: str) -> Path:
        """The directory of the data in one format; each library has its own for its formats.

        Reading such a format may run code, so the directory is one that only the user writes to.
        """
        if format in IN_PLACE:
            return self.canonical
        if format in SHARED:
            return self.canonical.with_name(f"{self.canonical.name}--shared-{format}")
        name = f"{self.canonical.name}--{adapter.slug}-{format}"
        return own_cache(self.cache) / self.canonical.parent.name / name

    def is_ready(self, adapter: type[Adapter], format: str) -> bool:
        """Whether the data is on disk in the format."""
        return all(path.is_dir() for path in {self.canonical, self.of(adapter, format)})

    @property
    def is_imported(self) -> bool:
        """Whether the canonical dataset is on disk."""
        return self.canonical.is_dir()

    def dataset(self) -> Dataset:
        """Open the canonical dataset, generating or importing it first if needed."""

        def make(directory: Path) -> None:
            if self.data is None:
                self.scenario.generate(directory)
            else:
                from skymark.suites.loading.dataset.images import note_kinds
                from skymark.suites.loading.dataset.importing import import_data

                import_data(
                    self.data,
                    self.scenario,
                    directory,
                    self.fingerprint,
                    skip_damaged=self.skip_damaged,
                )
                note_kinds(directory)

        _once(self.canonical, make)
        return self.scenario.open_dataset(self.canonical)

    def prepare(self, adapter: Adapter, format: str) -> Path:
        """Convert the data to a format if that has not been done, and return its directory."""
        dataset = self.dataset()
        if format in IN_PLACE:
            return self.canonical

        def make(directory: Path) -> None:
            if format in SHARED:
                from skymark.suites.loading.dataset.formats import FORMATS

                write = FORMATS[format].write
                if write is not None:
                    write(dataset, directory)
            else:
                adapter.convert(dataset, directory, format)

        directory = self.of(type(adapter), format)
        _once(directory, make)
        if format not in SHARED:
            require_own(directory)
        return directory


def _once(directory: Path, make: Callable[[Path], None]) -> None:
    """Make a directory exactly once over all processes; nobody sees it half-made."""
    from skymark.cache.building import build_once

    try:
        build_once(directory, make)
    except OSError as error:
        raise DataError(
            f"could not prepare {directory}: {error}; free some space or set "
            "SKYMARK_CACHE to a larger disk"
        ) from error
