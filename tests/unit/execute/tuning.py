"""A suite that can be tuned, records of known figures, and a run that makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from skymark.execute.tune import Rung, TuningOrder
from skymark.model.effort import Effort
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record, Round, Status
from skymark.statistics.interval import figures_of
from tests.scripted_suite import cell_of, plan_of

DECLARATION = Declaration(
    suite="scripted",
    metrics=(
        Metric(name="steps_per_s", heading="steps/s", unit="1/s", better="higher"),
        Metric(name="fed_share", heading="fed share", scale="linear", better="higher"),
        Metric(name="cost_s", heading="cost", unit="s", better="lower"),
    ),
    primary="steps_per_s",
)
ORDER = TuningOrder(
    goal=DECLARATION.metric("fed_share"),
    cost=DECLARATION.metric("cost_s"),
    rate=DECLARATION.primary_metric,
    target=0.95,
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EFFORTS = [
    Effort(
        name=f"rung {place}",
        min_rounds=rounds,
        max_rounds=rounds,
        target_relative_interval=0.1,
        cell_timeout_s=30.0,
    )
    for place, rounds in enumerate((1, 2, 4))
]


def record_of(cell, fed, cost, rates=(100.0, 101.0), status=Status.OK):
    """A record whose rounds have these rates, this share and this cost."""
    rounds = tuple(
        Round(
            round=number,
            started_at=NOW,
            setup_s=0.0,
            timed_ns=1,
            metrics={"steps_per_s": rate, "fed_share": fed, "cost_s": cost},
        )
        for number, rate in enumerate(rates)
    )
    figures = figures_of(rounds, DECLARATION.metrics) if status is Status.OK else {}
    return Record(
        cell=cell,
        cell_hash=cell.hash,
        status=status,
        rounds=rounds,
        metrics=figures,
        started_at=NOW,
        ended_at=NOW + timedelta(seconds=1),
    )


def candidates_with(**settings):
    """Plans of two adapters, one for each value of the one setting."""
    ((name, values),) = settings.items()
    return [
        ({name: value}, plan_of(*(cell_of(adapter, **{name: value}) for adapter in "ab")))
        for value in values
    ]


class Runs:
    """Makes the records of a rung: the cost is that of a table; may be interrupted.

    Keeps what it made by directory, as run directories do.
    """

    def __init__(self, cost, stop_at: str | None = None):
        self.cost = cost
        self.stop_at = stop_at
        self.kept: dict[Path, tuple[str, list[Record]]] = {}
        self.measured: list[tuple[str, str]] = []

    def __call__(self, plan, place):
        if place.name == self.stop_at:
            raise KeyboardInterrupt
        if place in self.kept:
            plan_hash, records = self.kept[place]
            assert plan_hash == plan.hash
            return Rung(plan, place, tuple(records))
        self.measured += [(place.name, one.cell.id) for one in plan.cells]
        records = [
            record_of(one.cell, 1.0, self.cost(one.cell), rates=[100.0] * plan.effort.min_rounds)
            for one in plan.cells
        ]
        self.kept[place] = (plan.hash, records)
        return Rung(plan, place, tuple(records))
