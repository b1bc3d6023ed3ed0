"""Heads of a run's records: what became of each cell, many times quicker than with its figures."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skymark.model.base import Moment
from skymark.model.cell import Cell, Setting, id_of
from skymark.model.manifest import Manifest
from skymark.model.record import SCHEMA_VERSION, Cause, Record, Status
from skymark.model.sealed import unsealed
from skymark.plain_files import read_regular
from skymark.run.reader import each_record, read_manifest, read_record


class CellHead(BaseModel):
    """The part of a cell that its id is made of."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    suite: str
    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """As of the whole cell."""
        return id_of(self.suite, self.scenario, self.variant, self.axes, self.adapter)


class RecordHead(BaseModel):
    """The part of a record that says what became of its cell."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    cell: CellHead
    cell_hash: str
    status: Status
    cause: Cause | None = None
    ended_at: Moment


@dataclass(frozen=True)
class Heads:
    """A run with the heads of its records."""

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
    found: dict[str, RecordHead] = {}
    problems: list[str] = []
    for file, head in each_record(directory, read_head, problems):
        id = head.cell.id
        if id in manifest.cells and file.stem == id:
            found[id] = head
        else:
            problems.append(f"records/{file.name}: holds {id}, not a cell of this plan")
    return Heads(directory, manifest, found, tuple(problems))


def read_head(path: Path) -> RecordHead:
    """Read the head of one record; one that is not as it should be is read whole, to say why.

    Raises:
        OSError: there is none, or it may not be read.
        ValueError: it is no record, of another schema, or absurdly large; the message says which.
    """
    data = read_regular(path)
    with suppress(ValueError):
        return RecordHead.model_validate_json(unsealed(data))
    return head_of(read_record(path))


def head_of(record: Record) -> RecordHead:
    """Return the head of a record."""
    return RecordHead.model_validate(record.model_dump(mode="json"))
