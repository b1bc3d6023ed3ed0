"""A job of several machines, of which some may be lost: it ends with the parts of those that live.

SkyPilot's own job does not end then, for it waits for the lost machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import RunningJob
from skymark.cloud.lifecycle.outcomes import parts_over
from skymark.cloud.lifecycle.screen import Say
from skymark.cloud.order import Order
from skymark.cloud.sky.hired import running_machines
from skymark.cloud.sky.jobs import ENDS, JobEnd
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.model.errors import UsageError

LOOK_S = 30.0
"""Between two questions to the provider."""
FAILED = next(code for code, end in ENDS.items() if end is JobEnd.FAILED)


@dataclass
class SeveralMachines:
    """The job of a cluster's nodes. Implements `skymark.cloud.lifecycle.following.RunningJob`."""

    job: RunningJob
    order: Order
    say: Say
    running: Callable[[str], int | None] = running_machines
    """Tells how many of a cluster's machines run; None where that is not known."""
    look_s: float = LOOK_S
    _living: int | None = field(default=None, init=False)
    """Machines that are left, once some are lost."""
    _lost: list[tuple[int, float]] = field(default_factory=list, init=False)
    """How many were found lost, and at which moment of `clock_s`."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.job.name

    def show(self, log: TextIO) -> int | None:
        """Write the output until the job ends, or the part of each machine that is left."""
        output = BackgroundCall(lambda: self.job.show(log))
        while not output.wait(clock_s() + self.look_s):
            if self._over():
                return FAILED
        if output.raised is not None:
            raise output.raised
        code: int | None = output.result
        return code

    def ended(self) -> JobEnd | None:
        """Return the end of the job, or of the parts of all machines that are left.

        SkyPilot has no answer where the head is lost; those that are left go on all the same.
        """
        try:
            end = self.job.ended()
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
        """Return how many machines are lost, where some are."""
        if self._living is None:
            return self.job.failure()
        nodes = self.order.num_nodes
        return f"{nodes - self._living} of its {nodes} machines are gone"

    def stop(self) -> None:
        """End it now."""
        self.job.stop()

    def absent_s(self, until_s: float) -> float:
        """Return for how long machines were lost, of all together, until a moment."""
        return sum(count * max(0.0, until_s - at_s) for count, at_s in self._lost)

    def _over(self) -> bool:
        """Whether machines are lost, and all others have ended their parts."""
        living = self.running(self.order.cluster)
        if living is None or not 0 < living < self.order.num_nodes:
            return False
        if living != self._living:
            before = self.order.num_nodes if self._living is None else self._living
            self._lost.append((before - living, clock_s()))
            self._living = living
            self.say(
                f"{self.name} has lost machines: {living} of {self.order.num_nodes} are left; "
                "what they measure comes home when they have ended"
            )
        return parts_over(self.order)
