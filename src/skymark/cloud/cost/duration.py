"""How long a plan takes on a rented machine: from earlier runs of the same cells, else its bounds.

Pure functions. A machine is paid for from the moment it is asked for until it is gone, so the parts
before and after the measuring count too.
"""

from __future__ import annotations

from collections.abc import Sequence

from skymark.cloud.cost.history import PastRun
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.order import IDLE_MINUTES
from skymark.execute.partition import Shard
from skymark.model.base import Frozen
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.plan import Plan

SAME_PROFILE_FACTOR = 1.5
"""How much faster or slower a machine may be than another of the same profile. Assumed."""

OTHER_PROFILE_FACTOR = 3.0
"""The same for a machine of another profile. Assumed."""

EXPECTED_START_S = 4.0
"""To end one worker process and start the next, its library imported. Assumed: NumPy takes 1 s,
Grain 1.5 s and frameworks several (`skymark run`, two cores)."""

HIGH_START_S = 30.0
"""The same on a slow or loaded machine. Assumed."""

VERIFYING_S_PER_ELEMENT = 0.001
"""To compare one delivered element with the reference. 256 elements take 0.1 to 0.5 s
(`skymark run --effort quick`, two cores)."""


class Span(Frozen):
    """A time in seconds: at best, expected, and at worst."""

    low_s: float
    expected_s: float
    high_s: float

    def plus(self, other: Span) -> Span:
        """Return the time of both, one after the other."""
        return Span(
            low_s=self.low_s + other.low_s,
            expected_s=self.expected_s + other.expected_s,
            high_s=self.high_s + other.high_s,
        )

    def times(self, count: int) -> Span:
        """Return the time of so many, one after the other."""
        return Span(
            low_s=self.low_s * count,
            expected_s=self.expected_s * count,
            high_s=self.high_s * count,
        )

    def at_most(self, limit_s: float) -> Span:
        """Return the time if it is cut off at a limit."""
        return Span(
            low_s=min(self.low_s, limit_s),
            expected_s=min(self.expected_s, limit_s),
            high_s=min(self.high_s, limit_s),
        )


NOTHING = Span(low_s=0, expected_s=0, high_s=0)

PROVISIONING = Span(low_s=60, expected_s=180, high_s=600)
"""From the order until a job can start. A simulated machine took 58 s; the rest is assumed."""

SET_UP = Span(low_s=70 + 30, expected_s=280 + 60, high_s=1400 + 300)
"""To install skymark and every adapter's environment: 14 GB (docs/environments.md) at 200, 50 and
10 MB/s, and unpacking. The rates are assumed; SkyPilot lists no machine on Vast below 12 MB/s."""

DATA_PER_SCENARIO = Span(low_s=1, expected_s=15, high_s=75)
"""To generate the data of one scenario and size. At size medium they took 0.1 to 75 s each, 180 s
for thirteen (`skymark run --profile cpu --adapters numpy`, two cores)."""

DATA_PER_ADAPTER = Span(low_s=0.1, expected_s=2, high_s=15)
"""To convert that data for one adapter: 0.1 to 4 s in the same run; the high figure is assumed."""


class Duration(Frozen):
    """How long a machine is paid for, part by part."""

    provisioning: Span = PROVISIONING
    set_up: Span = SET_UP
    running: Span
    """Of the node that takes longest: data and all rounds of its cells."""
    ending: Span
    cells: int
    """Cells to measure."""
    known_cells: int
    """Those whose time comes from earlier runs."""

    def billed(self, deadline_s: float | None = None) -> Span:
        """Return the whole time; a deadline limits set-up and run together."""
        work = self.set_up.plus(self.running)
        if deadline_s is not None:
            work = work.at_most(deadline_s)
        return self.provisioning.plus(work).plus(self.ending)

    def fits(self, deadline_s: float | None) -> bool:
        """Whether the expected set-up and run end before the deadline."""
        expected_s = self.set_up.plus(self.running).expected_s
        return deadline_s is None or expected_s <= deadline_s


def ending(idle_minutes: int) -> Span:
    """Return the time to bring results home and end the machine.

    At worst the run uses the time it has to write down what it measured, the client is gone, and
    the machine's idle timer ends it, which looks once a minute: 112 s with one idle minute,
    measured.
    """
    return Span(low_s=15, expected_s=30, high_s=KILL_AFTER_S + (idle_minutes + 1) * 60)


