"""The outcome of a tune: candidates, the choice and its reason, the cheapest machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from skymark.execute.tune import Rung, Tuned, TuningOrder
from skymark.model.errors import UsageError
from skymark.model.metric import Metric
from skymark.model.record import Ceiling, Cell, Record, Setting
from skymark.model.requests import Work
from skymark.model.sizes import count_of
from skymark.report.markdown import markdown_table
from skymark.report.text import MISSING, duration, escaped_json, margin, noun_in, share, writer
from skymark.rundir.layout import MANIFEST
from skymark.rundir.reader import Run, open_run
from skymark.statistics.stability import disturbance
from skymark.suite.contract import Suite

OUTCOME = "tune.json"
"""The outcome's file, beside the directories of the rungs."""
LOG = "tune.md"
"""The file with what was tried, expected and seen."""


@dataclass(frozen=True)
class Choice:
    """The result of a tune: the candidates that were measured, the chosen one, and the reason."""

    tuned: Tuned
    machines: tuple[MeasuredMachine, ...] = ()
    """Other kinds of machines with the best of each; sufficient machines come first."""
    ceilings: tuple[Ceiling, ...] = ()
    """Of the machine that it ran on."""
    limits: tuple[str, ...] = ()
    """Lines on what limits the chosen candidate; empty where nothing looked."""
    again: Work | None = None
    """The request that measures the chosen candidate alone; None where none was chosen."""
    command: tuple[str, ...] = ()
    """The words of the command that does the same."""
    code: str = ""
    """Lines of a user's program with the chosen settings; empty where none are known."""

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings of the chosen candidate; none where none was chosen."""
        chosen = self.tuned.chosen
        return {} if chosen is None else {**chosen.cell.settings, **self.tuned.point(chosen)}

    @property
    def reaches(self) -> bool:
        """Whether the chosen candidate reaches the target."""
        chosen = self.tuned.chosen
        return chosen is not None and self.tuned.order.reaches(chosen)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the table: the goal, the cost, the rate."""
        order = self.tuned.order
        return order.goal, order.cost, order.rate

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the table."""
        figures = [text for one in self.metrics for text in (one.heading, "")]
        return (
            noun_in(self.tuned.rungs[0].plan.suite),
            *self._settings(),
            *figures,
            "stage",
            "status",
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row per candidate: the choice first, then the last rung."""
        for rung, record in self.tuned.ranking:
            point = self.tuned.point(record)
            values = [str(point.get(name, MISSING)) for name in self._settings()]
            figures = [text for one in self.metrics for text in _figure(record, one)]
            cause = f": {record.cause.message.splitlines()[0]}" if record.cause else ""
            status = f"{record.status.value}{cause}"
            yield (record.cell.adapter, *values, *figures, str(rung), status)

    def reason(self) -> tuple[str, ...]:
        """Return the verdict, and the limits of the machine beside it, in sentences."""
        chosen = self.tuned.chosen
        limits = () if chosen is None else self._limits(chosen)
        return (*self.sentences, *limits, *self.limits)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict: the choice with its reason first."""
        tuned, chosen, order = self.tuned, self.tuned.chosen, self.tuned.order
        if chosen is None:
            return ("No candidate could be measured; the table says why.",)
        name, deciding = self.name_of(chosen), order.deciding(chosen)
        busy, cost = order.value(chosen, order.goal), order.value(chosen, order.cost)
        if self.reaches:
            said = (
                f"{name} keeps the accelerator busy for {share(busy)} of its time with the least "
                f"{order.cost.heading}"
                f"{'' if cost is None else f', {writer(order.cost)(cost)}'}."
            )
        else:
            said = (
                f"No setting feeds the accelerator for {share(order.target)} of its time; the best "
                f"is {name}, with {share(busy)}."
            )
        lines = [said]
        if tuned.rivals:
            names = ", ".join(self.name_of(one) for one in tuned.rivals)
            lines.append(f"No difference of 5 % in {deciding.heading} is shown to {names}.")
        if order.is_by_stand_ins:
            lines.append(
                f"Some candidates have only {order.rate.heading}; all are compared by "
                f"{order.goal.heading} and {order.rate.heading}."
            )
        rounds = [one for rung in tuned.rungs for record in rung.records for one in record.rounds]
        if found := disturbance(rounds, tuned.rungs[-1].plan.effort.target_relative_interval / 2):
            told = found.message
            lines.append(f"{told[:1].upper()}{told[1:]}: repeat the tune on a quiet machine.")
        return tuple(lines)

    def _limits(self, chosen: Record) -> Iterator[str]:
        """Yield what an accelerator needs, what was reached, and the ceilings beside it."""
        order = self.tuned.order
        needed, reached = order.needed_rate(chosen), order.value(chosen, order.rate)
        if needed is None or reached is None:
            return
        write, unit = writer(order.rate), order.rate.heading
        yield (
            f"the accelerator takes {write(needed)} {unit}, and gets {write(reached)} "
            f"({share(reached / needed)})"
        )
        for one in sorted(self.ceilings, key=lambda one: one.rate):
            beside = "" if one.binds else ", for comparison"
            yield f"  {one.name}: {write(one.rate)} {unit}{beside} ({one.basis})"
        limit = self.limit
        if limit is not None and not self.reaches:
            yield (
                f"limit: {limit.name}, whose ceiling is {share(limit.rate / needed)} of what the "
                f"accelerator takes; the candidate reaches {share(reached / limit.rate)} of it"
            )
        elif self.ceilings and not self.reaches:
            yield (
                "limit: none of the machine's own figures above; the libraries' own work, or other "
                "programs, take the rest"
            )

    @property
    def limit(self) -> Ceiling | None:
        """The lowest ceiling that is below what the accelerator takes; None where all are above."""
        chosen = self.tuned.chosen
        needed = None if chosen is None else self.tuned.order.needed_rate(chosen)
        if needed is None:
            return None
        low = [one for one in self.ceilings if one.binds and one.rate < needed]
        return min(low, key=lambda one: one.rate, default=None)

    def to_json(self) -> str:
        """Return it as JSON, as ``tune.json`` has it."""
        return escaped_json(json.dumps(self._content(), indent=1))

    def _content(self) -> dict[str, JsonValue]:
        tuned, order, chosen = self.tuned, self.tuned.order, self.tuned.chosen
        best = cheapest(self.machines)
        again: dict[str, JsonValue] = {
            "settings": dict(self.settings),
            "command": shlex.join(self.command),
            "code": self.code,
        }
        return {
            "target": order.target,
            "reached": self.reaches,
            "metrics": {"goal": order.goal.name, "cost": order.cost.name, "rate": order.rate.name},
            "chosen": None if chosen is None else self._candidate(*tuned.ranking[0]),
            "not_shown_to_differ": [one.cell.id for one in tuned.rivals],
            "needed_rate": None if chosen is None else order.needed_rate(chosen),
            "ceilings": [one.model_dump(mode="json") for one in self.ceilings],
            "limit": None if self.reaches or self.limit is None else self.limit.name,
            "candidates": [self._candidate(rung, one) for rung, one in tuned.ranking],
            "reason": list(self.reason()),
            **({} if chosen is None else again),
            "machines": [one.json_content() for one in self.machines],
            "cheapest_machine": None if best is None else best.json_content(),
        }

    def _candidate(self, rung: int, record: Record) -> dict[str, JsonValue]:
        figures: dict[str, JsonValue] = {
            one.name: self.tuned.order.value(record, one) for one in self.metrics
        }
        return {
            "id": record.cell.id,
            "adapter": record.cell.adapter,
            "settings": dict(self.tuned.point(record)),
            "rung": rung,
            "rounds": len(record.rounds),
            "status": record.status.value,
            "cause": None if record.cause is None else record.cause.message,
            "metrics": figures,
        }

    def _settings(self) -> Sequence[str]:
        """Return the names of the settings that are tuned, in order."""
        points = (self.tuned.point(one) for _, one in self.tuned.ranking)
        return list(dict.fromkeys(name for one in points for name in one))

    def name_of(self, record: Record) -> str:
        """Return a candidate's adapter and tuned settings in words."""
        point = self.tuned.point(record)
        return " ".join((record.cell.adapter, *(f"{k}={v}" for k, v in point.items())))


