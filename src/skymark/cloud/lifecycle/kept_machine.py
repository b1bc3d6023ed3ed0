"""A machine that is there already: its order, and runs queued on it and carried out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import recall, turn_of
from skymark.cloud.lifecycle.carrying_out import GRACE_S, carry_out, wind_up
from skymark.cloud.lifecycle.following import RequestInFlight, Screen
from skymark.cloud.lifecycle.gone import keep_cluster
from skymark.cloud.lifecycle.outcomes import JobWithOutcome, await_outcome
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.stages import Ended, Finished, Hired, Kept, Left, Quoted, Retrieved
from skymark.cloud.lifecycle.user_jobs import handle_of
from skymark.cloud.machine_script import LATEST, RESULTS, plan_file, secrets_file
from skymark.cloud.order import Order
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import find_cluster, image_of, profile_of
from skymark.cloud.sky.jobs import (
    JobEnd,
    MachineJob,
    QueuedJob,
    await_job,
    cancel_jobs,
    queued_jobs,
    request_job,
    send_source,
)
from skymark.cloud.sky.ssh import output_of, send
from skymark.cloud.sky.tasks import make_run_task, set_limits, source_of
from skymark.cloud.source import job_name
from skymark.cloud.stores import write_secrets
from skymark.cloud.waiting import clock_s
from skymark.execute.planner import write_plan
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.record import FILE_NAME


def execute(runs: Sequence[Quoted], screen: Screen, results: Path) -> list[Ended | Kept]:
    """Carry out more runs on a live machine, without set-up; the machine stays.

    Args:
        runs: all on the same machine.
        screen: Ctrl-C takes back what has not ended, and brings home what it measured.
        results: directory of runs; each of these gets a directory of its own there.

    Returns:
        The end of each, in the order given.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the jobs; none of them is left in its queue.
    """
    place = _place_of(runs[0].order.cluster)
    ended: list[Ended | Kept] = []
    try:
        place.queue(runs, screen)
        for quoted in runs:
            one = carry_out(quoted, place, screen, results)
            assert not isinstance(one, Left), "a run on a kept machine is never left"
            ended.append(one)
            if one.interrupted:
                break
    except KeyboardInterrupt:  # on the way to the queue, or on the way home
        pass
    left = [place.stop(quoted, None, screen) for quoted in runs[len(ended) :]]
    return [*ended, *(wind_up(finished, place, screen, results) for finished in left)]


def queue(runs: Sequence[Quoted], screen: Screen) -> None:
    """Put runs into the queue of a live machine and leave them to it; results stay there.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the jobs; none of them is left in its queue.
    """
    place = _place_of(runs[0].order.cluster)
    try:
        place.queue(runs, screen)
    except KeyboardInterrupt:
        place.stop(runs[0], None, screen)
        raise


def _place_of(cluster: str) -> KeptMachine:
    record = find_cluster(cluster, refresh=True)
    if record is None:
        raise UsageError(f"there is no machine {cluster}; `skymark status` shows what is")
    return KeptMachine(cluster, record["handle"].launched_resources)


class KeptMachine:
    """A machine that stays. Implements `skymark.cloud.lifecycle.carrying_out.Place`."""

    can_be_left: ClassVar[bool] = False
    outlived_by_results: ClassVar[bool] = False

    def __init__(self, cluster: str, launched: Any) -> None:
        """Use a machine that is up.

        Args:
            cluster: its name.
            launched: SkyPilot's resources of it.
        """
        self._cluster = cluster
        self._launched = launched
        self._request = RequestInFlight()
        self._jobs: dict[str, MachineJob] = {}
        self._left: dict[str, str] = {}
        """Names of jobs by the ids of their runs, of those whose results are not home."""
        self._before: set[int] = set()
        """Numbers of jobs that were in the queue already; a user may give a name twice."""
        self._begun: set[str] | None = None
        """Names of the jobs that had begun when all were taken back; None before."""

    def queue(self, runs: Sequence[Quoted], screen: Screen) -> None:
        """Put every run into the machine's queue; where one does not get there, none is left in it.

        Raises:
            CloudError: the machine did not take one of them.
        """
        self._left = {quoted.order.run_id: _name_of(quoted.order) for quoted in runs}
        with turn_of(self._cluster, screen.say):
            self._before = {job.id for job in queued_jobs(self._cluster)}
            try:
                self._queue(runs, screen)
            except Exception:
                self._take_all_back()
                raise

    def claim(self, order: Order) -> None:
        """Do nothing: the machine has its name."""

    def hire(self, quoted: Quoted, screen: Screen) -> Hired:
        """Return the run's job, which is in the queue; its time begins when it is its turn."""
        until_s = None if quoted.limit_s is None else clock_s() + quoted.limit_s + GRACE_S
        job = JobWithOutcome(self._jobs[quoted.order.run_id], quoted.order, screen.say)
        return Hired(quoted.order, job, until_s)

    def stop(self, quoted: Quoted, hired: Hired | None, screen: Screen) -> Finished:
        """Take back every run that has not ended, and say whether this one had begun."""
        del hired
        if self._begun is None:
            screen.say("taking back what has not ended")
            self._begun = self._take_all_back()
        finished = Finished(quoted.order, interrupted=True)
        if _name_of(quoted.order) not in self._begun:
            problem = "it had not begun, and was taken back"
            return Finished(quoted.order, begun=False, interrupted=True, problems=(problem,))
        if quoted.order.job_nodes is not None:  # nobody knows on which of the nodes it was
            return finished
        try:
            await_outcome(quoted.order)
        except SkymarkError as error:
            return finished.with_problem(f"the run could not be stopped: {error}")
        return finished

    def take_back(self) -> None:
        """Do nothing: what was not granted was taken back with all the others."""

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, as always."""
        return keep_cluster(retrieved)

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results of a run that had begun from the machine."""
        if not finished.begun:
            return Retrieved(finished)
        if finished.order.job_nodes is not None:
            _remove_secrets(finished.order)
        retrieved = from_cluster(finished, results)
        if finished.end is JobEnd.UNSTORED and retrieved.safe:
            with suppress(SkymarkError):  # it ends by itself
                self._jobs[finished.order.run_id].stop()
        self._left.pop(finished.order.run_id, None)
        return retrieved

    def end(self, finished: Finished, screen: Screen) -> None:
        """Do nothing: the machine stays."""

    def bill(self, order: Order) -> None:
        """Return None: the machine is still paid for."""

    def _ours(self) -> list[QueuedJob]:
        names = set(self._left.values())
        found = queued_jobs(self._cluster)
        return [job for job in found if job.name in names and job.id not in self._before]

    def _queue(self, runs: Sequence[Quoted], screen: Screen) -> None:
        tasks = {
            one.order.run_id: make_run_task(one.order, _name_of(one.order), self._launched)
            for one in runs
        }
        _send_source(runs[0].order)  # of one submission, for all
        for quoted in runs:
            order, task = quoted.order, tasks[quoted.order.run_id]
            _send_files(quoted)
            set_limits(task, quoted.limit_s, None)
            job = self._submit(task)
            self._jobs[order.run_id] = job
            screen.say(f"{order.run_id} is job {job.number} of {order.cluster}")

    def _submit(self, task: Any) -> MachineJob:
        with explained(f"{self._cluster} did not take the job"):
            asked = self._request.make(lambda: request_job(task, self._cluster))
            job = await_job(asked, self._cluster)
            self._request.granted()
        return job

    def _take_all_back(self) -> set[str]:
        """End every job that has not ended; returns the names of those that had begun.

        Raises:
            CloudError: it is not known whether they have ended.
        """
        cluster = self._cluster
        try:
            self._request.take_back()
            cancel_jobs(cluster, [job.id for job in self._ours()])
            return {job.name for job in self._ours() if job.seconds is not None}
        except CloudError as error:
            raise CloudError(
                f"what was queued may go on ({error}); `skymark queue {cluster}` shows it, and "
                f"`skymark down {cluster}` ends it with the machine"
            ) from error


