"""A run on a rented machine, from the question about its price to the proof that it is gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from skymark.cloud.bill import Bill, actual_bill
from skymark.cloud.ending import end, find
from skymark.cloud.errors import CloudError
from skymark.cloud.estimate import Estimate, check_ceiling, estimate
from skymark.cloud.history import read_history
from skymark.cloud.job import JobEnd, MachineJob, background, follow
from skymark.cloud.known_machines import forget_secrets, keep_secrets, remember
from skymark.cloud.machine_kinds import make_task, set_limits
from skymark.cloud.machine_script import KILL_AFTER_S, secrets_file
from skymark.cloud.order import Order, limit_s
from skymark.cloud.providers import enabled_clouds
from skymark.cloud.results import Brought, add_price, await_outcome, bring_home
from skymark.cloud.secret_variables import secrets_for
from skymark.cloud.skypilot import ask, explained, sdk
from skymark.model.errors import SkymarkError
from skymark.model.plan import Plan

STOPPED = {"130", "143"}
"""Exit statuses of what was told to end: skymark's own, and 128 + SIGTERM."""

GRACE_S = KILL_AFTER_S + 60
"""How much later than the machine the client ends a run whose time is up."""


class Choice(StrEnum):
    """What a user wants who pressed Ctrl-C."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True)
class Screen:
    """Who is told and asked while a machine works."""

    say: Callable[[str], None]
    log: TextIO
    """Gets the machine's output."""
    interrupted: Callable[[], Choice]
    """Asks whether to stop the machine or to leave it running."""


@dataclass(frozen=True)
class Offered:
    """An order with its price, agreed or not; nothing has been hired."""

    order: Order
    task: Any
    estimate: Estimate
    limit_s: int | None
    secrets: Mapping[str, str] = field(repr=False)
    """Values by variable; the run has them in its environment."""


@dataclass
class Ended:
    """How a launch ended."""

    order: Order
    job: JobEnd | None = None
    """None where the run was left going, or never began."""
    brought: Brought | None = None
    gone_after_s: float | None = None
    """Seconds from the verified results to the proof that the machine is gone."""
    bill: Bill | None = None
    left_running: bool = False
    interrupted: bool = False
    """Stopped by the user; what was measured until then is home."""
    hiring: Any = None
    """SkyPilot's request while a machine is being hired, or takes a job."""
    started: MachineJob | None = None
    """What runs on the machine."""
    problems: list[str] = field(default_factory=list)

    @property
    def all_well(self) -> bool:
        """Whether the run succeeded and its results are whole."""
        whole = self.brought is not None and self.brought.whole
        return self.job is JobEnd.SUCCEEDED and whole and not self.problems


def offer(order: Order, plan: Plan, results: Path, variables: Mapping[str, str]) -> Offered:
    """Check what an order needs and say what it costs; hires nothing.

    Args:
        order: what is wanted.
        plan: what runs there.
        results: directory of earlier runs, which tell how long cells take.
        variables: the caller's, for secrets.

    Raises:
        UsageError: no credentials, no such machine, a wrong YAML.
        GateError: it may cost more than the ceiling.
    """
    task = make_task(order)
    clouds = enabled_clouds(order.infra)
    priced = estimate(
        task,
        plan,
        history=read_history(results, plan),
        deadline_s=order.deadline_s,
        clouds=clouds,
        idle_minutes=order.idle_minutes,
    )
    highest_usd = None
    if order.max_cost_usd is not None:
        check_ceiling(priced, order.max_cost_usd)
        allowed_usd = priced.highest_hourly_price_usd(order.max_cost_usd)
        prices_usd = [one.hourly_price_usd for one in priced.candidates]
        most_usd = max(price for price in prices_usd if price <= max(allowed_usd, prices_usd[0]))
        highest_usd = most_usd or None  # your own cluster costs nothing; SkyPilot takes no 0
    around_s = priced.duration.provisioning.high_s + priced.duration.ending.high_s
    hourly_usd = None if highest_usd is None else highest_usd * order.num_nodes
    seconds = limit_s(order, hourly_usd, around_s)
    set_limits(task, seconds, highest_usd)
    return Offered(order, task, priced, seconds, secrets_for(order.options, variables))


def launch(offered: Offered, screen: Screen, results: Path) -> Ended:
    """Hire the machine, run, bring the results home, end the machine and prove it.

    Whatever happens after hiring, the machine is ended before this returns or raises, unless the
    user leaves it running or asked to keep it; and its idle timer is armed from the start.

    Args:
        offered: of `offer`, with its price agreed.
        screen: who is told and asked.
        results: directory of runs; this one gets a directory of its own there.

    Raises:
        StillBillingError: the machine does not end.
    """
    order = offered.order
    ended = Ended(order)
    try:
        try:
            _work(offered, screen, ended)
        except KeyboardInterrupt:
            if stop_or_leave(screen) is Choice.LEAVE:
                ended.left_running = True
                return ended
            ended.interrupted = True
            _stop(order, ended)
        except CloudError as error:
            ended.problems.append(str(error))
        if ended.hiring is not None:
            ask(lambda sky: sky.api_cancel(ended.hiring))
        collect(order, results, screen, ended)
    finally:
        if not ended.left_running:
            _finish(order, results, screen, ended)
    return ended


