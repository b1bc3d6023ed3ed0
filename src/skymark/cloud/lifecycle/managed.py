"""SkyPilot's managed jobs, alone or sharing a plan; a new machine continues after a preemption.

Results lie in a store that outlives the machine, cell by cell and round by round. The next machine
continues from the store, and the client downloads the results from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from skymark.cloud.cost.bill import Bill, bill_of_all, bill_of_time
from skymark.cloud.known_machines import RentedMachines, claim, keep_plan, note_rented, taken
from skymark.cloud.lifecycle.ending import LOOK_S, prove_job_gone
from skymark.cloud.lifecycle.queued_jobs import RequestInFlight
from skymark.cloud.lifecycle.quoting import check_price, note_machines, ordered_machines
from skymark.cloud.lifecycle.retrieving import from_machine, from_store
from skymark.cloud.lifecycle.stages import (
    Callbacks,
    Finished,
    Kept,
    Quoted,
    Rented,
    Retrieved,
    ended_where_not_rented,
)
from skymark.cloud.machine_script import STORE_WAIT_S, plan_file
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.jobs import (
    JobEnd,
    ManagedJob,
    await_managed_job,
    find_managed_job,
    request_managed_job,
)
from skymark.cloud.sky.tasks import early_timers, make_task, send_files, set_limits
from skymark.cloud.submissions import part_job_name
from skymark.cloud.waiting import clock_s
from skymark.model.errors import CloudError, StillBillingError, UsageError
from skymark.model.requests import Limits


class ManagedPlace:
    """One machine after another. Implements `skymark.cloud.lifecycle.stages.RunPlace`."""

    can_be_left: ClassVar[bool] = True
    outlived_by_results: ClassVar[bool] = True

    def __init__(self) -> None:
        self._request = RequestInFlight()
        self._job: ManagedJob | None = None
        self._asked_s = clock_s()
        self._machines: RentedMachines | None = None

    def claim(self, quoted: Quoted) -> None:
        """Reserve the job's name, which SkyPilot and local launches must not use yet."""
        if find_managed_job(quoted.name) is not None:
            raise taken(quoted.name)
        claim(quoted.run)

    def rent(self, quoted: Quoted, callbacks: Callbacks) -> Rented:
        """Start the job, and return once it has a machine."""
        self.submit(quoted, callbacks)
        with self.early_timers(quoted.run):
            return self.await_machine(quoted, callbacks)

    def submit(self, quoted: Quoted, callbacks: Callbacks) -> None:
        """Start the job, and return once SkyPilot has taken it.

        Raises:
            CloudError: it has not.
        """
        run = quoted.run
        self._asked_s = clock_s()
        callbacks.tell(f"renting {run.name} as a managed job")
        task = make_task(run)
        set_limits(task, quoted.limit_s, quoted.highest_hourly_price_usd)
        self._machines = ordered_machines(quoted)
        note_rented(self._machines)
        # SkyPilot reads the file again for each machine, from here where its server is here.
        send_files(task, {plan_file(run.run_id): keep_plan(run.name, quoted.plan)})
        with explained(f"{run.name} could not be started"):
            asked = self._request.make(lambda: request_managed_job(task, run.name, quoted.secrets))
            job = await_managed_job(asked, run.name, callbacks.log)
            self._request.granted()
        self._job = job

    def early_timers(self, run: RentedRun) -> AbstractContextManager[None]:
        """Arm the timer of the job's machine as soon as it answers, until left."""
        assert self._job is not None
        return early_timers(self._job.machine, run.idle_minutes, run.machine)

    def await_machine(self, quoted: Quoted, callbacks: Callbacks) -> Rented:
        """Return once a job that SkyPilot has taken has a machine, at the price agreed on.

        Raises:
            CloudError: it has none in time, or a dearer one.
        """
        run, job = quoted.run, self._job
        assert job is not None
        _await_machine(job, self._asked_s, run.machine.boot_timeout_s, callbacks.tell)
        job.remove_plain_files()
        self._machines = note_machines(quoted, job.machine)
        check_price(quoted, self._machines)
        callbacks.tell(
            f"{run.name} is up after {clock_s() - self._asked_s:.0f} s; after a preemption "
            f"a new machine continues from {run.lasting_store}"
        )
        return Rented(run, job, quoted.until_s())

    def stop(self, quoted: Quoted, rented: Rented | None, callbacks: Callbacks) -> Finished:
        """Leave it to `end`, which ends the job with its machine."""
        del callbacks
        return Finished(quoted.run, begun=rented is not None, interrupted=True)

    def take_back(self) -> None:
        """End a request for a job that was not granted."""
        self._request.take_back()

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results from the store that outlives the machines, or from its last machine."""
        if finished.end is JobEnd.UNSTORED and self._job is not None:
            return from_machine(finished, self._job.machine, results)
        address = finished.run.lasting_store
        assert address is not None
        return from_store(address, finished, results)

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the job to wait for its store, as long as it does."""
        price_usd = None if self._machines is None else self._machines.hourly_price_usd
        return Kept(retrieved, STORE_WAIT_S // 60, price_usd)

    def end(self, finished: Finished, callbacks: Callbacks) -> float:
        """End the job with its machine."""
        name = finished.run.name
        took_s = prove_job_gone(name, callbacks.tell, self._job).after_s
        with suppress(CloudError):  # the job is over, and the rest is for the eye and the bill
            self._job = self._job or find_managed_job(name)
            machines = 0 if self._job is None else len(self._job.machines())
            if machines > 1:
                callbacks.tell(f"{machines} machines worked one after another")
        return took_s

    def bill(self, run: RentedRun) -> Bill | None:
        """Return the cost of all machines that the job had; by the clock without SkyPilot."""
        del run
        if self._job is None:
            return None
        try:
            return bill_of_all(self._job.machines(), self._machines)
        except CloudError:
            return bill_of_time(clock_s() - self._asked_s, self._machines)


def part_runs(whole: Quoted, key: str, attempts: Mapping[int, int]) -> list[Quoted]:
    """Return the runs of several jobs, each with its share of the quoted cost.

    All share one run, plan and store, like machines of one cluster.

    Args:
        whole: the quote for all jobs.
        key: of the submission.
        attempts: by part of the plan, of `skymark.cloud.submissions.outstanding_parts`.
    """
    run, quote = whole.run, whole.quote
    assert quote is not None
    most_usd = run.limits.max_cost_usd
    limits = Limits(
        deadline_s=run.limits.deadline_s,
        max_cost_usd=None if most_usd is None else most_usd / len(attempts),
    )
    alone = [
        quote.duration.model_copy(update={"running": time, "each": ()})
        for time in quote.duration.each
    ]
    return [
        replace(
            whole,
            run=run.changed(
                name=part_job_name(run.run_id, key, part, run.parts, attempt),
                part=part,
                limits=limits,
            ),
            quote=quote.model_copy(update={"num_nodes": 1, "duration": duration}),
        )
        for (part, attempt), duration in zip(attempts.items(), alone, strict=True)
    ]


def submit_parts(parts: Sequence[Quoted], callbacks: Callbacks, going: list[Quoted]) -> list[str]:
    """Start managed jobs in order, and return when each has a machine or has failed to get one.

    After the first job that SkyPilot refuses, no further job is submitted; earlier jobs continue. A
    job without a machine in time, or with a dearer machine than agreed, is ended.

    Args:
        parts: of `part_runs`.
        callbacks: get the progress.
        going: gets the started jobs, even if this raises.

    Returns:
        Reasons why jobs were not started or were ended; empty if all are started.

    Raises:
        KeyboardInterrupt: the job being submitted is ended; earlier jobs continue.
    """
    problems: list[str] = []
    places: dict[str, ManagedPlace] = {}
    for quoted in parts:
        place = ManagedPlace()
        try:
            with ended_where_not_rented(quoted, place, callbacks):
                place.submit(quoted, callbacks)
        except (CloudError, UsageError) as error:
            problems.append(str(error))
            break
        places[quoted.name] = place
        going.append(quoted)
    with ExitStack() as timers:
        for quoted in going:
            timers.enter_context(places[quoted.name].early_timers(quoted.run))
        for quoted in tuple(going):
            place = places[quoted.name]
            try:
                place.await_machine(quoted, callbacks)
            except CloudError as error:
                problems += [str(error), *_ended(quoted, place, callbacks)]
                going.remove(quoted)
    return problems


def _ended(quoted: Quoted, place: ManagedPlace, callbacks: Callbacks) -> list[str]:
    """End a job; returns what is wrong where its machine is not proved gone."""
    try:
        place.end(Finished(quoted.run, begun=False), callbacks)
    except StillBillingError as error:
        return [str(error)]
    return []


def _await_machine(
    job: ManagedJob, asked_s: float, timeout_s: float, tell: Callable[[str], None]
) -> None:
    """Wait until the job runs or has ended; ask at least once.

    Args:
        job: the job.
        asked_s: moment of `clock_s` of its submission.
        timeout_s: longest time from then.
        tell: gets a message if SkyPilot does not answer.

    Raises:
        CloudError: it has no machine in time; SkyPilot itself would search for ever.
    """
    while True:
        try:
            if not job.waits_for_machine():
                return
        except CloudError as error:
            tell(f"SkyPilot does not answer ({error}); trying again")
        if clock_s() > asked_s + timeout_s:
            break
        time.sleep(LOOK_S)
    raise CloudError(
        f"{job.name} was not up after {timeout_s:g} s; give a longer --boot-timeout, or another "
        "--infra"
    )
