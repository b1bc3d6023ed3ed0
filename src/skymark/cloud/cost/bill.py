"""The bill of a machine: its price per hour × the time from the order to its end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Literal

from skymark.cloud.known_machines import RentedMachines
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.rented_run import IDLE_MINUTES
from skymark.execute.accelerator import accelerator_venv
from skymark.execute.duration import run_time
from skymark.execute.partition.shard import Shard
from skymark.execute.partition.split import Split
from skymark.execute.venv_specs import MB, unpacked_bytes, venvs_of_plan
from skymark.model.base import Frozen
from skymark.model.duration import NOTHING, Span
from skymark.model.machine import usual_target
from skymark.model.plan import Plan, PlannedCell
from skymark.rundir.history import PastRun


class MachineCost(Frozen):
    """The cost of one life of a cluster, as SkyPilot's cost report has it."""

    launched_at_s: float
    """Seconds since 1970."""
    seconds: float
    price_usd: float | None
    """None where SkyPilot has no price; nobody lets a machine for nothing."""
    ended: bool


class Bill(Frozen):
    """The cost of a run's machines."""

    hourly_price_usd: float | None
    """Of all that were there together; None where it is not known."""
    seconds: float
    price_usd: float | None
    price_from: Literal["catalogue", "provider"] = "catalogue"
    absent_s: float = 0.0
    """Of all machines together that were lost before the end: nobody pays for them then."""

    def without(self, absent_s: float, nodes: int) -> Bill:
        """Return the bill less the time in which some of its machines were lost already.

        Args:
            absent_s: of all lost machines together.
            nodes: machines that the price per hour is for.
        """
        if self.price_usd is None or self.hourly_price_usd is None or absent_s <= 0:
            return self
        less_usd = absent_s / 3600 * self.hourly_price_usd / nodes
        changes = {"price_usd": max(0.0, self.price_usd - less_usd), "absent_s": absent_s}
        return self.model_copy(update=changes)

    @property
    def in_words(self) -> str:
        """The amount, and what it is made of."""
        if self.price_usd is None:
            return f"an amount that is not known: {self.seconds:.0f} s at no known price"
        whose = "the catalogue's" if self.price_from == "catalogue" else "the provider's own"
        absent = f", less {self.absent_s:.0f} s of lost machines" if self.absent_s else ""
        return (
            f"${self.price_usd:.4f}: {self.seconds:.0f} s at ${self.hourly_price_usd:.2f}/h, "
            f"{whose} price{absent}"
        )


def bill_of_last(costs: Sequence[MachineCost], machines: RentedMachines | None) -> Bill | None:
    """Return the bill of the last cluster that had a name; None if none had it."""
    lived = [cost for cost in costs if cost.seconds]
    return bill_of_all(sorted(lived, key=lambda cost: cost.launched_at_s)[-1:], machines)


def bill_of_all(costs: Sequence[MachineCost], machines: RentedMachines | None) -> Bill | None:
    """Return the bill of clusters that had a name one after another; None if none had it.

    Args:
        costs: of SkyPilot, at the price of its catalogue.
        machines: as they were rented; their price counts where the provider told it, and where
            SkyPilot has none.
    """
    seconds = sum(cost.seconds for cost in costs)
    if not seconds:
        return None
    prices_usd = [cost.price_usd for cost in costs if cost.price_usd is not None]
    told = machines is not None and machines.price_from == "provider"
    if told or len(prices_usd) < len(costs):
        return bill_of_time(seconds, machines)
    price_usd = sum(prices_usd)
    hourly_usd = round(price_usd / seconds * 3600, 6)
    return Bill(hourly_price_usd=hourly_usd, seconds=seconds, price_usd=price_usd)


def bill_of_time(seconds: float, machines: RentedMachines | None) -> Bill:
    """Return the bill of machines for a length of time."""
    hourly_usd = None if machines is None else machines.hourly_price_usd
    return Bill(
        hourly_price_usd=hourly_usd,
        seconds=seconds,
        price_usd=None if hourly_usd is None else seconds / 3600 * hourly_usd,
        price_from="catalogue" if machines is None else machines.price_from,
    )


PROVISIONING = Span(low_s=60, expected_s=180, high_s=600)
"""From the order until a job can start. A simulated machine took 58 s; the rest is assumed."""