def _name_of(order: Order) -> str:
    return order.job or job_name(order.run_id)


def _send_source(order: Order) -> None:
    source = None if order.submission is None else source_of(order)
    if source is not None:
        assert order.submission is not None
        send_source(order.cluster, order.num_nodes, source, order.submission)


def _remove_secrets(order: Order) -> None:
    """Remove a run's secrets from the nodes that its job did not use."""
    for node in range(order.num_nodes):
        with suppress(SkymarkError):  # they go with the machine at the latest
            output_of(order.cluster, ("rm", "-f", secrets_file(order.run_id)), node)


def _send_files(quoted: Quoted) -> None:
    """Copy the plan and the secrets of a run to a machine that is up.

    Raises:
        CloudError: it could not be reached.
    """
    order = quoted.order
    with TemporaryDirectory() as place:
        plan, secrets = Path(place, "plan"), Path(place, "secrets")
        write_plan(quoted.plan, plan)
        send(order.cluster, order.num_nodes, plan, plan_file(order.run_id))
        if quoted.secrets:
            write_secrets(secrets, quoted.secrets)
            send(order.cluster, order.num_nodes, secrets, secrets_file(order.run_id))


def order_of(cluster: str, profile: str | None = None) -> Order:
    """Return the order of a machine that runs can be put on.

    Args:
        cluster: its name.
        profile: in place of the one that it was made for.

    Raises:
        UsageError: there is no such machine, or nobody knows what it was made for.
    """
    try:
        order = recall(cluster)
    except UsageError:
        return _adopted(cluster, profile)
    return order if profile is None else order.model_copy(update={"profile": profile})


def newest_run(cluster: str) -> str:
    """Return the id of the newest run that the head of a cluster has.

    Raises:
        UsageError: there is none.
    """
    found = output_of(cluster, ("readlink", f"{RESULTS}/{LATEST}"))
    if not found:
        raise UsageError(f"{cluster} has no run yet; `skymark queue {cluster}` shows its jobs")
    return require_run_id(found)


def require_run_id(text: str) -> str:
    """Return the id of a run, which becomes a directory's name.

    Raises:
        UsageError: it is none.
    """
    if not FILE_NAME.fullmatch(text):
        raise UsageError(f"{text!r} is no id of a run; `skymark ssh NAME -- ls results` lists them")
    return text


def _adopted(cluster: str, profile: str | None) -> Order:
    handle = handle_of(cluster)
    record = find_cluster(cluster, refresh=False)
    made_for = profile or profile_of(record)
    if made_for is None:
        raise UsageError(
            f"{cluster} was made by another YAML than skymark's (benchmarks/sky), so its profile "
            "is not known; give --profile, or a command after --"
        )
    minutes = None if record is None else record["autostop"]
    return Order(
        profile=made_for,
        plan_hash=None,
        run_id="",
        cluster=cluster,
        num_nodes=handle.launched_nodes,
        image=image_of(handle),
        keep=True,
        **({"idle_minutes": minutes} if minutes and minutes > 0 else {}),
    )
