"""Reader of a run's directory: whole, interrupted, or partly damaged. It executes nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from skymark.model.base import Moment
from skymark.model.errors import DamagedManifestError, RunDirectoryError
from skymark.model.manifest import Manifest
from skymark.model.metric import Declaration
from skymark.model.record import SCHEMA_VERSION, Cause, Cell, Record, Setting, Status, id_of
from skymark.model.schema import OtherSchemaError, parse_manifest, parse_record, unsealed
from skymark.plain_files import read_regular, require_plain_folders
from skymark.rundir.layout import MANIFEST, RUN_FILE, SUMS

Content = TypeVar("Content", "Record", "RecordHead")

RECOVERY = (
    "The records stand: the command that made the run, with --output and this directory, and with "
    "--resume, makes it anew from them, or takes it from a --store that has it whole"
)

SUM = re.compile(r"([0-9a-f]{64})  (.+)")
"""A line of the file of digests."""


@dataclass(frozen=True)
class Run:
    """Run on disk."""

    directory: Path
    manifest: Manifest
    records: tuple[Record, ...]
    """Records in the plan's order."""
    problems: tuple[str, ...] = ()
    """Files that could not be read, and why."""

    @property
    def declaration(self) -> Declaration:
        """The metrics of the run, and their display."""
        return self.manifest.declaration

    @property
    def is_baseline(self) -> bool:
        """Whether it is the baseline of a comparison in pairs."""
        return self.manifest.duet is not None and self.manifest.duet.side == "baseline"

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
        """Number of records by status that occurred, in the order of `Status`."""
        counts = Counter(record.status for record in self.records)
        return {status: counts[status] for status in Status if counts[status]}

    def by_label(self) -> dict[str, list[Record]]:
        """Return the records grouped by scenario, variant and axes."""
        groups: dict[str, list[Record]] = {}
        for record in self.records:
            groups.setdefault(record.cell.label, []).append(record)
        return groups


def open_run(directory: Path, known: Iterable[Record] = ()) -> Run:
    """Open a run directory. Unreadable records become problems; the rest stays valid.

    Args:
        directory: the run's directory.
        known: records that were just written or read there.

    Raises:
        RunDirectoryError: it is no run directory, its manifest is damaged, or another version of
            skymark made it.
    """
    manifest = read_manifest(directory)
    # Rates, times and sizes cannot be negative.
    positive = {metric.name for metric in manifest.declaration.metrics if metric.scale == "log"}
    records = {record.cell.id: record for record in known}
    problems: list[str] = []
    for id, record in each_record(directory, manifest, read_record, problems, skipped=records):
        if below := [
            name for name in positive & record.metrics.keys() if record.metrics[name].value < 0
        ]:
            problems.append(f"records/{id}.json: {below[0]} is below zero, which cannot be")
            continue
        records[id] = record
    ordered = tuple(records[id] for id in manifest.cells if id in records)
    return Run(directory, manifest, ordered, tuple(problems))


def each_record(
    directory: Path,
    manifest: Manifest,
    read: Callable[[Path], Content],
    problems: list[str],
    *,
    skipped: Container[str] = (),
) -> Iterator[tuple[str, Content]]:
    """Yield the records of a run's cells by cell id, in the order of their files.

    Args:
        directory: the run's.
        manifest: the run's.
        read: reads a file, or raises `OSError` or `ValueError`.
        problems: gets each unreadable file and each other cell's, with the reason.
        skipped: ids of cells to skip; may grow meanwhile.
    """
    try:
        require_plain_folders(directory, "records/*.json")
        # Sorting names is many times quicker than sorting paths.
        files = sorted((directory / "records").glob("*.json"), key=lambda file: file.name)
    except OSError as error:
        problems.append(f"records: {error.strerror}")
        return
    for file in files:
        if file.stem in skipped:
            continue
        try:
            content = read(file)
        except OSError as error:
            problems.append(f"records/{file.name}: {error.strerror}")
        except ValueError as error:
            problems.append(f"records/{file.name}: {error}")
        else:
            id = content.cell.id
            if id in manifest.cells and file.stem == id:
                yield id, content
            else:
                problems.append(f"records/{file.name}: holds {id}, not a cell of this plan")