SKYMARK_ITSELF = ("container.txt", "container-build.txt")
"""Pins that a machine's set-up installs for skymark."""

START = Span(low_s=5, expected_s=20, high_s=120)
"""uv, an interpreter and the files of skymark. Assumed."""

EACH_VENV = Span(low_s=2, expected_s=5, high_s=20)
"""To link and compile the files of one venv that are there already. Assumed."""

ASKED = Span(low_s=3, expected_s=10, high_s=60)
"""For `skymark doctor` to ask JAX and torch for the accelerator, both at once: 8 to 9 s each on a
machine with an H100, the first import from its disk included."""

RATES_MB_PER_S = (200, 50, 10)
"""Unpacked megabytes a second: at best, expected, at worst. Assumed; SkyPilot lists no machine on
Vast whose network has less than 12 MB/s, and packages travel compressed."""

ALONE = Split.alike("balanced", 1)
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


END_S = 10
"""For the provider to end a machine. Assumed."""


def ending(idle_minutes: int, *, stays: bool = False, runs: bool = True) -> Span:
    """Return the time to download results and end the machine.

    SkyPilot's idle timer looks once a minute, and counts from its last look at a running job: half
    a minute before the job's end on average (its ``skylet/events.py``, 0.14). Where no job ran, it
    counts from the end of the set-up, half a minute before its next look. At worst the run uses
    the time it has to write down what it measured, the client is gone, and the idle timer ends the
    machine: 112 s with one idle minute, measured.

    Args:
        idle_minutes: without a job, after which the machine ends itself.
        stays: whether the idle timer is to end it, and no client before.
        runs: whether a job runs before.
    """
    high_s = KILL_AFTER_S + (idle_minutes + 1) * 60
    if stays:
        low_s = (idle_minutes - runs) * 60
        return Span(low_s=low_s, expected_s=low_s + 30 + END_S, high_s=high_s)
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
        set_up: of each machine; see `set_up_time`.
        history: earlier runs, on any machine.
        split: of the plan between the machines.
        idle_minutes: without a job, after which they end themselves.
        stays: whether nobody ends them before.
        parts: of the split, each on a machine that ends with its part; None for all of them, on
            machines that end together.
    """
    numbers = range(len(split.places)) if parts is None else parts
    taken = (Shard(split=split, number=number).take(plan.cells) for number in numbers)
    shares = [run_time(plan, history, cells) for cells in taken]
    times = [share.whole for share in shares]
    return BilledTime(
        set_up=set_up,
        running=longest(times),
        ending=ending(idle_minutes, stays=stays),
        cells=sum(share.cells for share in shares),
        known_cells=sum(share.known_cells for share in shares),
        each=() if parts is None else tuple(times),
    )


EACH_JOB = Span(low_s=2, expected_s=7, high_s=20)
"""Until SkyPilot has taken a further job. On a simulated machine, jobs began 7.3 s apart."""


def shared_time(plan: Plan, history: Sequence[PastRun], lanes: int) -> Span:
    """Return the time of workers that share a machine and take one group after another.

    Groups that take long come first, as workers take them. Workers on one GPU share its rate. Those
    of another GPU are another job, and begin later.

    Args:
        plan: the cells.
        history: earlier runs, on any machine.
        lanes: GPUs that have workers; 1 where there are none.
    """
    whole = run_time(plan, history)
    groups: dict[str, list[PlannedCell]] = {}
    for planned in plan.runnable:
        groups.setdefault(planned.group, []).append(planned)
    times = [run_time(plan, history, cells).measuring for cells in groups.values()]
    packed = [EACH_JOB.times(number) for number in range(lanes)]
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


def set_up_time(plan: Plan) -> Span:
    """Return the time to install skymark and the venvs that a plan's cells need, and no others."""
    target = usual_target(plan.platform)
    specs = list(venvs_of_plan(plan, target).values())
    asked = NOTHING
    if target != "cpu":
        specs.append(accelerator_venv(target))
        asked = ASKED
    megabytes = unpacked_bytes(specs, also=SKYMARK_ITSELF) / MB
    low_s, expected_s, high_s = (megabytes / rate for rate in RATES_MB_PER_S)
    transfer = Span(low_s=low_s, expected_s=expected_s, high_s=high_s)
    return START.plus(EACH_VENV.times(len(specs))).plus(transfer).plus(asked)
