"""A tune: candidates measured rung by rung, each rung a plan with a run directory of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from skymark.execute.planner import load_profile, planned
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.metric import Declaration, Metric
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cell, Record, Setting, Status
from skymark.model.requests import Work
from skymark.statistics.difference import is_shown
from skymark.suite.contract import MeasuredStep, Suite, Tuning
from skymark.suite.registry import suite_named

Order = tuple[float, ...]
"""The order of a candidate; the smallest is the best."""

REDUCTION = 3
"""Candidates of a rung for each candidate of the next rung."""

FINALISTS = 3
"""With this number of candidates or fewer, only the last rung is worth its time."""


@dataclass(frozen=True)
class TuningOrder:
    """The rule by which one record is better than another."""

    goal: Metric
    cost: Metric
    rate: Metric
    target: float
    """Required share of the goal, 0 to 1."""
    stand_ins: tuple[Metric, Metric] | None = None
    """Substitutes for goal and rate, if some candidates lack those; None without substitutes."""
    is_by_stand_ins: bool = False
    """Whether goal and rate are the substitutes."""

    @classmethod
    def of(cls, tuning: Tuning, declaration: Declaration, target: float) -> TuningOrder:
        """Return the rule of a suite's declaration."""
        stand_in = declaration.stand_in_metric
        goal = tuning.stand_in_goal
        return cls(
            goal=declaration.metric(tuning.goal),
            cost=declaration.metric(tuning.cost),
            rate=declaration.primary_metric,
            target=target,
            stand_ins=None
            if stand_in is None or goal is None
            else (declaration.metric(goal), stand_in),
        )

    def among(self, records: Iterable[Record]) -> TuningOrder:
        """Return the rule for these records: by the substitutes if a record has only their rate."""
        if self.stand_ins is None:
            return self
        goal, rate = self.stand_ins
        lacking = (one for one in records if self.value(one, self.rate) is None)
        if all(self.value(one, rate) is None for one in lacking):
            return self
        return replace(self, goal=goal, rate=rate, stand_ins=None, is_by_stand_ins=True)

    def place(self, record: Record) -> Order | None:
        """Return a record's order, the smallest first; None if it did not end well."""
        rate = self.value(record, self.rate)
        if record.status is not Status.OK or rate is None:
            return None
        cost = self.value(record, self.cost)
        if self.reaches(record) and cost is not None:
            return 0.0, cost
        return 1.0, -rate

    def reaches(self, record: Record) -> bool:
        """Whether a record's goal is at the target, or above."""
        reached = self.value(record, self.goal)
        return reached is not None and reached >= self.target

    def deciding(self, record: Record) -> Metric:
        """Return the metric that compares a record with records on its side of the target."""
        return self.cost if self.reaches(record) else self.rate

    def is_shown_to_differ(self, one: Record, other: Record) -> bool:
        """Whether the rounds of two records show that one is better, by 5 % or more."""
        same_side = self.reaches(one) == self.reaches(other)
        metric = self.deciding(one) if same_side else self.goal
        ours, theirs = one.values(metric.name), other.values(metric.name)
        return bool(ours and theirs) and is_shown(ours, theirs, metric)

    def needed_rate(self, record: Record) -> float | None:
        """Return the rate at which the accelerator would never wait: each round's rate / goal."""
        found = [
            one.metrics[self.rate.name] / reached
            for one in record.rounds
            if self.rate.name in one.metrics and (reached := one.metrics.get(self.goal.name))
        ]
        return median(found) if found else None

    def value(self, record: Record, metric: Metric) -> float | None:
        """Return a record's figure of a metric; None where it has none."""
        figure = record.metrics.get(metric.name)
        return None if figure is None else figure.value


STAGES = {
    "check": ((1, 0.2), (1, 0.2)),
    "quick": ((1, 0.5), (1, 1.0), (2, 2.0), (3, 4.0)),
    "standard": ((1, 1.0), (1, 2.0), (2, 4.0), (5, 8.0)),
    "rigorous": ((1, 2.0), (2, 4.0), (4, 8.0), (10, 16.0)),
}
"""Rounds, and the seconds that each measures, by stage and name of an effort. The last stage has
what tells 5 % apart, but in ``check``, which only sees whether all works."""


def stage_efforts(tuning: Tuning, name: str, step_ms: float) -> list[Effort]:
    """Return the efforts of a tune's stages, the shortest first, for the name of an effort.

    Raises:
        UnknownNameError: there is no such effort.
    """
    if name not in STAGES:
        raise UnknownNameError("effort", name, STAGES)
    return [
        tuning.effort(f"tune-{name}-{place}", rounds, seconds, step_ms)
        for place, (rounds, seconds) in enumerate(STAGES[name], 1)
    ]


@dataclass(frozen=True)
class Rung:
    """One rung that was measured."""

    plan: Plan
    directory: Path
    records: tuple[Record, ...]
    expected_s: float = 0.0
    """Time that it was expected to take."""