def duration_of(
    plan: Plan,
    history: Sequence[PastRun] = (),
    num_nodes: int = 1,
    idle_minutes: int = IDLE_MINUTES,
) -> Duration:
    """Return how long a plan takes.

    Args:
        plan: what is to be run.
        history: earlier runs, on any machine; those of the plan's profile and effort count first.
        num_nodes: machines that share the plan, as ``--shard`` shares it.
        idle_minutes: without a job, after which they end themselves.
    """
    ranked = sorted(history, key=lambda past: _fitness(past, plan), reverse=True)
    shares = [
        _running(Shard(index=index, count=num_nodes).take(plan.runnable), plan, ranked)
        for index in range(num_nodes)
    ]
    return Duration(
        running=Span(
            low_s=max(share.low_s for share in shares),
            expected_s=max(share.expected_s for share in shares),
            high_s=max(share.high_s for share in shares),
        ),
        ending=ending(idle_minutes),
        cells=len(plan.runnable),
        known_cells=sum(_known(cell, ranked) is not None for cell in plan.runnable),
    )


def _fitness(past: PastRun, plan: Plan) -> tuple[bool, bool, float]:
    """Return how well an earlier run tells the time of a plan; more is better."""
    same_effort = past.effort.min_seconds == plan.effort.min_seconds
    return past.profile == plan.profile, same_effort, past.created_at.timestamp()


def _known(cell: Cell, ranked: Sequence[PastRun]) -> PastRun | None:
    return next((past for past in ranked if cell.hash in past.cells), None)


def _running(cells: Sequence[Cell], plan: Plan, ranked: Sequence[PastRun]) -> Span:
    total = NOTHING
    for cell in cells:
        past = _known(cell, ranked)
        if past is None:
            total = total.plus(_planned(cell, plan.effort))
        else:
            total = total.plus(_remembered(cell, past, plan))
    for adapter in dict.fromkeys(cell.adapter for cell in cells):
        total = total.plus(_starts(adapter, plan, ranked))
    sizes = {(cell.scenario, cell.variant) for cell in cells}
    conversions = {(cell.scenario, cell.variant, cell.adapter) for cell in cells}
    for part, times in ((DATA_PER_SCENARIO, len(sizes)), (DATA_PER_ADAPTER, len(conversions))):
        total = total.plus(part.times(times))
    return total


def _remembered(cell: Cell, past: PastRun, plan: Plan) -> Span:
    """Return a cell's time from an earlier run of it.

    A round that is to be longer than it was is counted longer; one that may be shorter is not
    counted shorter, because one epoch is the least that is measured.
    """
    effort, seen = plan.effort, past.cells[cell.hash]
    round_s = seen.round_s + max(0.0, effort.min_seconds - seen.timed_s)
    rounds = min(max(seen.rounds, effort.min_rounds), effort.max_rounds)
    factor = SAME_PROFILE_FACTOR if past.profile == plan.profile else OTHER_PROFILE_FACTOR
    return Span(
        low_s=effort.min_rounds * round_s / factor,
        expected_s=rounds * round_s,
        high_s=effort.max_rounds * min(round_s * factor, effort.cell_timeout_s),
    )


def _planned(cell: Cell, effort: Effort) -> Span:
    """Return a cell's time from the plan alone: nothing but its time limit bounds a round."""
    verifying_s = _verified(cell, effort) * VERIFYING_S_PER_ELEMENT
    warm_up_and_timed_s = 2 * effort.min_seconds
    rounds = (effort.min_rounds + effort.max_rounds) / 2
    return Span(
        low_s=effort.min_rounds * effort.min_seconds,
        expected_s=rounds * min(warm_up_and_timed_s + verifying_s, effort.cell_timeout_s),
        high_s=effort.max_rounds * effort.cell_timeout_s,
    )


def _verified(cell: Cell, effort: Effort) -> int:
    size = cell.specification.get("size")
    elements = size.get("elements") if isinstance(size, dict) else None
    return min(effort.verified_elements, elements or effort.verified_elements)


def _starts(adapter: str, plan: Plan, ranked: Sequence[PastRun]) -> Span:
    """Return the time to start an adapter's process, once a round."""
    effort = plan.effort
    rounds = (effort.min_rounds + effort.max_rounds) / 2
    for past in ranked:
        if (seen_s := past.start_s.get(adapter)) is not None:
            factor = SAME_PROFILE_FACTOR if past.profile == plan.profile else OTHER_PROFILE_FACTOR
            return Span(
                low_s=effort.min_rounds * seen_s / factor,
                expected_s=min(max(past.rounds, effort.min_rounds), rounds) * seen_s,
                high_s=effort.max_rounds * seen_s * factor,
            )
    return Span(
        low_s=0,
        expected_s=rounds * EXPECTED_START_S,
        high_s=effort.max_rounds * HIGH_START_S,
    )
