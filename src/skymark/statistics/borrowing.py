"""Variance that intervals borrow from the further cells of a run.

The spread of a few rounds says little about a cell. The cells of a run share the machine, so they
tell of each other's spread on the logarithmic scale. An interval rests on both
(`skymark.statistics.interval.estimate`).

The weight is constant: estimated for each run, as by Smyth (2004), it is too large for runs of few
cells. Weight and part were chosen so that the intervals of all distributions in
docs/reference/evidence.md hold the truth. For three rounds of equal spread, an interval is 1.55
times as narrow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Record, Round, StabilityWarning, Status, Stop
from skymark.statistics.interval import figure_of, sample_variance
from skymark.statistics.stability import (
    LEAST_DEPENDENT,
    CheckedRounds,
    dependent_rounds,
    wide_interval,
)

LEAST_LENDERS = 4
"""Least number of other cells; the mean variance of fewer is too uncertain."""

NOISIEST = 10
"""Of each ten lenders, the noisiest does not count: a wild cell would widen all intervals."""

PART = 1.2
"""Factor of the mean variance; makes up for the missing noisiest lenders."""


def lent_variances(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the borrowed variance of each cell, on the log scale.

    It is absent for cells without enough lenders. Lenders have two rounds at least.

    Args:
        values: a metric's values by cell, one per round. A cell with a value that has no
            logarithm takes no part.
    """
    own = {
        name: sample_variance([math.log(value) for value in its])
        for name, its in values.items()
        if len(its) > 1 and min(its) > 0
    }
    others = len(own) - 1
    if others < LEAST_LENDERS:
        return {}
    kept = others - others // NOISIEST
    lowest = sorted(own.values())[: kept + 1]
    total = math.fsum(lowest)
    # The sum without a cell: in place of one that is left out anyway, the next noisiest goes.
    return {
        name: PART * max(0.0, total - min(variance, lowest[-1])) / kept
        for name, variance in own.items()
    }


def borrowed_variances(
    cells: Mapping[str, Sequence[Round]], metrics: Iterable[Metric]
) -> dict[str, dict[str, float]]:
    """Return the variances that cells of one machine borrow: by cell, then by metric.

    Args:
        cells: the counted rounds of each cell.
        metrics: of their suite; only metrics on the log scale, one value per round, borrow.
    """
    borrowed: dict[str, dict[str, float]] = defaultdict(dict)
    for metric in metrics:
        if metric.scale != "log" or metric.pooled or metric.outcome is not None:
            continue
        name = metric.name
        values = {
            cell: [round.metrics[name] for round in rounds if name in round.metrics]
            for cell, rounds in cells.items()
        }
        for cell, variance in lent_variances(values).items():
            borrowed[cell][name] = variance
    return borrowed


def lenders(records: Iterable[Record]) -> dict[str, Sequence[Round]]:
    """Return the counted rounds of the `ok` records that other programs did not disturb."""
    return {
        record.cell.id: record.counted
        for record in records
        if record.status is Status.OK and not record.disturbed
    }


def judged_together(
    records: Sequence[Record],
    metrics: Sequence[Metric],
    effort: Effort,
    deciding: Callable[[Iterable[str]], Metric],
) -> list[Record]:
    """Return the records of a run with all that its cells say about each other.

    Their intervals and warnings rest on borrowed variances, and a warning names dependent rounds.
    All depends on the records' rounds alone, so the same records give the same result. Records of
    other hardware are judged apart.

    Args:
        records: all records of the run.
        metrics: metrics of the suite.
        effort: bounds of the rounds.
        deciding: returns the metric that decides the number of rounds, given a record's metrics.
    """
    machines: dict[str | None, list[Record]] = defaultdict(list)
    for record in records:
        machines[record.hardware_key].append(record)
    judged: dict[str, Record] = {}
    for its in machines.values():
        lent = borrowed_variances(lenders(its), metrics)
        with_intervals = [
            _with_variances(
                *(record, lent.get(record.cell.id, {}), effort, deciding(record.metrics))
            )
            for record in its
        ]
        for record in _with_dependence(with_intervals, deciding):
            judged[record.cell.id] = record
    return [judged[record.cell.id] for record in records]


def _with_dependence(
    records: Sequence[Record], deciding: Callable[[Iterable[str]], Metric]
) -> list[Record]:
    """Return records of one machine, with the warning of dependent rounds if there are any."""
    series = {
        id: [round.metrics.get(metric.name, 0.0) for round in rounds]
        for id, rounds in lenders(records).items()
        if (metric := deciding(rounds[-1].metrics if rounds else ())).scale != "exact"
    }
    warning = dependent_rounds(series.values())
    warned = []
    for record in records:
        warnings = [one for one in record.warnings if one.kind != "dependent-rounds"]
        if warning is not None and len(series.get(record.cell.id, ())) >= LEAST_DEPENDENT:
            warnings.append(warning)
        warned.append(record.model_copy(update={"warnings": tuple(warnings)}))
    return warned


def _with_variances(
    record: Record, variances: Mapping[str, float], effort: Effort, deciding: Metric
) -> Record:
    """Return a record whose intervals rest on borrowed variances, by metric."""
    figures = {
        name: figure_of(record.values(name), "log", variances.get(name))
        for name in (*variances, *record.borrowed_spreads)
        if name in record.metrics and record.metrics[name].low is not None
    }
    if not figures:
        return record
    warnings = record.warnings
    if deciding.name in figures:
        warnings = _warnings(record, effort, deciding, variances.get(deciding.name))
    spreads = {name: math.sqrt(variances[name]) for name in figures if name in variances}
    return record.model_copy(
        update={
            "metrics": {**record.metrics, **figures},
            "borrowed_spreads": spreads,
            "warnings": warnings,
        }
    )


def _warnings(
    record: Record, effort: Effort, deciding: Metric, borrowed: float | None
) -> tuple[StabilityWarning, ...]:
    """Return a record's warnings, and renew the warning of a wide interval.

    A cell that stopped as narrow has no such warning: its interval may have grown a little since,
    with the rounds of the further cells.
    """
    others = [warning for warning in record.warnings if warning.kind != "wide-interval"]
    is_whole = len(record.values(deciding.name)) == len(record.counted)
    if record.stopped_by is Stop.INTERVAL or not is_whole:
        return tuple(others)
    wide = wide_interval(CheckedRounds(record.counted, effort, deciding, borrowed))
    return tuple(others) if wide is None else (wide, *others)