RunRung = Callable[[Plan, Path], Rung]
"""Carries out the plan of a rung into a directory, or goes on with it."""


@dataclass(frozen=True)
class Tuned:
    """A tune that came to its end."""

    order: TuningOrder
    rungs: tuple[Rung, ...]
    names: frozenset[str]
    """Names of the tuned settings, which are axes of the candidates' cells."""

    def point(self, record: Record) -> dict[str, Setting]:
        """Return a candidate's tuned settings."""
        axes = record.cell.axes
        return {name: value for name, value in axes.items() if name in self.names}

    @property
    def ranking(self) -> tuple[tuple[int, Record], ...]:
        """Each candidate's last rung, from 1, and its record there, best first.

        Candidates that could not be measured come last.
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
        """The best record; None if no candidate could be measured."""
        record = next((one for _, one in self.ranking), None)
        return None if record is None or self.order.place(record) is None else record

    @property
    def rivals(self) -> tuple[Record, ...]:
        """Finalists without a significant difference from the chosen record in the last rung."""
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


@dataclass(frozen=True)
class Candidates:
    """The candidates of a tune: a request for each point of the settings that are tuned."""

    suite: Suite
    tuning: Tuning
    points: tuple[tuple[Mapping[str, Setting], Work], ...]

    @classmethod
    def of(
        cls,
        work: Work,
        step_ms: float,
        batch: int | None = None,
        grid: Mapping[str, Sequence[Setting]] | None = None,
        cores: int = 1,
    ) -> Candidates:
        """Return the candidates of a request.

        A setting that the request gives is not tuned.

        Args:
            work: the common request of all candidates.
            step_ms: milliseconds of the accelerator's computation per batch.
            batch: elements of a batch; None for the scenario's default.
            grid: the user's own values to try of each setting.
            cores: cores of this machine, an upper limit of the suite's own points.

        Raises:
            UsageError: the suite has nothing to tune, or values contradict one another.
        """
        suite, tuning = suite_named(load_profile(work.profile).suite), tuning_of(work)
        if work.rounds is not None or work.time is not None or work.goal is not None:
            raise UsageError(
                "a tune gives each candidate its rounds; leave out --rounds, --time and --goal"
            )
        if tuning.measured_step is not None and tuning.measured_step.network in work.settings:
            raise UsageError("--step names a network, and --step-ms its time; give one of them")
        own = {"--step-ms": tuning.step, **({} if batch is None else {"--batch": tuning.batch})}
        for option, name in own.items():
            if name in work.settings:
                raise UsageError(f"{option} sets {name}; leave it out of --set")
        for name in grid or ():
            if name in work.settings:
                raise UsageError(f"{name} has a value, so --grid cannot vary it; leave out either")
        step = {tuning.step: step_ms, **({} if batch is None else {tuning.batch: batch})}
        shared = work.changed(
            scenarios=work.scenarios or (tuning.scenario,), settings={**work.settings, **step}
        )
        points = tuning.points(shared, grid or {}, cores)
        different = [one for place, one in enumerate(points) if one not in points[:place]]
        requests = (shared.changed(settings={**shared.settings, **one}) for one in different)
        return cls(suite, tuning, tuple(zip(different, requests, strict=True)))

    @property
    def names(self) -> frozenset[str]:
        """The names of the settings that are tuned."""
        return frozenset(name for point, _ in self.points for name in point)

    def plan(self) -> Plan:
        """Return one plan of all candidates.

        Raises:
            UsageError: they are of more than one scenario, or cannot be planned.
        """
        return candidates_of((point, planned(work)[0]) for point, work in self.points)

    def again(self, cell: Cell) -> Work:
        """Return the request that measures one candidate alone."""
        (work,) = (
            one
            for point, one in self.points
            if all(cell.axes[name] == value for name, value in point.items())
        )
        return work.changed(adapters=(self.suite.adapter_reference(cell),), effort=None)


@dataclass(frozen=True)
class StepMeasurement:
    """The measurement of a training step that a request names instead of its time."""

    work: Work
    step: MeasuredStep
    plan: Plan
    """One cell, of the library whose batches the step consumes."""

    @classmethod
    def of(cls, work: Work, batch: int | None) -> StepMeasurement:
        """Return the measurement of a request's step.

        Args:
            work: the request of a tune.
            batch: elements of a batch; None for the scenario's.

        Raises:
            UsageError: it names no step, or its step cannot be measured.
        """
        tuning = tuning_of(work)
        step = tuning.measured_step
        if step is None or step.network not in work.settings:
            other = (
                ", or a network to measure on this machine, such as --step resnet50"
                if step is not None
                else ", or what `skymark watch --output DIR` saw, with --watch DIR"
            )
            raise UsageError(
                "give the time that your accelerator computes per batch, such as --step-ms 120"
                f"{other}"
            )
        sized = {} if batch is None else {tuning.batch: batch}
        alone = work.changed(
            adapters=(step.adapter,),
            scenarios=work.scenarios or (tuning.scenario,),
            settings={**work.settings, **sized},
            effort="check",
        )
        plan = planned(alone)[0]
        return cls(work, step, plan.changed(cells=plan.cells[:1]))

    @property
    def network(self) -> str:
        """The name of the step."""
        return str(self.work.settings[self.step.network])

    @property
    def without_network(self) -> Work:
        """The request without the step's name, to be tuned for its time."""
        settings = {k: v for k, v in self.work.settings.items() if k != self.step.network}
        return self.work.changed(settings=settings)

    def milliseconds(self, record: Record) -> float:
        """Return the time of a step, to three digits.

        Raises:
            UsageError: it could not be measured.
        """
        time_ns = record.metrics.get(self.step.metric)
        if time_ns is None:
            why = record.status.value if record.cause is None else record.cause.message
            raise UsageError(
                f"the step {self.network} could not be measured: {why}; give its time, such as "
                "--step-ms 120"
            )
        return float(f"{time_ns.value / 1e6:.3g}")


