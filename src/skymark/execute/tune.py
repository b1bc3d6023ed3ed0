"""A tune: candidates measured rung by rung, each rung a plan with a run directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skymark.execute.tuning_order import TuningOrder
from skymark.model.cell import Setting
from skymark.model.effort import Effort
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Record
from skymark.statistics.halving import Order, halve, lengths_of_rungs, rung_sizes

RunRung = Callable[[Plan, Path], Sequence[Record]]
"""Carries out the plan of a rung into a directory, or goes on with it; returns its records."""


@dataclass(frozen=True)
class Rung:
    """One rung that was measured."""

    plan: Plan
    directory: Path
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Tuned:
    """A tune that came to its end."""

    order: TuningOrder
    rungs: tuple[Rung, ...]
    names: frozenset[str]
    """Of the tuned settings, which are axes of the candidates' cells."""

    def point(self, record: Record) -> dict[str, Setting]:
        """Return a candidate's tuned settings."""
        axes = record.cell.axes
        return {name: value for name, value in axes.items() if name in self.names}

    @property
    def ranking(self) -> tuple[tuple[int, Record], ...]:
        """Each candidate's last rung, from 1, and its record there: the best of the last first.

        Those that could not be measured come at the end.
        """
        last: dict[str, tuple[int, Record]] = {}
        for number, rung in enumerate(self.rungs, 1):
            last |= {one.cell.id: (number, one) for one in rung.records}

        def order(candidate: tuple[int, Record]) -> tuple[bool, int, Order]:
            number, record = candidate
            place = self.order.place(record)
            return place is None, -number, place or ()

        return tuple(sorted(last.values(), key=order))

    @property
    def chosen(self) -> Record | None:
        """The best record; None where no candidate could be measured."""
        record = next((one for _, one in self.ranking), None)
        return None if record is None or self.order.place(record) is None else record

    @property
    def rivals(self) -> tuple[Record, ...]:
        """Finalists that the last rung's rounds do not show to differ from the chosen one."""
        chosen, last = self.chosen, len(self.rungs)
        return tuple(
            one
            for number, one in self.ranking
            if chosen is not None
            and number == last
            and one is not chosen
            and self.order.place(one) is not None
            and not self.order.is_shown_to_differ(one, chosen)
        )


def candidates_of(plans: Iterable[tuple[Mapping[str, Setting], Plan]]) -> Plan:
    """Return one plan of all candidates, whose tuned settings are axes, so that ids differ.

    Args:
        plans: the settings of each point, with the plan that has them.

    Raises:
        UsageError: the plans are of more than one scenario.
    """
    cells: dict[str, PlannedCell] = {}
    first: Plan | None = None
    for point, plan in plans:
        first = first or plan
        labels = {one.cell.label for one in plan.cells}
        if len(labels) > 1:
            raise UsageError(
                f"a tune is of one scenario, and these are {len(labels)}: "
                f"{', '.join(sorted(labels))}; give one with --scenarios, and one value of each "
                "--axis"
            )
        for planned in plan.cells:
            tuned = _with_axes(planned, point)
            cells[tuned.cell.id] = tuned
    if first is None:
        raise UsageError("there is nothing to choose from; give a setting several values")
    return first.model_copy(update={"cells": tuple(cells.values()), "allotment": None})


def tune(
    candidates: Plan,
    efforts: Sequence[Effort],
    order: TuningOrder,
    directory: Path,
    run: RunRung,
    names: Collection[str],
) -> Tuned:
    """Measure candidates by successive halving.

    Each rung's plan follows from the records of the one before, so that a tune which was
    interrupted goes on by being carried out again: `run` returns what is there.

    Args:
        candidates: all of them, in one plan.
        efforts: of the rungs, the shortest first; as many rungs as are worth it.
        order: says which record is better.
        directory: gets a run directory for each rung.
        run: measures a rung.
        names: of the tuned settings.
    """
    planned = {one.cell.id: one for one in candidates.cells}
    rungs: list[Rung] = []
    rule = order

    def measure(number: int, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        nonlocal rule
        plan = candidates.model_copy(
            update={"cells": tuple(planned[id] for id in ids), "effort": chosen[number]}
        )
        place = directory / f"rung-{number + 1}"
        records = tuple(run(plan, place))
        rungs.append(Rung(plan, place, records))
        rule = rule.among(records)
        orders = {one.cell.id: rule.place(one) for one in records}
        return {id: known for id, known in orders.items() if known is not None}

    sizes = rung_sizes(len(candidates.runnable), len(efforts))
    chosen = [efforts[length] for length in lengths_of_rungs(len(sizes), len(efforts))]
    # The first rung has those that cannot be run, too: their records say why.
    halve(list(planned), (len(planned), *sizes[1:]), measure)
    return Tuned(rule, tuple(rungs), frozenset(names))


def _with_axes(planned: PlannedCell, point: Mapping[str, Setting]) -> PlannedCell:
    """Return a planned cell with its point among the axes; a process of its own stays its own."""
    cell = planned.cell
    tuned = cell.model_copy(update={"axes": {**cell.axes, **point}})
    return planned.model_copy(
        update={"cell": tuned, "group": planned.group.replace(cell.id, tuned.id)}
    )
