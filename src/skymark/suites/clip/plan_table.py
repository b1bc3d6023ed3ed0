"""The table of a plan: models with their pairs, memory, time and price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skymark.cli.caller import say
from skymark.execute.duration import LATEST, run_time
from skymark.execute.project_file import results_directory
from skymark.model.duration import Span
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, PlannedCell
from skymark.model.sizes import count_of
from skymark.report.text import MISSING, about, duration, size
from skymark.rundir.history import read_history
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cloud.cost.quote import Workers

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class ModelShare:
    """One model's part of a plan."""

    adapter: str
    cells: tuple[PlannedCell, ...]
    bytes: int | None
    """Largest memory of its cells on an accelerator."""
    time: Span


@dataclass(frozen=True)
class HourlyPrice:
    """The price of a machine."""

    usd: float
    machine: str | None = None
    """Name in the catalogue, with the provider; None for the user's own price."""
    workers: Workers | None = None
    """Workers that share its GPUs; None for one process on one GPU."""
    time: Span | None = None
    """Time of the whole plan with these workers."""

    def of(self, time_s: float) -> float:
        """Return the USD of a time on one GPU while all GPUs work."""
        gpus = 1 if self.workers is None else self.workers.working
        return time_s / SECONDS_PER_HOUR * self.usd / gpus


def price_of(
    plan: Plan, profile: str, hourly_price: float | None, infra: str | None
) -> HourlyPrice | None:
    """Return the user's price, or the cheapest machine's; None without both options.

    Raises:
        UsageError: the command line has both.
    """
    if hourly_price is not None and infra is not None:
        raise UsageError("--hourly-price and --infra both give the price; leave one out")
    if hourly_price is not None:
        return HourlyPrice(hourly_price)
    if infra is None:
        return None
    from skymark.cloud.cost.bill import shared_time
    from skymark.cloud.cost.quote import workers_of
    from skymark.cloud.lifecycle.quoting import cheapest_offer, slots_on
    from skymark.model.requests import Machine

    one = cheapest_offer(profile, Machine(infra=infra), say)
    place = one.cloud if one.region is None else f"{one.cloud} {one.region}"
    machine = f"{one.instance_type} of {place} ({one.price_from})"
    slots = slots_on(plan, one)
    if slots is None:
        return HourlyPrice(one.hourly_price_usd, machine, workers_of(plan, one))
    history = read_history(results_directory(), plan, latest=LATEST)
    time = shared_time(plan, history, slots.working)
    return HourlyPrice(one.hourly_price_usd, machine, workers_of(plan, one, *slots), time)


def shares_of(plan: Plan) -> list[ModelShare]:
    """Return the part of each model, in the plan's order."""
    history = read_history(results_directory(), plan, latest=LATEST)
    suite = suite_named(plan.suite)
    by_adapter: dict[str, list[PlannedCell]] = {}
    for one in plan.runnable:
        by_adapter.setdefault(one.cell.adapter, []).append(one)
    return [
        ModelShare(
            adapter=adapter,
            cells=tuple(cells),
            bytes=largest_need(suite, cells),
            time=run_time(plan, history, cells).measuring,
        )
        for adapter, cells in by_adapter.items()
    ]


def largest_need(suite: Suite, cells: Sequence[PlannedCell]) -> int | None:
    """Return the largest memory of a group on an accelerator; None if unknown."""
    groups = {one.group: one.cell for one in cells}
    needs = [suite.device_bytes(cell) for cell in groups.values()]
    return max((need for need in needs if need is not None), default=None)


def share_lines(shares: Sequence[ModelShare], price: HourlyPrice | None) -> list[str]:
    """Return a table with a line per model: pairs, memory, time, price."""
    head = ["model", "pairs", "data sets", "GPU memory", "time"]
    rows = [head if price is None else [*head, "USD"]]
    for one in shares:
        scenarios = {planned.cell.scenario for planned in one.cells}
        row = [
            one.adapter,
            str(len(one.cells)),
            str(len(scenarios)),
            MISSING if one.bytes is None else size(one.bytes),
            duration(one.time.expected_s),
        ]
        if price is not None:
            row.append(f"{price.of(one.time.expected_s):.2f}")
        rows.append(row)
    return aligned(rows)


def pair_lines(plan: Plan) -> list[str]:
    """Return a line per pair: model, data set and task, and the time of a round."""
    return aligned(
        [
            [
                one.cell.adapter,
                one.cell.label,
                MISSING if one.guess is None else duration(one.guess.expected_s),
                "" if one.refusal is None else f"{one.refusal[0].value}: {one.refusal[1].message}",
            ]
            for one in plan.cells
        ]
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns; a `rich.table.Table` of 10,000 rows is slow."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def whole_time(shares: Sequence[ModelShare]) -> Span:
    """Return the time of all models, one after another."""
    low, expected, high = (
        sum(getattr(one.time, name) for one in shares) for name in ("low_s", "expected_s", "high_s")
    )
    return Span(low_s=low, expected_s=expected, high_s=high)


def precision_of(plan: Plan) -> str:
    """Return the precision of a plan's cells."""
    return str(plan.cells[0].cell.specification["precision"])


def summary(plan: Plan, shares: Sequence[ModelShare], price: HourlyPrice | None) -> str:
    """Describe the whole plan in a few words."""
    groups = {one.group for one in plan.runnable}
    scenarios = {one.cell.scenario for one in plan.runnable}
    needs = [one.bytes for one in shares if one.bytes is not None]
    pairs = (
        f"{count_of(len(plan.runnable), 'pair')}: {count_of(len(shares), 'model')} × "
        f"{count_of(len(scenarios), 'data set')}, in {count_of(len(groups), 'group')}"
    )
    memory = [f"the largest needs {size(max(needs))} of GPU memory"] if needs else []
    whole = whole_time(shares)
    time = f"{about(whole)}, on one {plan.platform.upper()} in {precision_of(plan)}"
    parts = [pairs, *memory, time]
    if price is not None:
        machine = "" if price.machine is None else f" on {price.machine}"
        usd = price.of(whole.expected_s)
        if price.time is not None:
            usd = price.time.expected_s / SECONDS_PER_HOUR * price.usd
        parts.append(f"about {usd:.2f} USD at {price.usd:g} USD per hour{machine}")
        if price.workers is not None and price.workers.gpus > 1:
            took = "" if price.time is None else f", for {duration(price.time.expected_s)}"
            parts.append(f"{price.workers.in_words}{took}")
    return "; ".join(parts)


def as_json(
    plan: Plan, shares: Sequence[ModelShare], price: HourlyPrice | None, *, pairs: bool
) -> dict[str, object]:
    """Return a plan's listing for programs."""
    found: dict[str, object] = {
        "hourly_price_usd": None if price is None else price.usd,
        "pairs": len(plan.runnable),
        "groups": len({one.group for one in plan.runnable}),
        "notes": plan.sentences,
        "adapters": [
            {
                "adapter": one.adapter,
                "pairs": len(one.cells),
                "device_bytes": one.bytes,
                "time": one.time.model_dump(),
                "price_usd": None if price is None else price.of(one.time.expected_s),
            }
            for one in shares
        ],
    }
    if pairs:
        found["cells"] = [
            {
                "id": one.cell.id,
                "adapter": one.cell.adapter,
                "scenario": one.cell.scenario,
                "variant": one.cell.variant,
                "axes": one.cell.axes,
                "group": one.group,
                "guess": None if one.guess is None else one.guess.model_dump(),
            }
            for one in plan.cells
        ]
    return found
