"""Facts of a run in one line, and the cause of a cell's end in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skymark.report.text import MISSING, duration, size

if TYPE_CHECKING:
    from skymark.model.record import Cause, Record, StabilityWarning
    from skymark.run.reader import Run

MOST_SHOWN = 100
"""Kinds of warnings that a report shows, and messages of each kind; the others are counted."""


@dataclass
class Warned:
    """Warnings of one kind."""

    first: StabilityWarning
    count: int = 0
    """Of all."""
    cells: set[str] = field(default_factory=set)
    """Ids of those that have them."""
    shown: list[tuple[Record, StabilityWarning]] = field(default_factory=list)
    """The first of them."""


def facts_of(run: Run) -> str:
    """Return a run's profile, effort, time and machine; the text is anybody's."""
    hardware = run.manifest.machine.hardware
    allotment = run.manifest.plan.allotment
    limits = run.manifest.machine.limits
    parts = [
        f"profile {run.manifest.profile}",
        f"effort {run.manifest.effort.name}",
        *((f"time {duration(allotment.time_s)} (goal {allotment.goal})",) if allotment else ()),
        hardware.cpu_model or hardware.architecture,
        f"{limits.usable_cores or hardware.logical_cores or MISSING} cores",
        size(hardware.memory_bytes),
        *(accelerator.name for accelerator in hardware.accelerators or ()),
        *(f"continued on {one.name}" for one in run.manifest.continued_on),
        *((duet.words,) if (duet := run.manifest.duet) else ()),
    ]
    return " · ".join(parts)


def warned_in(records: Iterable[Record]) -> list[Warned]:
    """Return the kinds of warnings of records, in the order in which each first occurs."""
    kinds: dict[str, Warned] = {}
    for record in records:
        for warning in record.warnings:
            kind = kinds.setdefault(warning.kind, Warned(warning))
            kind.count += 1
            kind.cells.add(record.cell.id)
            if len(kind.shown) < MOST_SHOWN:
                kind.shown.append((record, warning))
    return list(kinds.values())


def reason_of(cause: Cause | None) -> str:
    """Return a cause with what to do about it in a second line; the text is anybody's."""
    if cause is None:
        return "no cause was recorded"
    return cause.message + (f"\n→ {cause.action}" if cause.action else "")
