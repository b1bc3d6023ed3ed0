"""Options that commands for rented machines share, and the requests that they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from skymark.cache.location import require_policy
from skymark.cli.cache_options import POLICY_VARIABLE, ROOT_VARIABLE, PolicyName
from skymark.cli.options import PlanOptions
from skymark.cli.parameters import (
    COUNT,
    IDLE_MINUTES,
    JOB,
    NODES,
    RESULTS,
    USD,
    MachinesSplit,
    Several,
)
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.requests import BOOT_TIMEOUT_S, Limits, Machine

MACHINE = Group.create_ordered("The machine")
LIMITS = Group.create_ordered("What it may cost")
VARIABLES = Group.create_ordered("The job's environment")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Stores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        group=RESULTS,
        help="Second place of the results, which the machine fills cell by cell: "
        "s3://BUCKET/PREFIX or wandb (a directory would go with the machine). Without one, the "
        "results are lost if the connection is away for --idle-minutes. skymark takes the keys "
        "from this environment, and tries them before it hires anything.",
    ),
]
Sync = Annotated[
    tuple[Path, ...],
    Parameter(
        group=JOB,
        help="A file or a directory that the job needs besides skymark's source, by its path from "
        "here; of a directory in git, the tracked files. May be repeated. A file with a secret is "
        "refused.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CostOptions(PlanOptions):
    """Options of the plan; the profile is named by position."""

    profile: Annotated[str, Parameter(parse=False)] = "cpu"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Options of the kind and the place of machines."""

    infra: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="Only there: vast, lambda, gcp/us-west1, slurm/NAME, k8s … [default: cheapest]",
        ),
    ] = None
    spot: Annotated[bool, Parameter(group=MACHINE, help="Only a spot machine.")] = False
    gpus: Annotated[
        str | None,
        Parameter(group=MACHINE, help="In place of the profile's: H100:8, A100-80GB:1 …"),
    ] = None
    machine: Annotated[
        Path | None,
        Parameter(group=MACHINE, help="A SkyPilot YAML in place of the profile's machine."),
    ] = None

    disk_size: Annotated[
        int | None,
        COUNT,
        Parameter(group=MACHINE, help="Size of the disk in GB. [default: the YAML's]"),
    ] = None

    def request(self, **more: Any) -> Machine:
        """Return the machine, with more of it."""
        return Machine(
            infra=self.infra,
            spot=self.spot,
            gpus=self.gpus,
            disk_gb=self.disk_size,
            file=self.machine,
            **more,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClusterOptions(PlaceOptions):
    """Options of one or more machines that share a plan."""

    num_nodes: Annotated[
        int,
        NODES,
        Parameter(
            group=MACHINE,
            help="Machines that share the plan. Each cell runs once; you pay for each machine.",
        ),
    ] = 1
    split: MachinesSplit = None

    def request(self, **more: Any) -> Machine:
        """Return the machines, with more of them."""
        return super().request(nodes=self.num_nodes, **more)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ClusterOptions):
    """Options of machines that are hired, and how long they stay."""

    cluster: Annotated[
        str | None,
        Parameter(
            name=("--cluster", "-c"),
            group=MACHINE,
            help="The machine's name. [default: skymark-PROFILE, with a number where that is "
            "taken]",
        ),
    ] = None
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="Run as SkyPilot's managed job: if the provider takes the machine away, another "
            "machine goes on from --store s3://…, which this needs.",
        ),
    ] = False
    image: Annotated[
        str | None,
        Parameter(group=MACHINE, help="A container image of skymark, in place of the set-up."),
    ] = None
    keep: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="Leave the machine for `skymark exec`; it ends itself after --idle-minutes.",
        ),
    ] = False
    idle: Annotated[
        bool,
        Parameter(
            group=MACHINE, help="Set the machine up, run nothing, and leave it as --keep does."
        ),
    ] = False
    down: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="End the machine after the run. This is the default without --keep and --idle.",
        ),
    ] = False
    idle_minutes: Annotated[
        int | None,
        IDLE_MINUTES,
        Parameter(
            name=("--idle-minutes", "--idle-minutes-to-autostop", "-i"),
            group=MACHINE,
            help="Minutes without a job after which the machine ends itself. [default: 1 where "
            "results go to a bucket or W&B too; else 10, for a connection that is away when the "
            "run ends; with --keep 30]",
        ),
    ] = None
    boot_timeout: Annotated[
        str,
        Parameter(
            group=MACHINE,
            help="Longest time until the machine is up. Then skymark gives it back and exits with "
            "status 1.",
        ),
    ] = "20m"

    def request(self, **more: Any) -> Machine:
        """Return the machines, with more of them.

        Raises:
            UsageError: two options contradict one another.
        """
        if self.down and (self.keep or self.idle):
            raise UsageError("--down ends the machine, which --keep and --idle leave; give one")
        return super().request(
            name=self.cluster,
            image=self.image,
            managed=self.managed,
            keep=self.keep,
            idle=self.idle,
            idle_minutes=self.idle_minutes,
            boot_timeout_s=boot_timeout_s(self.boot_timeout),
            **more,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Options of the most time and money."""

    deadline: Annotated[
        str | None,
        Parameter(
            group=LIMITS,
            help="Longest time of set-up and run of each job, such as 90m or 2h. The machine ends "
            "the job then, and the results so far come home. [default: the profile's; none for "
            "submit]",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        USD,
        Parameter(
            group=LIMITS,
            help="Ceiling in USD, of all machines together. skymark refuses a run that may cost "
            "more (exit status 3), and on a machine that is up one that is expected to cost more. "
            "The machine ends a run at the ceiling. [default: the profile's, for each machine]",
        ),
    ] = None

    def limits(self) -> Limits:
        """Return the limits.

        Raises:
            UsageError: the deadline is no duration.
        """
        return Limits(
            deadline_s=None if self.deadline is None else seconds_of(self.deadline),
            max_cost_usd=self.max_cost,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VariableOptions:
    """Options of a job's environment; one of the shell here is taken where no value is given."""

    env: Annotated[
        tuple[str, ...],
        Parameter(
            group=VARIABLES,
            help="NAME=VALUE, or NAME of a variable that is set here; may be repeated.",
        ),
    ] = ()
    env_file: Annotated[
        Path | None,
        Parameter(group=VARIABLES, help="A dotenv file; --env wins over it."),
    ] = None
    secret: Annotated[
        tuple[str, ...],
        Parameter(
            group=VARIABLES,
            help="As --env, for keys and passwords; wins over --env. May be repeated.",
        ),
    ] = ()
    secret_file: Annotated[
        Path | None,
        Parameter(group=VARIABLES, help="A dotenv file of secrets; --secret wins over it."),
    ] = None

    cache_policy: Annotated[
        PolicyName | None,
        Parameter(
            group=VARIABLES,
            help="Where libraries of the run keep what they fetch there, as `skymark run` has it.",
        ),
    ] = None
    cache_root: Annotated[
        str | None,
        Parameter(
            group=VARIABLES,
            help="With --cache-policy: a directory of the machine's, such as a mounted disk.",
        ),
    ] = None

    def variables(self) -> dict[str, str]:
        """Return the variables that are no secrets.

        Raises:
            UsageError: one has no value, the file cannot be read, or --cache-root stands alone.
        """
        require_policy(self.cache_policy, self.cache_root)
        told = {POLICY_VARIABLE: self.cache_policy, ROOT_VARIABLE: self.cache_root}
        caches = {name: value for name, value in told.items() if value is not None}
        named = _pairs("--env", self.env, os.environ)
        return {**_of_file("--env-file", self.env_file), **named, **caches}

    def secrets(self) -> dict[str, str]:
        """Return the secrets.

        Raises:
            UsageError: one has no value, or the file cannot be read.
        """
        named = _pairs("--secret", self.secret, os.environ)
        return {**_of_file("--secret-file", self.secret_file), **named}


DEFAULT_OPTIONS = CostOptions()
DEFAULT_CLUSTER = ClusterOptions()
DEFAULT_LAUNCH = LaunchOptions()
DEFAULT_LIMITS = LimitOptions()
DEFAULT_VARIABLES = VariableOptions()


def boot_timeout_s(text: str | None) -> int:
    """Return a time of ``--boot-timeout`` in seconds.

    Raises:
        UsageError: it is no duration.
    """
    return BOOT_TIMEOUT_S if text is None else seconds_of(text, "--boot-timeout")


def _pairs(option: str, texts: Iterable[str], here: Mapping[str, str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not NAME.fullmatch(name):
            # Not the whole of it: behind a mistyped name may stand a key.
            raise UsageError(f"{option} {name!r}: give NAME=VALUE, or NAME of what is set here")
        if not given and name not in here:
            raise UsageError(f"{option} {name}: it is not set here; give {name}=VALUE")
        pairs[name] = value if given else here[name]
    return pairs


def _of_file(option: str, path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    if not path.is_file():
        raise UsageError(f"{option} {path} is no file")
    from dotenv import dotenv_values  # comes with SkyPilot, which reads the same files by it

    return {name: value or "" for name, value in dotenv_values(path).items()}