def tuning_of(work: Work) -> Tuning:
    """Return what the suite of a request can tune.

    Raises:
        UsageError: nothing.
    """
    suite = suite_named(load_profile(work.profile).suite)
    if suite.tuning is None:
        raise UsageError(
            f"the suite {suite.name} of the profile {work.profile} has nothing to tune; give "
            "another --profile"
        )
    return suite.tuning


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
                f"a tune takes one scenario, and these are {len(labels)}: "
                f"{', '.join(sorted(labels))}; give one with --scenarios, and one value of each "
                "--axis"
            )
        for candidate in plan.cells:
            tuned = _with_axes(candidate, point)
            cells[tuned.cell.id] = tuned
    if first is None:
        raise UsageError("there is nothing to choose from; give a setting several values")
    return first.changed(cells=tuple(cells.values()), allotment=None)


def measure_rungs(
    candidates: Plan,
    efforts: Sequence[Effort],
    order: TuningOrder,
    directory: Path,
    run: RunRung,
    names: Collection[str],
    told: Callable[[Tuned], None] = lambda _: None,
) -> Tuned:
    """Measure candidates by successive halving: many with little time, the best third with more.

    Among equal candidates of a rung the earlier one wins (K. Jamieson, A. Talwalkar,
    "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016, with a
    third in place of a half).

    Each rung's plan follows from the records of the previous rung. So you continue an interrupted
    tune by running it again: `run` returns existing records.

    Args:
        candidates: all candidates, in one plan.
        efforts: efforts of the rungs, the shortest first.
        order: the rule for the better record.
        directory: parent of the rungs' run directories.
        run: measures a rung.
        names: names of the tuned settings.
        told: gets the tune until now, after each rung.
    """
    by_id = {one.cell.id: one for one in candidates.cells}
    rungs: list[Rung] = []
    left = list(by_id)
    for number, (size, effort) in enumerate(rungs_of(len(candidates.runnable), efforts)):
        # The first rung also has the candidates that cannot run: their records have the reason.
        ids = left[:size] if number else left
        cells = tuple(by_id[id] for id in ids)
        plan = candidates.model_copy(update={"cells": cells, "effort": effort})
        rung = run(plan, directory / f"rung-{number + 1}")
        records = rung.records
        rungs.append(rung)
        order = order.among(records)
        told(Tuned(order, tuple(rungs), frozenset(names)))
        places = {one.cell.id: order.place(one) for one in records}
        known = {id: place for id, place in places.items() if place is not None}
        left = sorted((id for id in ids if id in known), key=known.__getitem__)
        if not left:
            break
    return Tuned(order, tuple(rungs), frozenset(names))


def rungs_of(candidates: int, efforts: Sequence[Effort]) -> list[tuple[int, Effort]]:
    """Return each rung's largest number of candidates, and its effort.

    The last rung has the longest effort, because its figures are the results. With too few
    efforts it has more than `FINALISTS` candidates.

    Args:
        candidates: number of candidates in the first rung.
        efforts: efforts, the shortest first.
    """
    sizes = [candidates]
    while sizes[-1] > FINALISTS and len(sizes) < len(efforts):
        sizes.append(math.ceil(sizes[-1] / REDUCTION))
    chosen = [*efforts[: len(sizes) - 1], efforts[-1]]
    return list(zip(sizes, chosen, strict=True))


def _with_axes(planned: PlannedCell, point: Mapping[str, Setting]) -> PlannedCell:
    """Return a planned cell with its point among the axes, and its group renamed if its own."""
    cell = planned.cell
    tuned = cell.model_copy(update={"axes": {**cell.axes, **point}})
    return planned.model_copy(
        update={"cell": tuned, "group": planned.group.replace(cell.id, tuned.id)}
    )
