"""The time that a rented machine is paid for: from the moment it is asked for until it is gone.

Pure functions. The parts before and after the run count too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.order import IDLE_MINUTES
from skymark.execute.duration import run_time
from skymark.execute.partition.shard import Shard
from skymark.execute.partition.split import Balanced, Split
from skymark.model.base import Frozen
from skymark.model.plan import Plan, PlannedCell
from skymark.model.span import NOTHING, Span
from skymark.run.history import PastRun

PROVISIONING = Span(low_s=60, expected_s=180, high_s=600)
"""From the order until a job can start. A simulated machine took 58 s; the rest is assumed."""


ALONE = Balanced(workers=1)
"""The split of a plan that one machine has."""


class BilledTime(Frozen):
    """The time that a machine is paid for, part by part."""

    provisioning: Span = PROVISIONING
    set_up: Span
    running: Span
    """Of the node that takes longest: data and all rounds of its cells."""
    ending: Span
    cells: int
    """Cells to measure."""
    known_cells: int
    """Those whose time comes from earlier runs."""
    each: tuple[Span, ...] = ()
    """Running time of each machine, where each ends by itself; empty where all end together."""

    def on_machines(self, machines: int, deadline_s: float | None = None) -> Span:
        """Return the time that all machines together are paid for."""
        if not self.each:
            return self.whole(deadline_s).times(machines)
        alone = [self.model_copy(update={"running": one, "each": ()}) for one in self.each]
        return reduce(Span.plus, (one.whole(deadline_s) for one in alone))

    @property
    def work(self) -> Span:
        """Set-up and run, which a deadline limits."""
        return self.set_up.plus(self.running)

    def whole(self, deadline_s: float | None = None) -> Span:
        """Return the whole time; a deadline limits set-up and run together."""
        work = self.work if deadline_s is None else self.work.at_most(deadline_s)
        return self.provisioning.plus(work).plus(self.ending)

    def fits(self, deadline_s: float | None) -> bool:
        """Whether the expected set-up and run end before the deadline."""
        return deadline_s is None or self.work.expected_s <= deadline_s


def ending(idle_minutes: int, *, stays: bool = False) -> Span:
    """Return the time to bring results home and end the machine.

    At worst the run uses the time it has to write down what it measured, the client is gone, and
    the machine's idle timer ends it, which looks once a minute: 112 s with one idle minute,
    measured.

    Args:
        idle_minutes: without a job, after which the machine ends itself.
        stays: whether the idle timer is to end it, and no client before.
    """
    high_s = KILL_AFTER_S + (idle_minutes + 1) * 60
    if stays:
        return Span(low_s=idle_minutes * 60, expected_s=(idle_minutes + 1) * 60, high_s=high_s)
    return Span(low_s=15, expected_s=30, high_s=high_s)


def billed_time(
    plan: Plan,
    set_up: Span,
    history: Sequence[PastRun] = (),
    split: Split = ALONE,
    idle_minutes: int = IDLE_MINUTES,
    *,
    stays: bool = False,
    parts: Collection[int] | None = None,
) -> BilledTime:
    """Return the time that the machines of a plan are paid for.

    Args:
        plan: the cells.
        set_up: of each machine; see `skymark.cloud.cost.set_up_time`.
        history: earlier runs, on any machine.
        split: of the plan between the machines.
        idle_minutes: without a job, after which they end themselves.
        stays: whether nobody ends them before.
        parts: of the split, each on a machine that ends with its part; None for all of them, on
            machines that end together.
    """
    numbers = range(len(split.places)) if parts is None else parts
    shares = [run_time(plan, history, Shard(split=split, number=number)) for number in numbers]
    times = [share.whole for share in shares]
    return BilledTime(
        set_up=set_up,
        running=longest(times),
        ending=ending(idle_minutes, stays=stays),
        cells=sum(share.cells for share in shares),
        known_cells=sum(share.known_cells for share in shares),
        each=() if parts is None else tuple(times),
    )


def shared_time(plan: Plan, history: Sequence[PastRun], lanes: int) -> Span:
    """Return the time of workers that share a machine and take one group after another.

    Groups that take long come first, as workers take them. Workers on one GPU share its rate.

    Args:
        plan: the cells.
        history: earlier runs, on any machine.
        lanes: GPUs that have workers; 1 where there are none.
    """
    whole = run_time(plan, history)
    groups: dict[str, list[PlannedCell]] = {}
    for planned in plan.runnable:
        groups.setdefault(planned.group, []).append(planned)
    times = [
        run_time(plan.model_copy(update={"cells": tuple(cells)}), history).measuring
        for cells in groups.values()
    ]
    packed = [NOTHING] * lanes
    for time in sorted(times, key=lambda one: -one.expected_s):
        least = min(range(lanes), key=lambda number: packed[number].expected_s)
        packed[least] = packed[least].plus(time)
    preparing = whole.preparing.times(1 / lanes)
    at_worst = preparing.model_copy(update={"high_s": whole.preparing.high_s})  # all in one worker
    return longest(packed).plus(at_worst)


def longest(times: Sequence[Span]) -> Span:
    """Return the time until the last of several has ended."""
    return Span(
        low_s=max(time.low_s for time in times),
        expected_s=max(time.expected_s for time in times),
        high_s=max(time.high_s for time in times),
    )
