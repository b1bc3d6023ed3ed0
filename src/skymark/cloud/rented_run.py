"""Run on rented machines: requests, names, and derived limits and secrets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator
from tenacity import stop_after_attempt

from skymark.execute.partition.shard import items_of, parts_of
from skymark.execute.partition.split import Split, read_split
from skymark.execute.planner import load_profile
from skymark.model.base import Frozen
from skymark.model.errors import StoreError, UnknownNameError, UsageError
from skymark.model.plan import Plan, Profile
from skymark.model.requests import Job, Limits, Machine
from skymark.resources import resource_directory
from skymark.store.kinds import StoreKind, attempts, default_urls, kind_of, kinds

ATTEMPTS = 3
LONGEST_WAIT_S = 4.0
"""Between two attempts to check a store that is away."""


def lasting_store(stores: Sequence[str], option: str = "--managed") -> str:
    """Return the first store that outlives a machine.

    Args:
        stores: of ``skymark run --store`` on the machine.
        option: the option that needs it, for messages.

    Raises:
        UsageError: there is none.
    """
    if lasting := stores_that_last(stores):
        return lasting[0]
    fit = " or ".join(f"--store {one.address}" for one in kinds() if one.outlives_machine)
    raise UsageError(
        f"{option} needs a store that outlives the machine, where the results are found; add {fit}"
    )


def stores_that_last(stores: Sequence[str]) -> list[str]:
    """Return the stores that outlive a machine and find a run again by its id."""
    return [store.rstrip("/") for store in stores if kind_of(store).outlives_machine]


def store_secrets(stores: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the set variables that the machine needs to reach its stores."""
    secrets: dict[str, str] = {}
    for kind in _used(stores, variables):
        secrets |= kind.secrets(variables)
    return secrets


def check_stores(stores: Sequence[str], run_id: str, variables: Mapping[str, str]) -> None:
    """Prove from here that the stores which results leave a machine for take them.

    Raises:
        StoreError: one cannot be written, read, listed or cleaned with these keys.
        UsageError: an address is none, or its client is not installed here.
    """
    for url in dict.fromkeys((*stores, *default_urls(variables))):
        kind = kind_of(url)
        if not kind.leaves_machine(variables):
            continue  # it is on the machine's own disk
        try:
            attempts(stop_after_attempt(ATTEMPTS), longest_wait_s=LONGEST_WAIT_S)(
                kind.check, url, run_id, variables
            )
        except StoreError as error:
            raise type(error)(f"nothing was rented: {error}") from error


def _used(stores: Sequence[str], variables: Mapping[str, str]) -> list[StoreKind]:
    """Return the kinds of the named stores and of the default stores."""
    return [kind_of(url) for url in (*stores, *default_urls(variables))]


STORED_IDLE_MINUTES = 1
"""Idle minutes until a machine ends itself, if its results are also stored elsewhere."""
IDLE_MINUTES = 10
"""Idle minutes if only the machine has the results: the connection may be lost this long."""
KEPT_IDLE_MINUTES = 30
"""Idle minutes of a machine that stays for more runs."""

HUB_ADDRESS = "hf://"
HUB = ("HF_TOKEN",)


class RentedRun(Frozen):
    """Run of a plan on rented machines, for its price, launch, files and local notes.

    Raises:
        UsageError: a managed job has no store that outlives its machines.
    """

    name: str
    """SkyPilot's name of the cluster or the managed job."""
    run_id: str
    """The run's id; empty if unknown."""
    profile: str
    """A profile's name, or a ``.toml`` file; it tells the kind of machine."""
    plan_hash: str | None
    """Hash of the sent plan; results of another plan are not accepted. None if unknown."""
    machine: Machine
    limits: Limits = Limits()
    job: Job = Job()
    stores: tuple[str, ...] = Field(default=(), validate_default=True)
    """Of ``skymark run --store`` on the machine."""
    idle_minutes: int = Field(default=IDLE_MINUTES, ge=1)
    """Minutes without a job after which the machine ends itself."""
    source: Path | None = None
    """The directory that is sent, of `skymark.cloud.source`; None for skymark's own files."""
    submission: str | None = None
    """Of `skymark.cloud.submissions`; None where the source comes with the machine."""
    part: int = Field(default=0, ge=0)
    """Part of `parts` that the machine takes."""
    parts: int = Field(default=1, ge=1)
    """Machines that share the plan, each with a job of its own."""

    @field_validator("stores")
    @classmethod
    def _one_that_lasts(cls, stores: tuple[str, ...], known: ValidationInfo) -> tuple[str, ...]:
        if "machine" in known.data and known.data["machine"].managed:
            lasting_store(stores)
        return stores

    @property
    def lasting_store(self) -> str | None:
        """The store in which the next machine of a managed job finds what was measured."""
        return lasting_store(self.stores) if self.machine.managed else None

    @property
    def sharing(self) -> Split:
        """The split of the plan between the machines of its jobs."""
        return sharing_of(self.job, self.machine, self.parts)


def sharing_of(job: Job, machine: Machine, parts: int = 1) -> Split:
    """Return the split of a plan between the machines of several jobs."""
    return read_split(job.split or "balanced", parts * (job.nodes or machine.nodes))


def idle_minutes_for(machine: Machine, stores: Sequence[str], variables: Mapping[str, str]) -> int:
    """Return the minutes without a job after which a machine ends itself.

    Args:
        machine: it says them, or whether it stays for more runs.
        stores: of ``skymark run --store`` on the machine.
        variables: the caller's, whose secrets go to the machine.
    """
    if machine.idle_minutes is not None:
        return machine.idle_minutes
    if machine.stays:
        return KEPT_IDLE_MINUTES
    leave = any(kind.leaves_machine(variables) for kind in _used(stores, variables))
    return STORED_IDLE_MINUTES if leave else IDLE_MINUTES