def log_of(tuned: Tuned) -> str:
    """Return, as Markdown, what each stage tried, expected and saw, and why candidates left.

    Args:
        tuned: the stages until now.
    """
    choice = Choice(tuned)
    following = [*({one.cell.id for one in rung.plan.cells} for rung in tuned.rungs[1:]), None]
    lines = ["# What the tune did", ""]
    for number, rung in enumerate(tuned.rungs, 1):
        rounds = count_of(rung.plan.effort.min_rounds, "round")
        lines += [
            f"## Stage {number}: {count_of(len(rung.plan.runnable), 'candidate')}, {rounds} each",
            "",
            f"Expected time: {duration(rung.expected_s)}. Records: {rung.directory.name}.",
            "",
            *markdown_table(
                (noun_in(rung.plan.suite), *(one.heading for one in choice.metrics), "outcome"),
                _log_rows(choice, rung, following[number - 1]),
            ),
            "",
        ]
    return "\n".join(lines)


def _log_rows(choice: Choice, rung: Rung, kept: set[str] | None) -> Iterator[tuple[str, ...]]:
    """Yield a row per candidate of a stage, best first; `kept` are the ids of the next stage."""
    order = choice.tuned.order
    by_place = sorted(rung.records, key=lambda one: (order.place(one) is None, order.place(one)))
    last = [one for one in by_place if kept and one.cell.id in kept][-1:]
    for record in by_place:
        if order.place(record) is None:
            outcome = f"left out: {record.status.value}"
            outcome += "" if record.cause is None else f", {record.cause.message.splitlines()[0]}"
        elif kept is None:
            outcome = "chosen" if record == choice.tuned.chosen else "in the last stage"
        elif record.cell.id in kept:
            outcome = "goes on"
        else:
            deciding = order.deciding(record) if order.reaches(last[0]) else order.rate
            ours, theirs = (_figure(one, deciding)[0] for one in (record, last[0]))
            last_has = f"and the last that goes on has {theirs}"
            outcome = f"left out: {ours} {deciding.heading}, {last_has}"
        figures = (_figure(record, metric)[0] for metric in choice.metrics)
        yield (choice.name_of(record), *figures, outcome)


