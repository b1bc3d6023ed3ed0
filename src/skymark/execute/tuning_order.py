"""Order of a tune's candidates: the least cost that reaches the target, else the highest rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record, Status
from skymark.statistics.difference import is_shown
from skymark.statistics.halving import Order
from skymark.suite.tuning import Tuning


@dataclass(frozen=True)
class TuningOrder:
    """The rule by which one record is better than another."""

    goal: Metric
    cost: Metric
    rate: Metric
    target: float
    """The share that the goal has to reach, 0 to 1."""
    stand_ins: tuple[Metric, Metric] | None = None
    """The goal and the rate of candidates some of which lack the others; None for none."""
    is_by_stand_ins: bool = False
    """Whether goal and rate are those."""

    @classmethod
    def of(cls, tuning: Tuning, declaration: Declaration, target: float) -> TuningOrder:
        """Return the rule of a suite's declaration."""
        stand_in = declaration.stand_in_metric
        return cls(
            goal=declaration.metric(tuning.goal),
            cost=declaration.metric(tuning.cost),
            rate=declaration.primary_metric,
            target=target,
            stand_ins=None
            if stand_in is None
            else (declaration.metric(tuning.stand_in_goal), stand_in),
        )

    def among(self, records: Iterable[Record]) -> TuningOrder:
        """Return the rule for these records: by the stand-ins where one has no other rate."""
        if self.stand_ins is None:
            return self
        goal, rate = self.stand_ins
        lacking = (one for one in records if self.value(one, self.rate) is None)
        if all(self.value(one, rate) is None for one in lacking):
            return self
        return replace(self, goal=goal, rate=rate, stand_ins=None, is_by_stand_ins=True)

    def place(self, record: Record) -> Order | None:
        """Return a record's place, the smallest first; None where it did not end well."""
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
        """Return the metric by which a record is compared with its like."""
        return self.cost if self.reaches(record) else self.rate

    def is_shown_to_differ(self, one: Record, other: Record) -> bool:
        """Whether the rounds of two records show that one is better, by 5 % or more."""
        same_side = self.reaches(one) == self.reaches(other)
        metric = self.deciding(one) if same_side else self.goal
        ours, theirs = one.values(metric.name), other.values(metric.name)
        return bool(ours and theirs) and is_shown(ours, theirs, metric)

    def needed_rate(self, record: Record) -> float | None:
        """Return the rate at which the accelerator would never wait: each round's over its goal."""
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
