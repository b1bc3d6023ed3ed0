"""Cells borrow variance from the other cells of their run, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random

import pytest

from skymark.model.effort import Effort
from skymark.model.metric import Figure, Metric
from skymark.model.record import Cell, MachineUse, Record, Round, Status, Stop
from skymark.statistics.borrowing import LEAST_LENDERS, PART, judged_together, lent_variances
from skymark.statistics.interval import BORROWED_DEGREES, estimate, sample_variance
from skymark.statistics.stability import LEAST_DEPENDENT

RATE = Metric(name="rate", heading="rate", better="higher")
SHARE = Metric(name="share", heading="share", scale="linear")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
EFFORT = Effort(
    name="quick", min_rounds=3, max_rounds=9, target_relative_interval=0.1, cell_timeout_s=60
)


def values_of(cells: int, seed: int = 1, rounds: int = 4) -> dict[str, list[float]]:
    """Rates of cells of different spread."""
    chance = Random(seed)
    spreads = {f"cell{number}": chance.uniform(0.01, 0.2) for number in range(cells)}
    return {
        name: [1000 * chance.lognormvariate(0, spread) for _ in range(rounds)]
        for name, spread in spreads.items()
    }


def round_at(number: int, rate: float, **more: object) -> Round:
    metrics = {"rate": rate, "share": 1 / rate}
    return Round.model_validate(
        {
            "round": number,
            "started_at": MOMENT,
            "setup_s": 0.0,
            "timed_ns": 10**9,
            "metrics": metrics,
            **more,
        }
    )


def record_of(name: str, rates: Sequence[float], **more: object) -> Record:
    cell = Cell(suite="s", scenario="A", variant="small", adapter=name)
    shares = [1 / rate for rate in rates]
    return Record.model_validate(
        {
            "cell": cell,
            "cell_hash": cell.hash,
            "status": Status.OK,
            "rounds": [round_at(number, rate) for number, rate in enumerate(rates)],
            "metrics": {"rate": estimate(rates), "share": estimate(shares, "linear")},
            "started_at": MOMENT,
            "ended_at": MOMENT,
            **more,
        }
    )


def borrowing(records: Sequence[Record]) -> list[Record]:
    return judged_together(records, [RATE, SHARE], EFFORT, lambda _: RATE)


@pytest.mark.parametrize("cells", [5, 6, 11, 12, 24, 60])
def test_each_cell_borrows_the_mean_of_the_others_without_the_noisiest_tenth(cells: int) -> None:
    values = values_of(cells)
    own = {name: sample_variance([math.log(rate) for rate in its]) for name, its in values.items()}
    for name, lent in lent_variances(values).items():
        others = sorted(variance for other, variance in own.items() if other != name)
        kept = others[: len(others) - len(others) // 10]
        assert lent == pytest.approx(PART * sum(kept) / len(kept))


def test_one_wild_cell_among_many_changes_little() -> None:
    values = values_of(24)
    wild = values | {"wild": [1.0, 1000.0, 3.0, 500.0]}
    before, after = lent_variances(values), lent_variances(wild)
    for name in values:
        assert after[name] < 1.5 * before[name]


@pytest.mark.parametrize(
    "spoil",
    [lambda its: its[:1], lambda its: [0.0, *its], lambda _: []],
    ids=["one round", "no logarithm", "no round"],
)
def test_a_cell_without_a_variance_neither_lends_nor_borrows(
    spoil: Callable[[list[float]], list[float]],
) -> None:
    values = values_of(LEAST_LENDERS + 2)
    first = next(iter(values))
    others = {name: its for name, its in values.items() if name != first}
    assert lent_variances(values | {first: spoil(values[first])}) == lent_variances(others)


def test_too_few_others_lend_nothing() -> None:
    assert lent_variances(values_of(LEAST_LENDERS)) == {}
    assert len(lent_variances(values_of(LEAST_LENDERS + 1))) == LEAST_LENDERS + 1


def test_a_borrowed_variance_is_weighed_against_the_rounds_own() -> None:
    rates = [1000.0, 1100.0, 950.0]
    own = sample_variance([math.log(rate) for rate in rates])

    def width(figure: Figure) -> float:
        assert figure.low is not None
        assert figure.high is not None
        return math.log(figure.high / figure.low) / 2

    alone = width(estimate(rates))
    assert width(estimate(rates, borrowed=own)) == pytest.approx(alone / 1.55, rel=1e-3)
    assert estimate(rates, borrowed=own).value == estimate(rates).value
    same = width(estimate(rates, borrowed=own))
    noisy = width(estimate(rates, borrowed=9 * own))
    assert noisy / same == pytest.approx(math.sqrt((2 + 9 * BORROWED_DEGREES) / 4), rel=1e-3)


def test_records_keep_what_they_borrowed_and_are_the_same_when_made_again() -> None:
    records = [record_of(name, its) for name, its in values_of(12).items()]
    once = borrowing(records)
    assert borrowing(once) == once
    lent = lent_variances({record.cell.adapter: record.values("rate") for record in records})
    for record in once:
        variance = record.borrowed_spreads["rate"] ** 2
        assert variance == pytest.approx(lent[record.cell.adapter])
        assert record.metrics["rate"] == estimate(record.values("rate"), borrowed=variance)
        assert Record.model_validate_json(record.model_dump_json()) == record


def test_the_order_of_records_does_not_matter() -> None:
    records = [record_of(name, its) for name, its in values_of(12).items()]
    assert borrowing(records[::-1]) == borrowing(records)[::-1]


def test_metrics_on_the_linear_scale_borrow_nothing() -> None:
    records = [record_of(name, its) for name, its in values_of(12).items()]
    for before, after in zip(records, borrowing(records), strict=True):
        assert after.metrics["share"] == before.metrics["share"]
        assert set(after.borrowed_spreads) == {"rate"}


def test_machines_lend_each_other_nothing() -> None:
    here = [record_of(name, its, hardware_key="a") for name, its in values_of(8).items()]
    there = [
        record_of(f"{name}-b", its, hardware_key="b") for name, its in values_of(8, seed=2).items()
    ]
    assert borrowing([*here, *there]) == [*borrowing(here), *borrowing(there)]


def test_disturbed_and_failed_records_neither_lend_nor_borrow() -> None:
    records = [record_of(name, its) for name, its in values_of(8).items()]
    wild = [1.0, 1000.0, 3.0, 500.0]
    apart = [
        record_of("disturbed", wild, disturbed=True),
        record_of("invalid", wild, status=Status.INVALID, metrics={}),
    ]
    assert borrowing([*records, *apart]) == [*borrowing(records), *apart]


def test_rounds_that_are_set_aside_lend_nothing() -> None:
    records = [record_of(name, its) for name, its in values_of(8).items()]
    use = MachineUse(cores=2, others_cores=1.0, stolen_cores=0.0, most_share=0.05)
    slow = round_at(9, 1.0, machine=use)
    disturbed = [record.model_copy(update={"rounds": (*record.rounds, slow)}) for record in records]
    figures = [record.metrics for record in borrowing(records)]
    assert [record.metrics for record in borrowing(disturbed)] == figures


def test_what_a_record_borrowed_in_another_run_is_given_back() -> None:
    records = [record_of(name, its) for name, its in values_of(12).items()]
    (alone,) = borrowing(borrowing(records)[:1])
    assert alone == records[0].model_copy(update={"warnings": alone.warnings})


@pytest.mark.parametrize("stop", [Stop.TIME, Stop.INTERVAL])
def test_the_warning_of_a_wide_interval_is_about_the_interval_that_is_shown(stop: Stop) -> None:
    quiet = [record_of(name, [1000.0, 1001.0, 1002.0]) for name in "abcdef"]
    noisy = record_of("noisy", [1000.0, 1300.0, 800.0], stopped_by=stop)
    *_, among = borrowing([*quiet, noisy])
    width = among.metrics["rate"].relative_half_width
    assert width is not None
    assert EFFORT.target_relative_interval < width < 0.35
    kinds = [warning.kind for warning in among.warnings]
    assert kinds == ([] if stop is Stop.INTERVAL else ["wide-interval"])


def drifting(cells: int, rounds: int, seed: int = 3) -> list[Record]:
    """Records whose rounds are each like the one before."""
    chance, records = Random(seed), []
    for number in range(cells):
        level, rates = 0.0, []
        for _ in range(rounds):
            level = 0.8 * level + chance.gauss(0, 0.05)
            rates.append(1000 * math.exp(level))
        records.append(record_of(f"cell{number}", rates))
    return records


def dependent(records: Sequence[Record]) -> list[str]:
    """Names of the cells with the warning."""
    return [
        record.cell.adapter
        for record in judged_together(records, [RATE], EFFORT, lambda _: RATE)
        if "dependent-rounds" in {warning.kind for warning in record.warnings}
    ]


def test_dependent_rounds_are_named_in_each_cell_that_has_enough_of_them() -> None:
    long, short = drifting(12, 12), record_of("short", [1000.0, 1010.0, 990.0])
    assert dependent([*long, short]) == [record.cell.adapter for record in long]


@pytest.mark.parametrize(
    "records",
    [
        drifting(12, LEAST_DEPENDENT - 1),
        [record_of(name, its) for name, its in values_of(24, rounds=12).items()],
        [record_of(name, [5.0] * 12) for name in "abcdef"],
        [],
    ],
    ids=["few rounds", "by chance", "equal", "none"],
)
def test_rounds_that_are_not_shown_to_depend_on_each_other_are_not_named(
    records: list[Record],
) -> None:
    assert dependent(records) == []


def test_the_warning_of_dependent_rounds_goes_with_its_reason() -> None:
    records = judged_together(drifting(12, 12), [RATE], EFFORT, lambda _: RATE)
    assert dependent(records[:1]) == []
    assert dependent(records) == [record.cell.adapter for record in records]
