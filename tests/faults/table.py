"""The fault table of ``docs/reference/faults.md``: a row per kind of fault, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

RESUME = "`--resume`"
EXPORT = "`skymark export`"
HEALED = f"nothing, or {EXPORT}"
"""Nothing where the bucket recovers in time."""

FAULTS = {
    "worker killed (SIGKILL)": "`--resume --retry failed`",
    "engine killed (SIGKILL)": RESUME,
    "whole process tree killed (SIGKILL)": RESUME,
    "96 cells, killed again and again": RESUME,
    "power cut": RESUME,
    "full disk": f"more room, {RESUME}",
    "read-only directory from the start": f"the right to write, {RESUME}",
    "directory turned read-only in the middle": f"the right to write, {RESUME}",
    "clock stepped back one hour": RESUME,
    "two runs of one plan into one directory": "nothing",
    "two runs of different plans into one directory": "nothing",
    "two workers finishing the same cell": RESUME,
    "record truncated": RESUME,
    "record replaced by garbage": RESUME,
    "record of a newer schema": RESUME,
    "one digit of a record flipped": RESUME,
    "record of another hash": RESUME,
    "samples of a record missing": RESUME,
    "bucket answers 500": HEALED,
    "bucket answers 403 from the start": "the same command",
    "bucket answers 403 in the middle": HEALED,
    "bucket answers 429": HEALED,
    "bucket answers slowly": "nothing",
    "connection cut in the middle of an upload": HEALED,
    "machine replaced, continued from the bucket": f"{RESUME} on another",
    "W&B down from the start": EXPORT,
    "W&B down from the middle": EXPORT,
    "W&B down at the end": EXPORT,
}
"""What finishes the run after each fault, in the order of the table."""

COUNTS = ("moments", "planned", "lost", "repeated")
"""The columns of numbers: tests require that as many are stored as planned."""

COLUMNS = ("fault", *COUNTS, "to finish")


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
        names = [field.name for field in fields(self)]
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
            fault: [*(str(getattr(row, name)) for name in COUNTS), FAULTS[fault]]
            for fault, row in self.rows.items()
        }
        renew(page, "fault table", COLUMNS, tuple(FAULTS), rows)


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