def read_manifest(directory: Path) -> Manifest:
    """Read a run's manifest.

    Raises:
        DamagedManifestError: it is damaged; the message says how it is recovered.
        RunDirectoryError: there is none, it may not be read, or another skymark made it.
    """
    path = directory / MANIFEST
    if not os.path.lexists(path):
        raise RunDirectoryError(
            f"{directory} is no run: it has no manifest.json; name a run's directory"
        )
    try:
        data = read_regular(path)
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise DamagedManifestError(f"cannot read {path}: it {error}. {RECOVERY}") from error
    return parsed_manifest(data, os.fspath(path))


def parsed_manifest(data: bytes, place: str) -> Manifest:
    """Return the manifest in a file's content.

    Args:
        data: the file's content.
        place: path or address of the file, for messages.

    Raises:
        DamagedManifestError: it is damaged; the message says how it is recovered.
        RunDirectoryError: another skymark made it.
    """
    try:
        return parse_manifest(data)
    except OtherSchemaError as error:
        raise RunDirectoryError(f"cannot read {place}: {error}") from error
    except ValueError as error:
        raise DamagedManifestError(f"cannot read {place}: {error}. {RECOVERY}") from error


def read_record(path: Path) -> Record:
    """Read one record.

    Raises:
        OSError: there is none, or it may not be read.
        ValueError: it is no record, of another schema, or absurdly large; the message says which.
    """
    return parse_record(read_regular(path))


def read_sums(directory: Path) -> dict[str, str]:
    """Read the digests of a run's files at its end, by path.

    Raises:
        FileNotFoundError: there are none, because the run has not ended.
        OSError: they are unreadable.
        ValueError: a line is not a digest with an allowed path.
    """
    digests = {}
    for line in read_regular(directory / SUMS).decode("ascii").splitlines():
        part = SUM.fullmatch(line)
        if part is None or not RUN_FILE.fullmatch(part[2]):
            raise ValueError(f"{line[:80]!r} is no digest of a run's file; it was changed")
        digests[part[2]] = part[1]
    return digests


class CellHead(BaseModel):
    """Part of a cell that defines its id."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    suite: str
    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """Id of the whole cell."""
        return id_of(self.suite, self.scenario, self.variant, self.axes, self.adapter)


class RecordHead(BaseModel):
    """Part of a record with the outcome of its cell."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    cell: CellHead
    cell_hash: str
    status: Status
    cause: Cause | None = None
    ended_at: Moment


@dataclass(frozen=True)
class Heads:
    """Run with the heads of its records."""

    directory: Path
    manifest: Manifest
    by_id: dict[str, RecordHead]
    """By cell id."""
    problems: tuple[str, ...]
    """Files that could not be read, and why."""

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Planned cells that have no readable record (yet)."""
        return tuple(cell for id, cell in self.manifest.cells.items() if id not in self.by_id)


def open_heads(directory: Path) -> Heads:
    """Read the heads of a run's records.

    Raises:
        RunDirectoryError: it is no run directory, its manifest is damaged, or another
            skymark made it.
    """
    manifest = read_manifest(directory)
    problems: list[str] = []
    heads = dict(each_record(directory, manifest, read_head, problems))
    return Heads(directory, manifest, heads, tuple(problems))


def read_head(path: Path) -> RecordHead:
    """Read the head of one record; read an invalid record whole to explain the fault.

    Raises:
        OSError: there is none, or it may not be read.
        ValueError: it is no record, of another schema, or absurdly large; the message says which.
    """
    data = read_regular(path)
    with suppress(ValueError):
        return RecordHead.model_validate_json(unsealed(data))
    return RecordHead.model_validate(read_record(path).model_dump(mode="json"))
