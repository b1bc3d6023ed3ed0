"""The one reader of a run's directory: whole, interrupted, or partly damaged. Reads data only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from skymark.model.base import Frozen
from skymark.model.cell import Cell
from skymark.model.errors import RunDirectoryError
from skymark.model.manifest import Manifest
from skymark.model.metric import Declaration
from skymark.model.record import SCHEMA_VERSION, Record, Status
from skymark.model.schema import parse_manifest, parse_record
from skymark.suite.registry import declaration_of
from skymark.whole_files import LARGEST_FILE_BYTES

Model = TypeVar("Model", bound=Frozen)


@dataclass(frozen=True)
class Run:
    """A run as it lies on disk."""

    directory: Path
    manifest: Manifest
    records: tuple[Record, ...]
    """In the plan's order."""
    problems: tuple[str, ...] = ()
    """Files that could not be read, and why."""

    @cached_property
    def declaration(self) -> Declaration:
        """The metrics of the run, and how they are shown.

        Raises:
            UnknownNameError: the run is of schema 1 or 2, and its suite is not installed.
        """
        return declaration_of(self.manifest)

    @cached_property
    def by_id(self) -> dict[str, Record]:
        """The records by cell id."""
        return {record.cell.id: record for record in self.records}

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Planned cells that have no readable record (yet)."""
        return tuple(cell for id, cell in self.manifest.cells.items() if id not in self.by_id)

    @property
    def counts(self) -> dict[Status, int]:
        """Records by status, in the order of `Status`; those that did not occur are left out."""
        found = Counter(record.status for record in self.records)
        return {status: found[status] for status in Status if found[status]}

    def by_label(self) -> dict[str, list[Record]]:
        """Return the records grouped by scenario, variant and axes."""
        groups: dict[str, list[Record]] = {}
        for record in self.records:
            groups.setdefault(record.cell.label, []).append(record)
        return groups


def open_run(directory: Path, known: Iterable[Record] = ()) -> Run:
    """Open a run directory.

    Records that cannot be read are listed as problems; the others stand.

    Args:
        directory: where it lies.
        known: records that need no reading, because they were just written or read there.

    Raises:
        RunDirectoryError: it is no run directory, its manifest is damaged, or a newer skymark
            made it.
    """
    manifest = read_manifest(directory)
    found = {record.cell.id: record for record in known}
    problems: list[str] = []
    for file in sorted((directory / "records").glob("*.json")):
        if file.stem in found:
            continue
        try:
            record = read_record(file)
        except (OSError, ValueError) as error:
            problems.append(f"records/{file.name}: {error}")
            continue
        id = record.cell.id
        if id not in manifest.cells or file.stem not in {id, old_id(record.cell)}:
            problems.append(f"records/{file.name}: holds {id}, not a cell of this plan")
            continue
        found[id] = record
    ordered = tuple(found[id] for id in manifest.cells if id in found)
    return Run(directory, manifest, ordered, tuple(problems))


def read_manifest(directory: Path) -> Manifest:
    """Read a run's manifest.

    Raises:
        RunDirectoryError: there is none, it is damaged, or a newer skymark made it.
    """
    path = directory / "manifest.json"
    if not path.is_file():
        raise RunDirectoryError(
            f"{directory} is no run: it has no manifest.json; name a run's directory"
        )
    try:
        return _read(path, Manifest, parse_manifest)
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"cannot read {path}: {error}") from error


def read_record(path: Path) -> Record:
    """Read one record.

    Raises:
        OSError: there is none, or it may not be read.
        ValueError: it is no record, of a newer schema, or absurdly large; the message says which.
    """
    return _read(path, Record, parse_record)


def old_id(cell: Cell) -> str:
    """Return the file name of a cell in runs of schema 1 and 2: its id without the suite."""
    return cell.id.removeprefix(f"{cell.suite}.")


def _read(path: Path, model: type[Model], parse: Callable[[bytes], Model]) -> Model:
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise ValueError(
            f"is larger than {LARGEST_FILE_BYTES >> 20} MiB; skymark writes no such file"
        )
    data = path.read_bytes()
    try:
        return parse(data)
    except ValueError as error:
        raise ValueError(_what_is_wrong(data, model, error)) from error


def _what_is_wrong(data: bytes, model: type[Frozen], error: ValueError) -> str:
    """Say in words why a file is not of a model."""
    try:
        content = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as fault:
        return f"is no JSON ({fault}); it was cut short or edited"
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return (
            f"has schema version {version}, this skymark reads up to {SCHEMA_VERSION}; "
            "install a newer skymark"
        )
    if not isinstance(error, ValidationError):
        return f"is no {model.__name__.lower()}: {error}"
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "file"
    more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return f"is no {model.__name__.lower()}: {place}: {first['msg']}{more}"
