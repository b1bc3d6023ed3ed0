"""The tables of ``docs/reference/cloud-faults.md``: one per fault and one per profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.table import renew

TAKEN_AWAY = "the provider takes away the machine of a managed run"
NODE_TAKEN_AWAY = "the provider takes away one of two machines"
HEAD_TAKEN_AWAY = "the provider takes away the head of two machines"
NODE_TAKEN_AWAY_ALONE = "the provider takes away one of two machines, and the client is killed"
MAY_LOSE = (TAKEN_AWAY, NODE_TAKEN_AWAY, HEAD_TAKEN_AWAY, NODE_TAKEN_AWAY_ALONE)
"""Faults that a machine does not survive to send what it has. For a managed run the next machine
measures it again; the client names what one of several machines had."""

FAULTS = (
    "nothing",
    "no capacity",
    "the machine never boots",
    "the provider limits the rate of requests",
    "the set-up fails",
    "the run fails",
    "the deadline and the budget are used up",
    "the disk is full during the run",
    "SSH is cut during the run, and comes back",
    "SkyPilot's API server restarts during the run",
    "SkyPilot's API server is gone for good during the run",
    "Ctrl-C during the run",
    "the terminal is closed, then Ctrl-C during the fetch",
    "no directory takes the results",
    "the bucket hangs during the run",
    "the bucket hangs during a managed run",
    TAKEN_AWAY,
    NODE_TAKEN_AWAY,
    HEAD_TAKEN_AWAY,
    NODE_TAKEN_AWAY_ALONE,
    "the client is killed while the machine is rented",
    "the client is killed during the set-up",
    "the client is killed during the run",
    "the client is killed during the fetch",
    "the client and SkyPilot's API server are killed before the set-up",
    "the provider refuses to end the machine",
    "the provider says that it ends the machine, and does not",
    "the provider lists no machine at the end",
    "the provider answers 500 at the end",
    "SkyPilot's API server is gone for good at the end",
)
"""Every row of the first table, in order."""

COUNTED = ("planned", "measured", "home", "lost", "machines left", "bill", "idle")
PROFILES = ("cpu", "gpu_a100", "gpu_h100", "cluster_8xh100")
LAUNCHED = ("machine", "planned", "home", "to home", "to asked", "to gone", "bill")


@dataclass(frozen=True)
class Row:
    """What became of the rounds of one launch, and of its machines."""

    planned: int
    measured: int
    """On the machines' disks when they were given back."""
    home: int
    """Where they were to come to: here, or in the bucket of `--store`."""
    lost: int
    left: int
    """Machines that are still rented."""
    bill_usd: float
    idle_s: float | None
    """From the end of the job to the end of the machine; None where there was no job."""

    def cells(self) -> list[str]:
        """Return it as the table shows it."""
        counts = (self.planned, self.measured, self.home, self.lost, self.left)
        idle = "" if self.idle_s is None else f"{self.idle_s:.0f} s"
        return [*map(str, counts), f"${self.bill_usd:.3f}", idle]


@dataclass(frozen=True)
class Launched:
    """A launch that went well."""

    machine: str
    planned: int
    home: int
    to_home_s: float
    """From the command to the verified results."""
    to_asked_s: float
    """From the verified results until SkyPilot asked the provider to end the machine."""
    to_gone_s: float
    """From the verified results until the provider had ended the machine."""
    bill_usd: float

    def cells(self) -> list[str]:
        """Return it as the table shows it."""
        times = [f"{one:.1f} s" for one in (self.to_home_s, self.to_asked_s, self.to_gone_s)]
        return [self.machine, str(self.planned), str(self.home), *times, f"${self.bill_usd:.3f}"]


class Tables:
    """Both tables of a page, whose rows are renewed as they come.

    Args:
        page: where they are; None keeps no row.
    """

    def __init__(self, page: Path | None) -> None:
        self._page = page

    def add(self, fault: str, row: Row) -> None:
        """Keep what became of a launch, of which nothing may be lost or left."""
        assert fault in FAULTS
        assert row.left == 0
        assert row.lost == 0 or fault in MAY_LOSE
        self._renew("cloud fault table", ("fault", *COUNTED), FAULTS, fault, row)

    def add_launch(self, profile: str, row: Launched) -> None:
        """Keep how long a profile's launch took."""
        self._renew("launch table", ("profile", *LAUNCHED), PROFILES, profile, row)

    def _renew(
        self, name: str, columns: Sequence[str], order: Sequence[str], key: str, row: Row | Launched
    ) -> None:
        if self._page is not None:
            renew(self._page, name, columns, order, {key: row.cells()})
