"""Follow a job to its end, through broken connections, lost machines and servers that restart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TextIO, cast

from skymark.cloud.lifecycle.results import phase_in
from skymark.cloud.machine_script import RESULTS, stall_token
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.clusters import running_machines
from skymark.cloud.sky.jobs import ENDS, JobEnd
from skymark.cloud.sky.ssh import PAUSE_S, host, take
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.model.errors import CloudError, MachineLostError, UnreachableError, UsageError
from skymark.store.storing import stalled

RETRY_S = 5.0
UNREACHABLE_S = 900.0
"""How long a machine may be out of reach before it is given up."""
LOOK_S = 30.0
"""Between two questions to the provider of several machines."""
CANCELLED_S = 30.0
"""Time that SkyPilot gives the processes of a cancelled job to end."""

SET_UP_DONE = "setup 0"
DONE = "run 0"
"""Outcomes that `skymark.cloud.machine_script.script` writes."""
FAILED = next(code for code, end in ENDS.items() if end is JobEnd.FAILED)

Tell = Callable[[str], None]
"""Shows a line of progress."""


class RunningJob(Protocol):
    """A job that runs somewhere, and can be looked at and stopped."""

    @property
    def name(self) -> str:
        """Its name in messages, or that of its machine."""

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends; returns what SkyPilot's `tail_logs` does."""

    def ended(self) -> JobEnd | None:
        """Return its end; None while it goes on."""

    def is_lost(self) -> bool:
        """Whether it will never end, because its machine is gone."""

    def failure(self) -> str | None:
        """Return why it failed, where that is known."""

    def stop(self) -> None:
        """End it now."""


@dataclass
class ClusterJob:
    """Run's job on the nodes of a cluster. Implements `RunningJob`.

    If SkyPilot does not answer, the machines themselves report the end. Otherwise an idle machine
    could end itself, with its results, while its client still waits for SkyPilot. If some of
    several machines are lost, the job ends with the remaining parts. SkyPilot's own job does not
    end then, because it waits for the lost machine.
    """

    job: RunningJob
    run: RentedRun
    tell: Tell
    running: Callable[[str], int | None] = running_machines
    """Tells how many of a cluster's machines run; None where that is not known."""
    look_s: float = LOOK_S
    _told: bool = field(default=False, init=False)
    """Whether the user knows that SkyPilot does not answer."""
    _living: int | None = field(default=None, init=False)
    """Machines that are left, once some are lost."""
    _lost: list[tuple[int, float]] = field(default_factory=list, init=False)
    """Number of lost nodes, and the moment of `clock_s` at which they were found."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.job.name

    def show(self, log: TextIO) -> int | None:
        """Write the output until the job ends, or the part of each machine that is left."""
        if self.run.machine.nodes == 1:
            return self.job.show(log)
        output = BackgroundCall(lambda: self.job.show(log))
        while not output.wait(clock_s() + self.look_s):
            if self._over():
                return FAILED
        if output.raised is not None:
            raise output.raised
        code: int | None = output.result
        return code

    def ended(self) -> JobEnd | None:
        """Return the end of the job, or of the parts of all machines that are left."""
        try:
            end = self._told_end()
        except (CloudError, UsageError):
            over = self._over()
            if self._living is None:
                raise
            return JobEnd.FAILED if over else None
        return JobEnd.FAILED if end is None and self._over() else end

    def is_lost(self) -> bool:
        """Whether all machines are gone."""
        return self.job.is_lost()

    def failure(self) -> str | None:
        """Return why it failed, or how many machines are lost, where that is known."""
        if self._living is None:
            return self.job.failure()
        nodes = self.run.machine.nodes
        return f"{nodes - self._living} of its {nodes} machines are gone"

    def stop(self) -> None:
        """End it now."""
        self.job.stop()

    def absent_s(self, until_s: float) -> float:
        """Return for how long machines were lost, of all together, until a moment."""
        return sum(count * max(0.0, until_s - at_s) for count, at_s in self._lost)

    def _told_end(self) -> JobEnd | None:
        """Return the end by SkyPilot's word, or by the machines' where it does not answer."""
        try:
            return self.job.ended()
        except CloudError as error:
            try:
                end = end_there(self.run)
            except (UnreachableError, UsageError):
                raise error from None
            if end is None and not self._told:
                self.tell(
                    f"SkyPilot does not answer ({error}), but {self.name} reports that the run "
                    "continues; skymark follows it there"
                )
                self._told = True
            return end

    def _over(self) -> bool:
        """Whether machines of several are lost, and all others have ended their parts."""
        nodes = self.run.machine.nodes
        living = None if nodes == 1 else self.running(self.run.name)
        if living is None or not 0 < living < nodes:
            return False
        if living != self._living:
            before = nodes if self._living is None else self._living
            self._lost.append((before - living, clock_s()))
            self._living = living
            self.tell(
                f"{self.name} has lost machines: {living} of {nodes} are left; what they measure "
                "comes home when they have ended"
            )
        return parts_over(self.run)


class WatchedLog:
    """Output of a job that is looked at for a text on its way."""

    def __init__(self, log: TextIO, text: str) -> None:
        self.seen = False
        self._log = log
        self._text = text
        self._end = ""

    def write(self, text: str) -> int:
        """Write text and return its length."""
        said = self._end + text
        self.seen = self.seen or self._text in said
        self._end = said[-len(self._text) :]
        return self._log.write(text)

    def flush(self) -> None:
        """Write what is held back."""
        self._log.flush()

    def isatty(self) -> bool:
        """Return whether it goes to a terminal."""
        return self._log.isatty()


def follow(
    job: RunningJob,
    log: TextIO,
    tell: Tell,
    until_s: float | None,
    retry_s: float = RETRY_S,
    *,
    alone: bool = True,
) -> JobEnd:
    """Show a job's output until it ends.

    Args:
        job: it is stopped where its time is up, also where the connection was away just then.
        log: gets the output.
        tell: told when the connection breaks.
        until_s: a moment of `clock_s`, after which it is stopped; None for no limit.
        retry_s: time between two attempts to reach the machine.
        alone: whether it is on one machine: of several, one may wait for a store while others
            measure.

    Raises:
        MachineLostError: the machine is no longer there.
        CloudError: it could not be reached for a long time.
    """
    late = False
    lost_s: float | None = None
    while True:
        if not late:
            output, stalled = _show(job, log, until_s, alone=alone)
            if stalled and not output.done:
                return JobEnd.UNSTORED
            late = not output.done
            if not late and output.raised is None and output.result in ENDS:
                return ENDS[output.result]
        late = late or (until_s is not None and clock_s() > until_s)
        try:
            end = job.ended()
            if end is None and late:
                job.stop()
                return JobEnd.TOO_LATE
            lost_s = None
        except (CloudError, UsageError) as error:
            if _is_lost(job):
                raise MachineLostError(
                    f"{job.name} is no longer there: its provider took it away, or somebody ended "
                    "it"
                ) from error
            lost_s = lost_s or clock_s()
            if clock_s() - lost_s > UNREACHABLE_S:
                raise
            tell(f"{job.name} does not answer ({error}); the run goes on there, trying again")
            end = None
        if end is not None:
            return end
        time.sleep(retry_s)


def _show(
    job: RunningJob, log: TextIO, until_s: float | None, *, alone: bool
) -> tuple[BackgroundCall, bool]:
    """Show a job's output until it ends, its time is up, or it only waits for a store."""
    watched = WatchedLog(log, stalled(stall_token()))
    output = BackgroundCall(lambda: job.show(cast(TextIO, watched)))
    output.wait(until_s, lambda: alone and watched.seen)
    return output, alone and watched.seen


