"""A run as SkyPilot's managed job: where its machine is taken away, another one goes on.

What was measured lies in a store that outlives the machine, cell by cell and round by round. There
the next machine finds it, and from there the results come home.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from skymark.cloud.bill import bill_of_all
from skymark.cloud.ending import GONE_TIMEOUT_S, Say
from skymark.cloud.errors import CloudError, StillBillingError
from skymark.cloud.job import BY_STATUS, JobEnd, background, follow
from skymark.cloud.launch import (
    GRACE_S,
    Choice,
    Ended,
    Offered,
    Screen,
    begin,
    explain,
    stop_or_leave,
)
from skymark.cloud.order import Order
from skymark.cloud.results import add_price, bring_from_store
from skymark.cloud.skypilot import ask, explained, sdk
from skymark.model.errors import SkymarkError, UsageError
from skymark.store.kinds import open_store

FIELDS = (
    "job_id",
    "job_name",
    "status",
    "submitted_at",
    "cluster_resources",
    "failure_reason",
)
"""What is asked of SkyPilot about a job."""

WAITING = ("PENDING", "SUBMITTED", "STARTING")
"""SkyPilot's words for a job that has no machine yet."""

LOOK_S = 15.0
"""Between two looks at a job: as often as SkyPilot itself looks, and each costs seconds of CPU."""

PLAIN_FILES = Path("~/.sky/managed_jobs")
"""Where SkyPilot's API server writes each managed job, its secrets included."""


@dataclass(frozen=True)
class ManagedJob:
    """A job that SkyPilot keeps going on one machine after another.

    Implements `skymark.cloud.job.Job`.
    """

    name: str
    number: int

    @property
    def machine(self) -> str:
        """The name that each of its machines has with SkyPilot."""
        names = importlib.import_module("sky.jobs.utils")
        return str(names.generate_managed_job_cluster_name(self.name, self.number))

    def record(self) -> Any:
        """Return what SkyPilot knows of it.

        Raises:
            CloudError: it knows nothing.
        """
        found = [one for one in records() if one.job_id == self.number]
        if not found:
            raise CloudError(f"SkyPilot knows no managed job {self.number} ({self.name})")
        return found[0]

    def show(self, log: TextIO) -> int | None:
        """Write the output of its machines until it ends."""
        jobs = sdk().jobs
        code: int | None = jobs.tail_logs(job_id=self.number, follow=True, output_stream=log)
        return code

    def ended(self) -> JobEnd | None:
        """Return how it ended; None while it goes on."""
        status = self.record().status
        if not status.is_terminal():
            return None
        return BY_STATUS.get(status.value, JobEnd.FAILED)

    def is_lost(self) -> bool:
        """Never: SkyPilot hires the next machine."""
        return False

    def stop(self) -> None:
        """End it, and its machine."""
        ask(lambda sky: sky.jobs.cancel(job_ids=[self.number]))

    def machines(self) -> list[Any]:
        """Return SkyPilot's cost reports of the machines that it had; one at most has a status."""
        reported = ask(lambda sky: sky.cost_report())
        return [one for one in reported if one["name"] == self.machine]


def records(*, going_on: bool = False) -> list[Any]:
    """Return what SkyPilot knows of every managed job, or of those that have not ended."""
    try:
        found, *_ = ask(
            lambda sky: sky.jobs.queue_v2(refresh=False, skip_finished=going_on, fields=FIELDS)
        )
    except UsageError:  # there is no controller: nobody ever began one
        return []
    return list(found)


def find_job(name: str) -> ManagedJob | None:
    """Return the managed job of a name, or None."""
    numbers = [one.job_id for one in records() if one.job_name == name]
    return ManagedJob(name, max(numbers)) if numbers else None


def lasting_store(stores: Sequence[str]) -> str:
    """Return the first store that outlives a machine.

    Raises:
        UsageError: there is none.
    """
    for store in stores:
        if store.startswith("s3://"):
            return store.rstrip("/")
    raise UsageError(
        "--managed needs a store that outlives the machine, where the next one finds what was "
        "measured; add --store s3://BUCKET/PREFIX"
    )


def check(order: Order) -> None:
    """Check what a managed job needs beyond an ordinary launch; hires nothing.

    Raises:
        UsageError: it does not go with the other options, or SkyPilot is not set up for it.
        StoreError: the store cannot be written from here.
    """
    if order.keep:
        raise UsageError("--managed ends its machine with the job; leave out --keep")
    if order.num_nodes > 1:
        raise UsageError("--managed runs on one machine at a time; leave out --num-nodes")
    assert order.lasting_store is not None
    with closing(open_store(order.lasting_store, order.run_id)) as store:
        store.check()


def check_controller() -> None:
    """Refuse where the controller of managed jobs would be a machine to pay for.

    Raises:
        UsageError: SkyPilot's API server here does not run controllers itself.
    """
    server = importlib.import_module("sky.server.common")
    controllers = importlib.import_module("sky.utils.controller_utils")
    if server.is_api_server_local() and not controllers.is_jobs_consolidation_mode():
        raise UsageError(
            "SkyPilot would rent another machine to watch over managed jobs; put "
            "'jobs: {controller: {consolidation_mode: true}}' into ~/.sky/config.yaml, then run "
            "sky api stop; sky api start"
        )


def launch_managed(offered: Offered, screen: Screen, results: Path) -> Ended:
    """Run as a managed job, prove that its machine is gone, and bring the results home.

    Whatever happens, the job is ended before this returns or raises, unless the user leaves it
    going.

    Args:
        offered: of `skymark.cloud.launch.offer`, with its price agreed.
        screen: who is told and asked.
        results: directory of runs; this one gets a directory of its own there.

    Raises:
        StillBillingError: the machine does not end.
    """
    ended = Ended(offered.order)
    try:
        _work(offered, screen, ended)
    except KeyboardInterrupt:
        if stop_or_leave(screen) is Choice.LEAVE:
            ended.left_running = True
            return ended
        ended.interrupted = True
    except CloudError as error:
        ended.problems.append(str(error))
    finally:
        if not ended.left_running:
            _finish(offered.order, results, screen, ended)
    return ended


