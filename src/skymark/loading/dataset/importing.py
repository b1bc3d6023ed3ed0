"""Real data: checked and sized when a run is planned, imported once before it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.loading.dataset.sources.opening import open_source
from skymark.model.errors import DataError

if TYPE_CHECKING:
    from skymark.loading.dataset.canonical import Array, Dataset
    from skymark.loading.dataset.columns import Recipe
    from skymark.loading.dataset.sources.source import Source
    from skymark.loading.scenario import Scenario, Size

CHECKED_ELEMENTS = 1_000
"""Elements looked at for damage when a run is planned; the import decodes every element."""


def check_data(data: str, scenario: type[Scenario]) -> str:
    """Check that data can be read and has what a scenario needs; return what it is, in words.

    Raises:
        DataError: it cannot, or has not; the message says what to do.
    """
    return _checked(data, scenario, data_fingerprint(data))


def data_fingerprint(data: str) -> str:
    """Return a digest that changes when the data does: of files' sizes and times, or a revision.

    Raises:
        DataError: the data cannot be read.
    """
    return open_source(data).fingerprint()


def imported_size(data: str, scenario: type[Scenario], size: Size) -> Size:
    """Return a variant's size as it is with this data: at most the variant's own elements.

    Raises:
        DataError: the data cannot be read.
    """
    return _sized(data, scenario, size.model_dump_json(), data_fingerprint(data))


def import_data(
    data: str, scenario: Scenario, directory: Path, fingerprint: str | None = None
) -> Dataset:
    """Read data into the canonical form that a scenario's work reads.

    Args:
        data: what the user named.
        scenario: of a size that `imported_size` gave.
        directory: where to write.
        fingerprint: the data's when the run was planned, where it must be the same still.

    Raises:
        DataError: an element cannot be read, or the data changed; the message says what.
    """
    source = open_source(data)
    if fingerprint is not None and source.fingerprint() != fingerprint:
        raise DataError(f"{data} has changed since the run was planned; start a new run")
    dataset = scenario.import_source(source, directory)
    if len(dataset) != scenario.size.elements:
        raise DataError(
            f"{data} gave {len(dataset)} elements, where {scenario.size.elements} were counted; "
            "it has changed meanwhile: start a new run"
        )
    return dataset


# What scenarios are made of: a source, column by column.


def fields_for(source: Source, column: str) -> tuple[str, ...]:
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


def column_values(source: Source, column: str, limit: int) -> Iterator[Any]:
    """Read one canonical column of the first `limit` rows.

    Raises:
        DataError: the source has no field for it, or a value cannot be read.
    """
    recipe = _recipe(column)
    fields = fields_for(source, column)
    for place, values in source.read(fields, limit):
        yield recipe.convert(values if recipe.takes_several else values[0], place)


def write_columns(source: Source, columns: Sequence[str], limit: int, directory: Path) -> Dataset:
    """Write canonical columns of the first `limit` rows, ragged ones as they come."""
    from skymark.loading.dataset.canonical import write_dataset

    written: dict[str, Array | Iterator[Array]] = {}
    for column in columns:
        recipe, made = _recipe(column), column_values(source, column, limit)
        written[column] = made if recipe.ragged else recipe.finish(list(made))
    encodings = {column: _recipe(column).encoding for column in columns}
    return write_dataset(directory, "imported data", written, encodings)


def rows_size(source: Source, size: Size) -> Size:
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
    from skymark.loading.dataset.columns import RECIPES

    return RECIPES[column]


@lru_cache(maxsize=256)
def _checked(data: str, scenario: type[Scenario], fingerprint: str) -> str:
    from skymark.loading.dataset.columns import RECIPES

    del fingerprint  # so that data which changed is checked again
    columns = imported_columns(scenario)
    unknown = [column for column in columns if column not in RECIPES]
    if unknown or not columns:
        what = f"its column {unknown[0]!r}" if unknown else "its data"
        raise DataError(
            f"{scenario.id} does not run on real data, of which nothing makes {what}; "
            "leave the scenario out, or --data"
        )
    source = open_source(data)
    for column in columns:
        for field in fields_for(source, column):
            source.check(field, CHECKED_ELEMENTS)
        if not source.is_remote and next(column_values(source, column, 1), None) is None:
            raise DataError(f"{data} holds no element; give data that does")
    return f"{data}: {', '.join(source.fields)}"


@lru_cache(maxsize=256)
def _sized(data: str, scenario: type[Scenario], size: str, fingerprint: str) -> Size:
    from skymark.loading.scenario import Size as Whole

    del fingerprint
    return scenario.imported_size(open_source(data), Whole.model_validate_json(size))


def imported_columns(scenario: type[Scenario]) -> tuple[str, ...]:
    """Return the canonical columns that a scenario needs of real data; empty if it takes none."""
    if scenario.imports is not None:
        return scenario.imports
    any_size = next(iter(scenario.variants.values()))
    return scenario(size=any_size).columns or ()