def _is_lost(job: RunningJob) -> bool:
    try:
        return job.is_lost()
    except (CloudError, UsageError):
        return False


def await_outcome(run: RentedRun) -> None:
    """Wait until every node of a cluster has written down the end of its part of a run.

    Raises:
        CloudError: one has not after the time that SkyPilot gives a cancelled job, or cannot be
            reached.
    """
    for node in range(run.machine.nodes):
        _fetch(run, node, attempts=1 + math.ceil(CANCELLED_S / PAUSE_S))


def parts_over(run: RentedRun) -> bool:
    """Whether some node of a cluster answers, and all that do have ended their part of a run."""
    answers = []
    for node in range(run.machine.nodes):
        with suppress(UnreachableError):
            answers.append(_fetch_if_there(run, node))
    return bool(answers) and all(answers)


def end_there(run: RentedRun) -> JobEnd | None:
    """Return the end of a run, as all nodes of its cluster have written it down; else None.

    Raises:
        UnreachableError: a node does not answer.
        UsageError: there is no such cluster any more.
    """
    outcomes = [_fetch_if_there(run, node) for node in range(run.machine.nodes)]
    if not all(outcomes) or SET_UP_DONE in outcomes:
        return None
    return JobEnd.SUCCEEDED if set(outcomes) == {DONE} else JobEnd.FAILED


def _fetch_if_there(run: RentedRun, node: int) -> str:
    try:
        return _fetch(run, node)
    except UnreachableError:
        raise
    except CloudError:  # there is none yet
        return ""


def _fetch(run: RentedRun, node: int, attempts: int = 1) -> str:
    name = f"{run.run_id}.outcome"
    there = f"{host(run.name, node)}:{RESULTS}/{name}"
    with TemporaryDirectory() as place:  # rsync would take another node's for this one's
        take(run.name, there, place, attempts=attempts)
        return phase_in(Path(place), name)