def _figure(record: Record, metric: Metric) -> tuple[str, str]:
    """Return a record's figure of a metric, and half the width of its interval."""
    figure = record.metrics.get(metric.name)
    return (MISSING, "") if figure is None else (writer(metric)(figure.value), margin(figure))


@dataclass(frozen=True)
class MeasuredMachine:
    """A machine with its best candidate."""

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
    """Return the machines of runs: sufficient machines first, the cheapest at the top.

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
            settings = " ".join(f"{name}={cell.settings.get(name)}" for name in same)
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
    return (
        machine.name,
        MISSING if price is None else f"{price:.2f}",
        "yes" if machine.suffices else "no",
        machine.best.cell.adapter,
        *(_figure(machine.best, metric)[0] for metric in (order.goal, order.rate)),
    )


def _by_price(machine: MeasuredMachine) -> tuple[bool, bool, float]:
    price = machine.hourly_price_usd
    return not machine.suffices, price is None, price or 0.0


def _is_same_work(one: Cell, other: Cell, suite: Suite, same: Sequence[str]) -> bool:
    return (
        (one.suite, one.scenario, one.variant) == (other.suite, other.scenario, other.variant)
        and _own_axes(one) == _own_axes(other)
        and all(one.settings.get(name) == other.settings.get(name) for name in same)
        and suite.data_of(one) == suite.data_of(other)
    )


def _own_axes(cell: Cell) -> dict[str, Setting]:
    """Return a cell's axes, without the settings that a tune makes axes of."""
    return {name: value for name, value in cell.axes.items() if name not in cell.settings}
