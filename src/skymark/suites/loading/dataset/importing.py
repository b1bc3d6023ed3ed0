"""Real data: checked and sized when a run is planned, imported once before it is measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.cache.stand_in import stand_in
from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.opening import open_source

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset
    from skymark.suites.loading.dataset.columns import Recipe
    from skymark.suites.loading.dataset.sources.data_source import DataSource
    from skymark.suites.loading.scenario import Scenario, Size

CHECKED_ELEMENTS = 1_000
"""Elements looked at for damage when a run is planned; the import decodes every element."""


class RealData:
    """Real data named with ``--data``, opened once to plan every scenario that reads it.

    It is a `skymark.model.named_data.NamedData`, too: a cache policy may keep its rows.

    Raises:
        DataError: there is no such thing, or it holds no data that skymark can read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = open_source(name)
        self._checked: set[str] = set()

    @cached_property
    def fingerprint(self) -> str:
        """A digest that changes with the data: of files' sizes and times, or of a revision."""
        return self.source.fingerprint()

    @property
    def address(self) -> str:
        """The user's name for it, a path of this disk made absolute."""
        return self.name if "://" in self.name else str(Path(self.name).expanduser().absolute())

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of a row's values."""
        return self.source.fields

    @property
    def size_bytes(self) -> int | None:
        """The size of the files; None where nobody tells it."""
        return self.source.size_bytes()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this disk that it is read from; none where it lies elsewhere."""
        return self.source.files

    def rows(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the place and the values of every row."""
        yield from self.source.read(self.source.fields, sys.maxsize)

    def has_changed(self) -> bool:
        """Whether files or the revision are not what they were."""
        return self.source.fingerprint() != self.fingerprint

    def check(self, scenario: type[Scenario]) -> None:
        """Check that the data has what a scenario needs, undamaged as far as shows quickly.

        Raises:
            DataError: it has not; the message says what to do.
        """
        from skymark.suites.loading.dataset.columns import RECIPES

        columns = imported_columns(scenario)
        unknown = [column for column in columns if column not in RECIPES]
        if unknown or not columns:
            what = f"its column {unknown[0]!r}" if unknown else "its data"
            raise DataError(
                f"{scenario.id} does not run on real data, of which nothing makes {what}; "
                "leave the scenario out, or --data"
            )
        for field in {field for column in columns for field in fields_for(self.source, column)}:
            self._check_field(field)
        if not self.source.is_remote:
            for column in columns:
                if next(column_values(self.source, column, 1), None) is None:
                    raise DataError(f"{self.name} holds no element; give data that does")

    def size(self, scenario: type[Scenario], size: Size) -> Size:
        """Return a variant's size as it is with this data: at most the variant's own elements.

        Raises:
            DataError: there are too few elements, or they cannot be read.
        """
        return scenario.imported_size(self.source, size)

    def _check_field(self, field: str) -> None:
        if field not in self._checked:
            self.source.check(field, CHECKED_ELEMENTS)
            self._checked.add(field)


def import_data(
    data: str, scenario: Scenario, directory: Path, fingerprint: str | None = None
) -> Dataset:
    """Read data into the canonical form that a scenario's work reads.

    Where a cache policy keeps its rows as Parquet, those are read, with the same values.

    Args:
        data: what the user named.
        scenario: of a size that `RealData.size` gave.
        directory: where to write.
        fingerprint: the data's when the run was planned, where it must be the same still.

    Raises:
        DataError: an element cannot be read, or the data changed; the message says what.
    """
    source = open_source(data)
    if fingerprint is not None and source.fingerprint() != fingerprint:
        raise DataError(f"{data} has changed since the run was planned; start a new run")
    if kept := stand_in(fingerprint, os.environ):
        from skymark.suites.loading.dataset.sources.parquet import ParquetFiles

        source = ParquetFiles(kept)
    dataset = scenario.import_source(source, directory)
    if len(dataset) != scenario.size.elements:
        raise DataError(
            f"{data} gave {len(dataset)} elements, where {scenario.size.elements} were counted; "
            "it has changed meanwhile: start a new run"
        )
    return dataset


# What scenarios are made of: a source, column by column.


def fields_for(source: DataSource, column: str) -> tuple[str, ...]:
    """Return the fields of a source that a canonical column is made of.

    Raises:
        DataError: the source has none for it.
    """
    recipe = _recipe(column)
    fields = recipe.fields_of(source.fields)
    if not fields:
        raise DataError(
            f"the data has no {recipe.wanted}, only {', '.join(source.fields)}; "
            f"rename what is to be the {column}"
        )
    return fields


def column_values(source: DataSource, column: str, limit: int) -> Iterator[Any]:
    """Read one canonical column of the first `limit` rows.

    Raises:
        DataError: the source has no field for it, or a value cannot be read.
    """
    recipe = _recipe(column)
    fields = fields_for(source, column)
    for place, values in source.read(fields, limit):
        yield recipe.convert(values if recipe.takes_several else values[0], place)


def write_columns(
    source: DataSource, columns: Sequence[str], limit: int, directory: Path
) -> Dataset:
    """Write canonical columns of the first `limit` rows, ragged ones as they come."""
    from skymark.suites.loading.dataset.canonical import write_dataset

    written: dict[str, Array | Iterator[Array]] = {}
    for column in columns:
        recipe, made = _recipe(column), column_values(source, column, limit)
        written[column] = made if recipe.ragged else recipe.finish(list(made))
    encodings = {column: _recipe(column).encoding for column in columns}
    return write_dataset(directory, "imported data", written, encodings)


def rows_size(source: DataSource, size: Size) -> Size:
    """Return a size whose elements are the source's rows, at most those of `size`."""
    return with_elements(size, source.count(size.elements))


def with_elements(size: Size, count: int) -> Size:
    """Return a variant's size with at most `count` elements, and of the variant's kind.

    A variant ends with a short batch, so that a loader that drops it is found out: where all
    batches would be full, one element fewer is taken. A variant of full batches stays one.

    Raises:
        DataError: there are too few elements.
    """
    if count >= size.elements:
        return size
    left = count % size.batch_size
    elements = count
    if size.elements % size.batch_size == 0:
        elements -= left
    elif left == 0:
        elements -= 1
    if elements < 1:
        needed = size.batch_size if count else 1
        raise DataError(f"the data gives {count} elements, where at least {needed} are needed")
    return size.model_copy(update={"elements": elements})


def _recipe(column: str) -> Recipe:
    from skymark.suites.loading.dataset.columns import RECIPES

    return RECIPES[column]


def imported_columns(scenario: type[Scenario]) -> tuple[str, ...]:
    """Return the canonical columns that a scenario needs of real data; empty if it takes none."""
    if scenario.imports is not None:
        return scenario.imports
    any_size = next(iter(scenario.variants.values()))
    return scenario(size=any_size).columns or ()