def _work(offered: Offered, screen: Screen, ended: Ended) -> None:
    """Hire the machine and follow the run to its end."""
    order = offered.order
    hired_s = time.time()
    job = hire(offered, screen, ended)
    until_s = None
    if offered.limit_s is not None:
        until_s = time.time() + offered.limit_s + GRACE_S
    screen.say(
        f"{order.cluster} is up after {time.time() - hired_s:.0f} s; it ends itself after "
        f"{order.idle_minutes} idle min, whatever happens here"
    )
    ended.started = job
    ended.job = follow(job, screen.log, screen.say, until_s)
    if ended.job is not JobEnd.SUCCEEDED:
        ended.problems.append(f"the run on {order.cluster} {ended.job.value}")


def _stop(order: Order, ended: Ended) -> None:
    """End the run, so that it measures nothing more once the results are on their way home."""
    if ended.started is None:
        return
    with noted(ended, "the run could not be stopped: "):
        ended.started.stop()
        await_outcome(order.cluster, order.num_nodes, order.run_id)


@contextmanager
def noted(ended: Ended, what: str = "") -> Iterator[None]:
    """Make an error of ours a problem of the run, and go on."""
    try:
        yield
    except SkymarkError as error:
        ended.problems.append(f"{what}{error}")


def begin(ended: Ended, call: Callable[[], Any]) -> None:
    """Make a request for a machine or a job, and note it, so that it can be taken back.

    Ctrl-C counts when that is done: of a request that is half made nobody knows whether it was
    heard. A second one counts at once.
    """
    came = False

    def note(signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    heeded = [one for one in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(one))]
    before = {one: signal.signal(one, note) for one in heeded}
    try:
        ended.hiring = call()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if came:
        raise KeyboardInterrupt


def hire(offered: Offered, screen: Screen, ended: Ended) -> MachineJob:
    """Hire the machine with its idle timer armed and start the job.

    Raises:
        CloudError: there is no capacity, or the machine did not come up.
    """
    sky, order = sdk(), offered.order
    screen.say(f"hiring {order.cluster}")
    remember(order)
    if offered.secrets:
        here = keep_secrets(order.cluster, offered.secrets)
        offered.task.update_file_mounts({f"~/{secrets_file(order.run_id)}": str(here)})
    with explained(f"{order.cluster} could not be hired"):
        begin(
            ended,
            lambda: sky.launch(
                offered.task,
                cluster_name=order.cluster,
                down=True,
                idle_minutes_to_autostop=order.idle_minutes,
            ),
        )
        try:
            job, _ = background(
                lambda: sky.stream_and_get(ended.hiring, output_stream=screen.log),
                order.boot_timeout_s,
            )
        except TimeoutError as error:
            raise CloudError(
                f"{order.cluster} was not up after {order.boot_timeout_s} s; "
                "give a longer --boot-timeout, or another --infra"
            ) from error
        ended.hiring = None
    forget_secrets(order.cluster)
    return MachineJob(order.cluster, int(job))


def stop_or_leave(screen: Screen) -> Choice:
    """Ask once what is to become of the machine; a second Ctrl-C stops it."""
    try:
        return screen.interrupted()
    except (KeyboardInterrupt, EOFError):
        return Choice.STOP


def collect(order: Order, results: Path, screen: Screen, ended: Ended) -> None:
    """Bring home what there is, and verify it; what is wrong becomes a problem, not an error."""
    if find(order.cluster, refresh=False) is None:
        if ended.started is not None:
            ended.problems.append(
                "the machine was gone before its results came home, and they with it, unless "
                "they are in a store; give --store, or a longer --idle-minutes"
            )
        return
    try:
        brought = bring_home(order.cluster, order.num_nodes, order.run_id, results / order.run_id)
    except SkymarkError as error:
        ended.problems.append(f"the results could not be brought home: {error}")
        return
    ended.brought = brought
    if brought is None:
        ended.problems.append("the machine has no results: nothing was run")
        return
    ended.problems += explain(brought)
    if brought.whole and brought.records:
        screen.say(
            f"results verified in {brought.directory}: {sum(brought.records.values())} records"
        )


def explain(brought: Brought) -> list[str]:
    """Say what of a run is not as it should be."""
    problems = []
    for node, phase in enumerate(brought.phases):
        name, _, status = phase.partition(" ")
        if status in {"124", "137"}:
            problems.append(f"node {node}: the time was up during the {name}, and it was ended")
        elif status in STOPPED:
            problems.append(f"node {node}: the {name} was stopped")
        elif status not in {"0", ""}:
            problems.append(f"node {node}: the {name} ended with status {status}")
    if not problems and not brought.records:
        problems.append("the run ended without a single record")
    elif brought.missing:
        problems.append(
            f"{len(brought.missing)} planned cells have no record, such as {brought.missing[0]}"
        )
    if brought.differing:
        problems.append(f"files differ from their digests: {', '.join(brought.differing[:5])}")
    return problems


def _finish(order: Order, results: Path, screen: Screen, ended: Ended) -> None:
    """End the machine, unless it is to be kept; then say what it cost."""
    record = find(order.cluster, refresh=False)
    wanted = order.keep and ended.job is not None and not ended.interrupted
    if wanted and record is not None:
        return
    began_s = time.monotonic()
    end(order.cluster, screen.say, record)
    ended.gone_after_s = time.monotonic() - began_s
    ended.bill = actual_bill(order.cluster)
    if ended.bill is not None and ended.brought is not None and ended.brought.records:
        add_price(results / order.run_id, ended.bill.hourly_price_usd, ended.bill.price_usd)