def limits_of(profile: Profile, given: Limits, machines: int = 1) -> Limits:
    """Return the limits of a run: those given, else the profile's, whose cost is each machine's."""
    deadline_s, most_usd = given.deadline_s, given.max_cost_usd
    if deadline_s is None and profile.deadline_minutes is not None:
        deadline_s = 60 * profile.deadline_minutes
    if most_usd is None and profile.max_cost_usd is not None:
        most_usd = machines * profile.max_cost_usd
    return Limits(deadline_s=deadline_s, max_cost_usd=most_usd)


def limits_there(known: RentedRun, given: Limits, profile: Profile | None) -> Limits:
    """Return the limits of work on an existing machine: those given, else the profile's deadline.

    Without a given ceiling, the higher ceiling of the machine and the profile counts.
    """
    usual = given if profile is None else limits_of(profile, given, known.machine.nodes)
    if given.max_cost_usd is not None:
        return usual
    ceilings = (known.limits.max_cost_usd, usual.max_cost_usd)
    most_usd = max((usd for usd in ceilings if usd is not None), default=None)
    return usual.changed(max_cost_usd=most_usd)


def limit_s(limits: Limits, hourly_price_usd: float | None, around_s: float) -> int | None:
    """Return the seconds that set-up and run may take: the deadline, or what the ceiling pays for.

    Args:
        limits: the deadline and the ceiling.
        hourly_price_usd: of all machines together; None where it is not known.
        around_s: paid for besides: boot and end.
    """
    known = [] if limits.deadline_s is None else [limits.deadline_s]
    if limits.max_cost_usd is not None and hourly_price_usd:
        known.append(max(1, int(limits.max_cost_usd / hourly_price_usd * 3600 - around_s)))
    return min(known, default=None)


def require_time_before(plan: Plan, deadline_s: float | None) -> None:
    """Refuse a plan whose rounds may outlast its machine.

    Args:
        plan: with the time of its rounds, if it has one.
        deadline_s: of set-up and run together; None where nothing ends them.

    Raises:
        UsageError: cells would be left over when the machine ends.
    """
    if plan.allotment is None or deadline_s is None or plan.allotment.time_s < deadline_s:
        return
    raise UsageError(
        f"--time {plan.allotment.time_s:g}s does not end before the deadline of {deadline_s:g} s, "
        "which is for set-up and run together; give a longer --deadline or a shorter --time"
    )


def secrets_of(
    stores: Sequence[str], job: Job, plan: Plan, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the secrets of a run: its stores', the Hub's if its plan reads there, its job's own.

    Args:
        stores: of ``skymark run --store`` on the machine.
        job: with its own secrets.
        plan: the cells.
        variables: the caller's.
    """
    known = {**variables, **job.variables, **job.secrets}
    secrets = store_secrets(stores, known)
    if any(HUB_ADDRESS in one.cell.model_dump_json() for one in plan.cells):
        secrets |= {name: known[name] for name in HUB if known.get(name)}
    return {**secrets, **job.secrets}


def cluster_name(profile: str, taken: Collection[str] = ()) -> str:
    """Return the name of a profile's machine, such as ``skymark-gpu-a100``.

    Args:
        profile: a profile's name, or a ``.toml`` file.
        taken: names of other machines; where this is among them, a number is put behind it.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", Path(profile).stem.casefold()).strip("-")
    name = f"skymark-{plain}"
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain((name,), numbered) if free not in taken)


def split_of_machines(text: str | None, machines: int) -> Split:
    """Return the split of a plan between machines, before any machine costs money.

    Args:
        text: of ``--split``; None for equal numbers of cells, within the limits of their sets.
        machines: number of machines that share the plan.

    Raises:
        UsageError: the text is invalid, or is not for this number of machines.
    """
    split = read_split(text or "balanced", machines)
    if text is not None and machines == 1:
        raise UsageError(
            f"--split {text} shares a plan between machines, and there is one; leave it out, or "
            "give several with --num-nodes"
        )
    if len(split.places) != machines:
        raise UsageError(
            f"--split {split.text} has {len(split.places)} workers, and there are {machines} "
            f"machines; give --num-nodes {len(split.places)}, or a split of {machines} such as "
            f"even:{machines}"
        )
    return split


def idle_machines(split: Split, plan: Plan) -> str | None:
    """Return a sentence about machines that take no cells; None if each machine takes some."""
    parts = parts_of(split, items_of(plan.cells))
    idle = sum(not part.items for part in parts)
    if not idle:
        return None
    return (
        f"{idle} of {len(parts)} machines take nothing and are paid for all the same: "
        f"--num-nodes {len(parts) - idle} is enough for the sets of cells that stay together"
    )


IMAGE_SUFFIX = "-image"
"""Ends the name of the same machine with a container image in place of the set-up."""


def machine_file(profile: str, machine: Path | None = None, image: str | None = None) -> Path:
    """Return the YAML of a machine.

    Args:
        profile: a name, or a ``.toml`` file.
        machine: a YAML in place of the profile's.
        image: a container image in place of the set-up.

    Raises:
        UnknownNameError: the machine does not exist.
        UsageError: the profile names no machine, or its file does not exist.
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
    """Return the file of each kind of machine by name, without the files for images."""
    files = sorted(resource_directory("sky").glob("*.yaml"))
    return {path.stem: path for path in files if not path.stem.endswith(IMAGE_SUFFIX)}
