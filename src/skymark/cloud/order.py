"""Orders of runs and of a user's own jobs, and the machine kinds that profiles name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from skymark.cloud.stores import results_leave
from skymark.execute.partition.split import Balanced, Split, read_split
from skymark.execute.planner import load_profile
from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.resources import resource_directory

STORED_IDLE_MINUTES = 1
"""Without a job, until a machine ends itself whose results lie elsewhere too."""
IDLE_MINUTES = 10
"""The same where they lie on it alone: for so long the connection may be away when a run ends."""
KEPT_IDLE_MINUTES = 30
"""The same of a machine that is kept for more runs."""


class Order(Frozen):
    """A run on a rented machine. Building one contacts nobody."""

    profile: str
    """A profile's name, or a ``.toml`` file; it tells the kind of machine."""
    plan_hash: str | None
    """Of the plan that is sent; results of another one are refused. None where it is not known."""
    run_id: str
    cluster: str
    """The machine's name with SkyPilot."""
    stores: tuple[str, ...] = ()
    """Of ``skymark run --store`` on the machine."""
    machine: Path | None = None
    """A SkyPilot YAML in place of the profile's."""
    infra: str | None = None
    spot: bool = False
    lasting_store: str | None = None
    """Of a managed job: where the next machine finds what was measured, if one is taken away."""
    num_nodes: int = Field(default=1, ge=1)
    """Of the cluster."""
    part: int = Field(default=0, ge=0)
    """Of `parts`, the one that the machine takes of the plan."""
    parts: int = Field(default=1, ge=1)
    """Machines that share the plan, each with a job of its own."""
    job_nodes: int | None = Field(default=None, ge=1)
    """Of them, those that the job takes; None for all."""
    split: str = Balanced.kind
    """The way the machines share the plan, as of ``skymark run --split``."""
    gpus: str | None = None
    """Accelerators of each machine, or of a job's part of it, such as ``H100:8`` and ``H100:0.5``;
    None for those of the machine's YAML, or all of a machine that is there."""
    job: str | None = None
    """The job's name with SkyPilot; None for one that is made of other names."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Of the job's environment, besides those that skymark gives it. No secrets."""
    submission: str | None = None
    """Of `skymark.cloud.source`; None where the source comes with the machine."""
    source: Path | None = None
    """The directory that is sent, of `skymark.cloud.source`; None for skymark's own files."""
    image: str | None = None
    deadline_s: int | None = Field(default=None, ge=1)
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    keep: bool = False
    idle: bool = False
    """Set up, and run nothing."""
    boot_timeout_s: int = Field(default=1200, ge=1)
    """Most time until the machine is up; SkyPilot itself would wait for ever."""
    idle_minutes: int = Field(default=IDLE_MINUTES, ge=1)

    @property
    def sharing(self) -> Split:
        """The split of the plan between the machines of its jobs."""
        return read_split(self.split, self.parts * (self.job_nodes or self.num_nodes))


def idle_minutes_for(stores: Sequence[str], variables: Mapping[str, str], *, keep: bool) -> int:
    """Return the minutes without a job after which a machine ends itself, where nobody said it.

    Args:
        stores: of ``skymark run --store`` on the machine.
        variables: the caller's, whose secrets go to the machine.
        keep: whether the machine is to stay for more runs.
    """
    if keep:
        return KEPT_IDLE_MINUTES
    return STORED_IDLE_MINUTES if results_leave(stores, variables) else IDLE_MINUTES


def cluster_name(profile: str, taken: Collection[str] = ()) -> str:
    """Return the name of a profile's machine, such as ``skymark-gpu-a100``.

    Args:
        profile: a profile's name, or a ``.toml`` file.
        taken: names of other machines; where this is among them, a number is put behind it.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", Path(profile).stem.casefold()).strip("-")
    name = f"skymark-{plain}"
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain((name,), numbered) if one not in taken)


def check_cluster_name(name: str) -> None:
    """Refuse a name that SkyPilot and SSH would not take.

    Raises:
        UsageError: it is one.
    """
    if not re.fullmatch(r"[a-zA-Z](?:[-_.a-zA-Z0-9]*[a-zA-Z0-9])?", name):
        raise UsageError(
            f"--cluster {name!r} is no name of a machine; give letters, digits and hyphens, a "
            "letter first"
        )


def limit_s(order: Order, hourly_price_usd: float | None, around_s: float) -> int | None:
    """Return how many seconds set-up and run may take: the deadline, or what the budget pays for.

    Args:
        order: with the deadline and the ceiling, if it has them.
        hourly_price_usd: of all machines together; None where it is not known.
        around_s: what is paid for besides: boot and end.
    """
    limits = [] if order.deadline_s is None else [order.deadline_s]
    if order.max_cost_usd is not None and hourly_price_usd:
        limits.append(max(1, int(order.max_cost_usd / hourly_price_usd * 3600 - around_s)))
    return min(limits, default=None)


@dataclass(frozen=True)
class UserJob:
    """A command or a YAML of SkyPilot's. Building one contacts nobody."""

    words: tuple[str, ...]
    """Of the command, or the YAML's path."""
    name: str | None = None
    gpus: str | None = None
    """Such as ``H100:0.5``; None for what the YAML says, or none."""
    num_nodes: int | None = None
    """None for what the YAML says, or one."""
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SkyPilot keeps them in its API server's database, as with ``sky exec --secret``."""
    files: tuple[Path, ...] = ()
    """Sent besides, from the current directory; see `skymark.cloud.sent_files`."""
    workdir: Path | None = None
    """Directory that is sent; None for the YAML's, or skymark's source."""


IMAGE_SUFFIX = "-image"
"""Ends the name of the same machine with a container image in place of the set-up."""


def machine_file(profile: str, machine: Path | None = None, image: str | None = None) -> Path:
    """Return the YAML of a machine.

    Args:
        profile: a name, or a ``.toml`` file.
        machine: a YAML in place of the profile's.
        image: a container image in place of the set-up.

    Raises:
        UnknownNameError: there is no such machine.
        UsageError: the profile names none, or the file that was named is not there.
    """
    if machine is not None:
        if not machine.is_file():
            raise UsageError(f"--machine {machine} is no file; name a SkyPilot YAML")
        return machine
    name = load_profile(profile).machine
    if name is None:
        raise UsageError(
            f"the profile {profile} names no machine; give --machine FILE.yaml, or write "
            'machine = "NAME" into the profile'
        )
    known = machine_kinds()
    if name not in known:
        raise UnknownNameError("machine", name, known)
    return known[name] if image is None else known[name].with_stem(f"{name}{IMAGE_SUFFIX}")


def machine_kinds() -> dict[str, Path]:
    """Return the file of each kind of machine by name; those for an image are left out."""
    files = sorted(resource_directory("sky").glob("*.yaml"))
    return {path.stem: path for path in files if not path.stem.endswith(IMAGE_SUFFIX)}
