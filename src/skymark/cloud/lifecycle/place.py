"""The contract of a place that runs are carried out in."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from skymark.cloud.cost.bill import Bill
from skymark.cloud.lifecycle.screen import Screen
from skymark.cloud.lifecycle.stages import Finished, Hired, Kept, Quoted, Retrieved
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.order import Order

GRACE_S = KILL_AFTER_S + 60
"""Time after which the client ends a run that the machine should have ended: its time was up."""


class Place(Protocol):
    """A place for a run: a new cluster, a kept machine, or SkyPilot's managed jobs."""

    can_be_left: ClassVar[bool]
    """Whether the user may leave a run going; else Ctrl-C always stops it."""
    outlived_by_results: ClassVar[bool]
    """Whether results come home after the machine is gone, from a store; else they come before."""

    def claim(self, order: Order) -> None:
        """Take the name of a machine that is going to be hired.

        Raises:
            NameTakenError: it is in use.
        """
        ...

    def hire(self, quoted: Quoted, screen: Screen) -> Hired:
        """Get the machine and begin the job.

        Raises:
            CloudError: there is no capacity, or the machine did not come up.
        """
        ...

    def stop(self, quoted: Quoted, hired: Hired | None, screen: Screen) -> Finished:
        """End a run that its user stopped, so that nothing more is measured."""
        ...

    def take_back(self) -> None:
        """End a request that was not granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """
        ...

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results into a directory of runs and verify them; faults become problems."""
        ...

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, because it has what is verified nowhere else."""
        ...

    def end(self, finished: Finished, screen: Screen) -> float | None:
        """End the machine and prove it, unless it is to stay.

        Returns:
            Seconds that it took; None where it stays.

        Raises:
            StillBillingError: it does not end.
        """
        ...

    def bill(self, order: Order) -> Bill | None:
        """Return the cost of the machine that is gone; None where it is not known."""
        ...
