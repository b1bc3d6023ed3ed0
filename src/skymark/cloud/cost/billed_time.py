"""The time that a rented machine is paid for: from the moment it is asked for until it is gone.

Pure functions. The parts before and after the run count too.
"""

from __future__ import annotations

from collections.abc import Sequence

from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.order import IDLE_MINUTES
from skymark.execute.duration import run_time
from skymark.execute.partition.shard import Shard
from skymark.execute.partition.split import Balanced, Split
from skymark.model.base import Frozen
from skymark.model.plan import Plan
from skymark.model.span import Span
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


def ending(idle_minutes: int) -> Span:
    """Return the time to bring results home and end the machine.

    At worst the run uses the time it has to write down what it measured, the client is gone, and
    the machine's idle timer ends it, which looks once a minute: 112 s with one idle minute,
    measured.
    """
    return Span(low_s=15, expected_s=30, high_s=KILL_AFTER_S + (idle_minutes + 1) * 60)


def billed_time(
    plan: Plan,
    set_up: Span,
    history: Sequence[PastRun] = (),
    split: Split = ALONE,
    idle_minutes: int = IDLE_MINUTES,
) -> BilledTime:
    """Return the time that the machines of a plan are paid for.

    Args:
        plan: the cells.
        set_up: of each machine; see `skymark.cloud.cost.set_up_time`.
        history: earlier runs, on any machine.
        split: of the plan between the machines.
        idle_minutes: without a job, after which they end themselves.
    """
    shards = (Shard(split=split, number=number) for number in range(len(split.places)))
    shares = [run_time(plan, history, shard) for shard in shards]
    times = [share.whole for share in shares]
    return BilledTime(
        set_up=set_up,
        running=Span(
            low_s=max(time.low_s for time in times),
            expected_s=max(time.expected_s for time in times),
            high_s=max(time.high_s for time in times),
        ),
        ending=ending(idle_minutes),
        cells=sum(share.cells for share in shares),
        known_cells=sum(share.known_cells for share in shares),
    )
