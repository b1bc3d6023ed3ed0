"""The cheapest machine that suffices, of machines that stored runs were made on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from skymark.execute.tuning_order import TuningOrder
from skymark.model.cell import Cell, Setting
from skymark.model.errors import UsageError
from skymark.model.record import Record
from skymark.report.text import MISSING, writer
from skymark.run.layout import MANIFEST
from skymark.run.reader import Run, open_run
from skymark.suite.contract import Suite


@dataclass(frozen=True)
class MeasuredMachine:
    """A machine with the best of what was measured on it."""

    name: str
    hourly_price_usd: float | None
    best: Record
    suffices: bool
    run: Path

    def json_content(self) -> dict[str, JsonValue]:
        """Return it as JSON has it."""
        return {
            "machine": self.name,
            "hourly_price_usd": self.hourly_price_usd,
            "suffices": self.suffices,
            "adapter": self.best.cell.adapter,
            "settings": dict(self.best.cell.settings),
            "run": str(self.run),
        }


HEADINGS = ("machine", "USD/h", "suffices", "adapter")
"""Those of `machine_row`, before the goal's and the rate's."""


def runs_in(directories: Iterable[Path]) -> list[Run]:
    """Open runs, or all rungs of a tune where a directory is one.

    Raises:
        RunDirectoryError: a directory is neither.
    """
    found = []
    for directory in directories:
        rungs = sorted(path.parent for path in directory.glob(f"rung-*/{MANIFEST}"))
        found += [open_run(one) for one in rungs or [directory]]
    return found


def machines_of(
    runs: Sequence[Run], cell: Cell, suite: Suite, order: TuningOrder, same: Sequence[str]
) -> list[MeasuredMachine]:
    """Return the machines of runs, those that suffice first, the cheapest of them before others.

    Args:
        runs: from anywhere; of each, the records of the cell's scenario, data and step count.
        cell: what is to be done.
        suite: of the cell.
        order: says what suffices, and which record is the best.
        same: names of settings that a record must have as the cell has them.

    Raises:
        UsageError: a run has no record of the same work.
    """
    best: dict[tuple[str, float | None], MeasuredMachine] = {}
    for run in runs:
        own = [one for one in run.records if _is_same_work(one.cell, cell, suite, same)]
        placed = [(place, one) for one in own if (place := order.place(one)) is not None]
        if not placed:
            settings = " ".join(f"{name}={_setting(cell, name)}" for name in same)
            raise UsageError(
                f"{run.directory} has no good record of {cell.scenario}:{cell.variant} with "
                f"{settings} and the same data; measure it there with `skymark tune`, or with "
                "`skymark run` and these settings, or leave it out of --runs"
            )
        record = min(placed, key=lambda pair: pair[0])[1]
        machine, price = run.manifest.machine, run.manifest.hourly_price_usd
        name = f"{machine.name}, {machine.limits.usable_cores or MISSING} cores"
        one = MeasuredMachine(name, price, record, order.reaches(record), run.directory)
        known = best.get((name, price))
        if known is None or (order.place(record) or ()) < (order.place(known.best) or ()):
            best[name, price] = one
    return sorted(best.values(), key=_by_price)


def cheapest(machines: Iterable[MeasuredMachine]) -> MeasuredMachine | None:
    """Return the cheapest machine that suffices, of those whose price is known."""
    priced = [one for one in machines if one.suffices and one.hourly_price_usd is not None]
    return min(priced, key=_by_price, default=None)


def machine_row(machine: MeasuredMachine, order: TuningOrder) -> tuple[str, ...]:
    """Return a machine's row of a table."""
    price = machine.hourly_price_usd
    figures = (machine.best.metrics.get(one.name) for one in (order.goal, order.rate))
    return (
        machine.name,
        MISSING if price is None else f"{price:.2f}",
        "yes" if machine.suffices else "no",
        machine.best.cell.adapter,
        *(
            MISSING if figure is None else writer(metric)(figure.value)
            for figure, metric in zip(figures, (order.goal, order.rate), strict=True)
        ),
    )


def _by_price(machine: MeasuredMachine) -> tuple[bool, bool, float]:
    price = machine.hourly_price_usd
    return not machine.suffices, price is None, price or 0.0


def _is_same_work(one: Cell, other: Cell, suite: Suite, same: Sequence[str]) -> bool:
    return (
        (one.suite, one.scenario, one.variant) == (other.suite, other.scenario, other.variant)
        and _own_axes(one) == _own_axes(other)
        and all(_setting(one, name) == _setting(other, name) for name in same)
        and suite.data_of(one) == suite.data_of(other)
    )


def _own_axes(cell: Cell) -> dict[str, Setting]:
    """Return a cell's axes, without the settings that a tune makes axes of."""
    return {name: value for name, value in cell.axes.items() if name not in cell.settings}


def _setting(cell: Cell, name: str) -> Setting | None:
    return cell.settings.get(name)
