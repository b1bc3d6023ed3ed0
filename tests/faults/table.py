"""The fault table of ``docs/faults.md``: a row per kind of fault, counted in rounds of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FAULTS = (
    "worker killed (SIGKILL)",
    "engine killed (SIGKILL)",
    "whole process tree killed (SIGKILL)",
    "96 cells, killed again and again",
    "power cut",
    "full disk",
    "read-only directory from the start",
    "directory turned read-only in the middle",
    "clock stepped back one hour",
    "two runs of one plan into one directory",
    "two runs of different plans into one directory",
    "two workers finishing the same cell",
    "record truncated",
    "record replaced by garbage",
    "record of a newer schema",
    "one digit of a record flipped",
    "record of another hash",
    "samples of a record missing",
    "bucket answers 500",
    "bucket answers 403 from the start",
    "bucket answers 403 in the middle",
    "bucket answers 429",
    "bucket answers slowly",
    "connection cut in the middle of an upload",
    "machine replaced, continued from the bucket",
    "W&B down from the start",
    "W&B down from the middle",
    "W&B down at the end",
)
"""Every row, in the order of the table."""

COLUMNS = ("fault", "moments", "cells", "planned", "measured", "stored", "lost", "repeated")


@dataclass(frozen=True)
class Row:
    """What became of all rounds over all moments of one kind of fault."""

    moments: int = 0
    cells: int = 0
    planned: int = 0
    measured: int = 0
    stored: int = 0
    lost: int = 0
    repeated: int = 0

    def __add__(self, other: Row) -> Row:
        names = COLUMNS[1:]
        return Row(**{name: getattr(self, name) + getattr(other, name) for name in names})


class Table:
    """Collects rows, and writes them between two markers of a page."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def add(self, fault: str, row: Row) -> None:
        """Count one moment of a fault."""
        assert fault in FAULTS
        self.rows[fault] = self.rows.get(fault, Row()) + row

    def write(self, page: Path) -> None:
        """Renew the rows that were counted; the page's other rows stay."""
        rows = {
            fault: [str(getattr(row, name)) for name in COLUMNS[1:]]
            for fault, row in self.rows.items()
        }
        renew(page, "fault table", COLUMNS, FAULTS, rows)


def renew(
    page: Path,
    name: str,
    columns: Sequence[str],
    order: Sequence[str],
    rows: Mapping[str, Sequence[str]],
) -> None:
    """Renew rows of a table of a page; its other rows stay.

    Args:
        page: has the comments ``NAME: begin`` and ``NAME: end``.
        name: of the table.
        columns: their heads, the first one's being that of the rows' names.
        order: of all rows, by name.
        rows: the other columns of those that are new, by name.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(begin)
    old, after = rest.split(end)
    lines = {line.split("|")[1].strip(): line for line in old.splitlines() if "|" in line}
    lines |= {row: "| " + " | ".join([row, *cells]) + " |" for row, cells in rows.items()}
    head = "| " + " | ".join(columns) + " |\n|" + "---|" + "---:|" * (len(columns) - 1)
    body = "\n".join(lines[row] for row in order if row in lines)
    page.write_text(f"{before}{begin}\n{head}\n{body}\n{end}{after}")
