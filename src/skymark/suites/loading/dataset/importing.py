"""Real data: checked and sized when a run is planned, imported once before it is measured."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.cache.location import stand_in
from skymark.model.data import DataTaken, LeftOut
from skymark.model.errors import ChangedSincePlanError, DataError
from skymark.suites.loading.dataset.columns import (
    NOUNS,
    RECIPES,
    column_values,
    fields_for,
    is_unlabelled,
    whole_rows,
)
from skymark.suites.loading.dataset.sources.data_source import WholeRows, reading
from skymark.suites.loading.dataset.sources.opening import open_source

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset
    from skymark.suites.loading.dataset.sources.data_source import DataSource
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Size

CHECKED_ELEMENTS = 1_000
"""Elements looked at for damage when a run is planned; the import decodes every element."""
COUNTING_S = 5.0
"""Longest time that planning counts rows."""


class RealData:
    """Real data named with ``--data``, opened once to plan every scenario that reads it.

    It is a `skymark.model.data.NamedData`, too: a cache policy may keep its rows.

    Args:
        name: what the user named.
        skip_damaged: leave damaged elements out, and count them; refuse them otherwise.

    Raises:
        DataError: there is no such thing, or it holds no data that skymark can read.
    """

    def __init__(self, name: str, *, skip_damaged: bool = False) -> None:
        self.name = name
        self.source = open_source(name)
        self.skip_damaged = skip_damaged
        self._images_are_checked = False
        self._whole: dict[tuple[str, ...], WholeRows] = {}
        self._kinds: dict[tuple[str, int], frozenset[str]] = {}

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
        for row in self.source.read(self.source.fields, sys.maxsize):
            if row.damage is not None:
                raise row.damage
            yield row.place, row.values

    def has_changed(self) -> bool:
        """Whether files or the revision are not what they were."""
        return self.source.fingerprint() != self.fingerprint

    def check(self, scenario: type[Scenario]) -> None:
        """Require that the data has a scenario's fields, and pass a quick check for damage.

        Raises:
            DataError: it fails; the message has the next step.
        """
        columns = scenario.columns or ()
        unknown = [column for column in columns if column not in RECIPES]
        if unknown or not columns:
            what = f"its column {unknown[0]!r}" if unknown else "its data"
            raise DataError(
                f"{scenario.id} does not run on real data, of which nothing makes {what}; "
                "leave the scenario out, or --data"
            )
        try:
            for column in columns:
                fields_for(self.source, column)
        except DataError as error:
            with reading(self.name):
                self.source.count(sys.maxsize)  # damage may be why the first rows lack a field
            others = ", ".join(map(str, self.source.left_out()))
            beside = f" (beside its {self.source.noun} are {others})" if others else ""
            raise DataError(f"{self.name}: {error}{beside}") from error
        if self.source.is_remote or self.skip_damaged:
            return
        if "jpeg" in columns and not self._images_are_checked:
            self._check_images()
        for column in columns:
            if next(column_values(self.source, column, 1), None) is None:
                raise DataError(f"{self.name} holds no element; give data that does")

    def _check_images(self) -> None:
        """Look at the first and last bytes of images."""
        from skymark.suites.loading.dataset.sources.opening import check_image

        self._images_are_checked = True
        for row in self.source.read(fields_for(self.source, "jpeg"), CHECKED_ELEMENTS):
            if row.damage is not None:
                raise row.damage
            if isinstance(row.values[0], bytes):
                check_image(row.values[0], f"the image of {row.place}")

    def source_for(self, scenario: type[Scenario]) -> DataSource:
        """Return the rows that a scenario may take: all, or with `skip_damaged` the whole ones."""
        if not self.skip_damaged:
            return self.source
        columns = scenario.columns or ()
        if columns not in self._whole:
            self._whole[columns] = whole_rows(self.source, columns)
        return self._whole[columns]

    def size(self, scenario: type[Scenario], size: Size) -> Size:
        """Return a variant's size with this data: at most the variant's own elements.

        Raises:
            DataError: there are too few elements, or they cannot be read.
        """
        with reading(self.name):
            return scenario.imported_size(self.source_for(scenario), size)

    def image_kinds(self, scenario: type[Scenario], rows: int) -> frozenset[str]:
        """Return the kinds of the first images among the rows that a scenario takes.

        There are none of remote data, which planning must not read.
        """
        if self.source.is_remote or "jpeg" not in (scenario.columns or ()):
            return frozenset()
        (field,) = fields_for(self.source, "jpeg")
        if (field, rows) not in self._kinds:
            from skymark.suites.loading.dataset.images import kinds_seen

            self._kinds[field, rows] = kinds_seen(self.source_for(scenario), field, rows)
        return self._kinds[field, rows]

    @cached_property
    def _found(self) -> tuple[int, bool]:
        """The number of rows, and whether it is of all: counting ends after `COUNTING_S`.

        Raises:
            DataError: a file ends early.
        """
        rows, until = 0, time.monotonic() + COUNTING_S
        for more in self.source.counts():
            if time.monotonic() > until:
                return rows, False
            rows += more
        return rows, True

    def taken(self, scenario: type[Scenario], wanted: Size, size: Size) -> DataTaken:
        """Return the account of what a scenario takes and leaves out.

        Args:
            scenario: scenario that reads the data.
            wanted: the variant's own size.
            size: result of `size` for it.

        Raises:
            DataError: a file ends early, or a label is invalid.
        """
        source, columns = self.source_for(scenario), scenario.columns or ()
        with reading(self.name):
            taken = scenario.rows_taken(source, size)
            found, is_whole = self._found
            labels = _labels(source, scenario, taken)
        left_out = source.left_out()
        damaged = next((one.count for one in left_out if one.what == "damaged"), 0)
        if (rest := found - taken - damaged) > 0:
            left_out.insert(0, LeftOut(count=rest, what=_why_left(wanted, found - damaged)))
        notes = list(self.source.notes)
        if taken != size.elements:
            notes.append(f"packed into {size.elements:,} elements")
        if labels is None and "label" in columns and not source.is_remote:
            notes.append("no labels, so each is 0")
        return DataTaken(
            name=self.name,
            noun=next((NOUNS[one] for one in columns if one in NOUNS), self.source.noun),
            taken=taken,
            found=max(found, taken + damaged),
            is_whole=is_whole,
            classes=None if labels is None else len(set(labels)),
            left_out=tuple(left_out),
            notes=tuple(notes),
        )


def _why_left(wanted: Size, whole: int) -> str:
    """Return why whole elements are left over; see `with_elements`."""
    if whole > wanted.elements:
        return "beyond the size"
    if wanted.elements % wanted.batch_size == 0:
        return "that fill no batch"
    return "so that the last batch is short"


def _labels(source: DataSource, scenario: type[Scenario], rows: int) -> list[Any] | None:
    """Return the labels of the rows that are taken; None where there are none to be had here."""
    if "label" not in (scenario.columns or ()) or source.is_remote or is_unlabelled(source):
        return None
    return list(column_values(source, "label", rows))


def import_data(
    data: str,
    scenario: Scenario,
    directory: Path,
    fingerprint: str | None = None,
    *,
    skip_damaged: bool = False,
) -> Dataset:
    """Convert data to the canonical form of a scenario's work.

    If a cache policy stores its rows as Parquet, it reads these, with the same values.

    Args:
        data: the user's data.
        scenario: scenario with a size from `RealData.size`.
        directory: output directory.
        fingerprint: the data's fingerprint in the plan, if it must not have changed.
        skip_damaged: leave damaged elements out, as when the run was planned.

    Raises:
        ChangedSincePlanError: the data's fingerprint is another.
        DataError: an element cannot be read, or the number of elements is another.
    """
    source = open_source(data)
    if fingerprint is not None and source.fingerprint() != fingerprint:
        raise ChangedSincePlanError(data)
    if kept := stand_in(fingerprint, os.environ):
        from skymark.suites.loading.dataset.sources.parquet import ParquetFiles

        source = ParquetFiles(kept)
    if skip_damaged:
        source = whole_rows(source, scenario.columns or ())
    dataset = scenario.import_source(source, directory)
    if len(dataset) != scenario.size.elements:
        raise DataError(
            f"{data} gave {len(dataset)} elements, where {scenario.size.elements} were counted; "
            "it has changed meanwhile: start a new run"
        )
    return dataset
