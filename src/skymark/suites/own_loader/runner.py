"""The worker's side: a trial of a candidate, and what limits it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from skymark.machine.disk import usable_cores
from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.record import Cell, Record, Resources, RoundResult, Verification
from skymark.suite.contract import TimedRegion
from skymark.suites.own_loader.maker import OwnSpecification, split
from skymark.suites.own_loader.metrics import COST, RATE, UTILISATION
from skymark.suites.own_loader.trial import Counted, LoaderError, TrialOrder, trial
from skymark.watching.verdict import LoopVerdict, verdict_of

WATCHED_S = 8.0
"""Time for which the chosen candidate is watched."""


class OwnRunner:
    """The user's Python in a process of its own per round.

    Implements `skymark.suite.contract.Runner`.
    """

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        del cell, cache, platform

    def versions(self) -> dict[str, str]:
        """Return nothing: the user's own Python has the libraries."""
        return {}

    def prepare(self, cell: Cell) -> None:
        """Make nothing: the data is the user's."""

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Measure one round of a cell."""
        started_at, begin = datetime.now(UTC), time.monotonic()
        order = order_of(cell, effort.limits["seconds"], int(effort.limits["batches"]))
        with trial(OwnSpecification.of(cell).python, order) as running:
            warm = running.warm()
            setup_s = time.monotonic() - begin
            region.begins()
            begin = time.monotonic()
            running.count()
            counted = running.counted()
            wall_s = time.monotonic() - begin
            resources = region.ends()
        return RoundResult(
            round=round,
            started_at=started_at,
            setup_s=setup_s,
            timed_ns=counted.elapsed_ns,
            metrics=metrics_of(counted, resources, wall_s) | {"to_first_batch_s": warm.setup_s},
            resources=resources,
            samples={"wait_ns": counted.waits_ns},
            verification=Verification(passed=True, verified_elements=counted.samples),
            conditions={"batch": warm.form},
        )

    def close(self) -> None:
        """Free nothing: each trial has ended."""


def order_of(cell: Cell, seconds: float, batches: int) -> TrialOrder:
    """Return the order of a cell's trial."""
    specification = OwnSpecification.of(cell)
    step_s, parameters = split({**cell.settings, **cell.axes})
    size = parameters.get("batch_size", 1)
    return TrialOrder(
        file=specification.maker.file,
        function=specification.maker.function,
        arguments=TrialOrder.arguments_of(parameters),
        step_s=step_s,
        seconds=seconds,
        batches=batches,
        samples=size if isinstance(size, int) else 1,
    )


def metrics_of(counted: Counted, resources: Resources, wall_s: float) -> dict[str, float]:
    """Return the metrics of a round.

    Args:
        counted: what the loop got.
        resources: of the process tree, over `wall_s`, which begins and ends a moment apart.
        wall_s: seconds.
    """
    elapsed_s, batches = counted.elapsed_ns / 1e9, len(counted.waits_ns)
    found = {
        RATE: counted.samples / elapsed_s,
        UTILISATION: 1 - min(1.0, sum(counted.waits_ns) / counted.elapsed_ns),
        "median_wait_ns": statistics.median(counted.waits_ns),
        "p99_wait_ns": statistics.quantiles(counted.waits_ns, n=100, method="inclusive")[-1]
        if batches > 1
        else counted.waits_ns[0],
    }
    if resources.cpu_s is not None and counted.samples:
        found[COST] = 1000 * resources.cpu_s * (elapsed_s / wall_s) / counted.samples
    return found


def limits(record: Record, cache: Path) -> Sequence[str]:
    """Return sentences on what limits a candidate: it is watched once more.

    A loader that fails now costs no figure: one sentence says so.

    Args:
        record: its record.
        cache: not used.
    """
    del cache
    order = order_of(record.cell, WATCHED_S, 1)
    with tempfile.TemporaryDirectory(prefix="skymark-watch-") as facts:
        try:
            with trial(OwnSpecification.of(record.cell).python, order, Path(facts)) as running:
                running.warm()
                running.count()
                running.counted()
        except LoaderError as error:
            return (f"It failed under a watch ({error}), so what limits it is unknown.",)
        verdict = verdict_of(facts)
    lines = [] if verdict is None else verdict.lines()
    return (*lines, *_to_buy(record, usable_cores(), verdict))


FASTER = {
    "disk": "a faster disk",
    "slow-storage": "storage that answers sooner, such as a local disk",
    "network": "a faster network, or a machine nearer to the data",
    "shared-memory": "more memory",
}
"""What to buy against a cause that a watch names."""


def _to_buy(record: Record, cores: int, verdict: LoopVerdict | None) -> Sequence[str]:
    """Return a sentence on what would feed the step, where the machine is what limits it."""
    figures = {name: figure.value for name, figure in record.metrics.items()}
    busy, cost = figures.get(UTILISATION), figures.get(COST)
    if busy and cost:
        needed = cost * figures[RATE] / busy / 1000
        if needed > cores:
            said = (
                f"To feed this step the loader's work takes {needed:.2g} cores, and this machine "
                f"has {cores}: buy more cores, or make a sample cheaper."
            )
            return (said,)
    cause = "" if verdict is None else verdict.diagnosis.causes[0].cause
    return (f"To buy: {FASTER[cause]}.",) if cause in FASTER else ()