def end_job(job: ManagedJob, say: Say, timeout_s: float = GONE_TIMEOUT_S) -> float:
    """End a managed job; returns when the provider has no machine of it, with the seconds it took.

    SkyPilot asks the provider for the machine after it has ended it, and forgets it only then.

    Raises:
        StillBillingError: the machine is still there; the message says how to end it.
    """
    began = time.monotonic()
    problem = "it did not end in time"
    while time.monotonic() - began < timeout_s:
        try:
            if _is_gone(job):
                took_s = time.monotonic() - began
                say(f"{job.name} is gone: the provider has no machine of it left ({took_s:.0f} s)")
                return took_s
        except CloudError as error:
            problem = str(error)
            say(f"{job.name} did not end ({problem}); trying again")
        time.sleep(LOOK_S)
    raise StillBillingError(
        f"{job.name} IS STILL THERE AND COSTS MONEY. {problem}. Try `skymark down {job.name}` "
        f"again, then `sky down {job.machine}`, or end it on the provider's own page"
    )


def _is_gone(job: ManagedJob) -> bool:
    """Whether a job has ended and has no machine; tells it to end where nobody has."""
    status = job.record().status
    if status.is_terminal():
        return all(one["status"] is None for one in job.machines())
    if status.value != "CANCELLING":
        job.stop()
    return False


def _work(offered: Offered, screen: Screen, ended: Ended) -> None:
    """Start the job and follow it to its end."""
    order = offered.order
    asked_s = time.time()
    job = _start(offered, screen, ended)
    _await_machine(job, order.boot_timeout_s, screen.say)
    _remove_plain_files(job)
    until_s = None if offered.limit_s is None else time.time() + offered.limit_s + GRACE_S
    screen.say(
        f"{order.cluster} is up after {time.time() - asked_s:.0f} s; if its machine is taken "
        f"away, another one goes on from {order.lasting_store}"
    )
    ended.job = follow(job, screen.log, screen.say, until_s)
    if (machines := len(job.machines())) > 1:
        screen.say(f"{machines} machines worked one after another")
    record = job.record()
    if ended.job is not JobEnd.SUCCEEDED:
        why = f": {record.failure_reason}" if record.failure_reason else ""
        ended.problems.append(f"the run on {order.cluster} {ended.job.value}{why}")


def _start(offered: Offered, screen: Screen, ended: Ended) -> ManagedJob:
    sky, name = sdk(), offered.order.cluster
    screen.say(f"hiring {name} as a managed job")
    offered.task.update_secrets(dict(offered.secrets))
    with explained(f"{name} could not be started"):
        begin(ended, lambda: sky.jobs.launch(offered.task, name=name))
        numbers, _ = background(lambda: sky.stream_and_get(ended.hiring, output_stream=screen.log))
        ended.hiring = None
    return ManagedJob(name, numbers[0])


def _await_machine(job: ManagedJob, timeout_s: float, say: Say) -> None:
    """Return when the job runs or has ended.

    Raises:
        CloudError: it has no machine in time; SkyPilot itself would look for one for ever.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if job.record().status.value not in WAITING:
                return
        except CloudError as error:
            say(f"SkyPilot does not answer ({error}); trying again")
        time.sleep(LOOK_S)
    raise CloudError(
        f"{job.name} was not up after {timeout_s:g} s; give a longer --boot-timeout, or another "
        "--infra"
    )


def _remove_plain_files(job: ManagedJob) -> None:
    """Remove the files with the job's secrets, where the API server is this machine's.

    SkyPilot has them in its database too, and reads them there for the next machine; but its own
    configuration, which has no secret of ours, it reads from the file.
    """
    if importlib.import_module("sky.server.common").is_api_server_local():
        for path in PLAIN_FILES.expanduser().glob(f"{job.name}-*"):
            if path.suffix != ".config_yaml":
                path.unlink(missing_ok=True)


def _finish(order: Order, results: Path, screen: Screen, ended: Ended) -> None:
    """End the job, bring home what the store has, and say what it cost."""
    try:
        if ended.hiring is not None:
            ask(lambda sky: sky.api_cancel(ended.hiring))
        job = find_job(order.cluster)
        ended.gone_after_s = 0.0 if job is None else end_job(job, screen.say)
    finally:
        _collect(order, results / order.run_id, screen, ended)
    if job is None:
        return
    ended.bill = bill_of_all(job.machine)
    if ended.bill is not None and ended.brought is not None and ended.brought.records:
        add_price(results / order.run_id, ended.bill.hourly_price_usd, ended.bill.price_usd)


def _collect(order: Order, directory: Path, screen: Screen, ended: Ended) -> None:
    """Bring home what the store has; what is wrong becomes a problem, not an error."""
    assert order.lasting_store is not None
    try:
        brought = bring_from_store(order.lasting_store, order.run_id, directory)
    except SkymarkError as error:
        ended.problems.append(
            f"the results could not be brought home: {error}; later: skymark fetch "
            f"{order.lasting_store}/{order.run_id} {directory}"
        )
        return
    ended.brought = brought
    if brought is None:
        ended.problems.append(f"{order.lasting_store} has no results: nothing was run")
        return
    ended.problems += explain(brought)
    if brought.whole:
        screen.say(f"results verified in {directory}: {sum(brought.records.values())} records")
