"""Options that commands for rented machines share, and the requests that they are."""

# Annotations are objects here, and no texts: a subclass elsewhere reads them among its own names.

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from skymark.cache.location import require_policy
from skymark.cli.help import MACHINE_TITLE, RARE
from skymark.cli.options import PlanOptions, given_options
from skymark.cli.parameters import (
    COUNT,
    DIRECTORY,
    FILE,
    IDLE_MINUTES,
    JOB,
    NODES,
    POLICY_VARIABLE,
    RESULTS,
    ROOT_VARIABLE,
    TIME,
    USD,
    MachinesSplit,
    PolicyName,
    Several,
)
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.requests import Limits, Machine

MACHINE = Group.create_ordered(MACHINE_TITLE)
RENTED = Group.create_ordered("A machine rented for the run, with --on")
OF_RENTED = Parameter(group=(RENTED, RARE))
LIMITS = Group.create_ordered("Price and limits")
VARIABLES = Group.create_ordered("The job's environment")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Stores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        group=RESULTS,
        metavar="ADDRESS...",
        help="Store for each result besides the machine: s3://BUCKET/PREFIX or wandb, with the "
        "keys of this environment. Without a store, results are lost if the connection stays away "
        "for --idle-minutes.",
    ),
]
Sync = Annotated[
    tuple[Path, ...],
    Parameter(
        group=JOB,
        metavar="PATH",
        help="File or directory below here that the job needs too; of a directory in git, the "
        "tracked files. May be repeated. Secrets are not sent.",
    ),
]
Infra = Annotated[
    str | None,
    Parameter(
        metavar="PLACE",
        help="Provider, region or cluster: vast, lambda, gcp/us-west1, slurm/NAME or k8s. "
        "[default: the cheapest]",
    ),
]
Spot = Annotated[bool, Parameter(help="A cheaper machine, which the provider may take away.")]
MachineFile = Annotated[
    Path | None, FILE, Parameter(help="SkyPilot YAML in place of the profile's machine.")
]
DiskSize = Annotated[
    int | None, COUNT, Parameter(metavar="GB", help="Disk size in GB. [default: the YAML's]")
]
BootTimeout = Annotated[
    str,
    TIME,
    Parameter(
        group=(MACHINE, RARE),
        help="Longest time until the machine is up. Then skymark gives it back, and exits with "
        "status 1.",
    ),
]
Secrets = Annotated[
    tuple[str, ...],
    Parameter(
        metavar="NAME[=VALUE]",
        help="Variable with a key or password, by default with its value here. May be repeated.",
    ),
]
CachePolicy = Annotated[
    PolicyName | None,
    Parameter(help="Directory of downloads there, as in `skymark run --cache-policy`."),
]
DryRun = Annotated[bool, Parameter(help="Show the price and the plan, and rent nothing.")]
Yes = Annotated[bool, Parameter(name=("--yes", "-y"), help="Accept the price without a question.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CostOptions(PlanOptions):
    """Options of the plan; the profile is an argument."""

    profile: Annotated[str, Parameter(parse=False)] = "cpu"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Options of the kind and the place of machines."""

    infra: Annotated[Infra, Parameter(group=MACHINE)] = None
    spot: Annotated[Spot, Parameter(group=MACHINE)] = False
    gpus: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            metavar="GPU:N",
            help="GPUs of each machine, such as H100:8. [default: the profile's]",
        ),
    ] = None
    machine: Annotated[MachineFile, Parameter(group=(MACHINE, RARE))] = None
    disk_size: Annotated[DiskSize, Parameter(group=(MACHINE, RARE))] = None

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
            help="Number of machines. They share the plan, and you pay for each.",
        ),
    ] = 1
    split: MachinesSplit = None

    def request(self, **more: Any) -> Machine:
        """Return the machines, with more of them."""
        return super().request(nodes=self.num_nodes, **more)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ClusterOptions):
    """Options of machines that are rented, and how long they stay."""

    cluster: Annotated[
        str | None,
        Parameter(
            name=("--cluster", "-c"),
            group=MACHINE,
            metavar="NAME",
            help="Name of the machine. [default: skymark-PROFILE, with a number if taken]",
        ),
    ] = None
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="As SkyPilot's managed job, which loses no work with its machine: a new machine "
            "continues from --store s3://…, which this needs.",
        ),
    ] = False
    image: Annotated[
        str | None,
        Parameter(
            group=(MACHINE, RARE),
            metavar="IMAGE",
            help="Container image of skymark, in place of the set-up.",
        ),
    ] = None
    keep: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="Leave the machine up for `skymark exec`; it ends itself after --idle-minutes.",
        ),
    ] = False
    idle: Annotated[
        bool,
        Parameter(
            group=(MACHINE, RARE),
            help="Set the machine up, run nothing, and leave it up as --keep does.",
        ),
    ] = False
    down: Annotated[
        bool,
        Parameter(
            group=(MACHINE, RARE),
            help="End the machine after the run, as without --keep and --idle.",
        ),
    ] = False
    idle_minutes: Annotated[
        int | None,
        IDLE_MINUTES,
        Parameter(
            name=("--idle-minutes", "--idle-minutes-to-autostop", "-i"),
            group=(MACHINE, RARE),
            help="Minutes without a job after which the machine ends itself. [default: 1 if "
            "results also go to a bucket or W&B, else 10; 30 with --keep]",
        ),
    ] = None
    boot_timeout: BootTimeout = "20m"

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
            boot_timeout_s=seconds_of(self.boot_timeout, "--boot-timeout"),
            **more,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Options of the most time and money."""

    deadline: Annotated[
        str | None,
        TIME,
        Parameter(
            group=LIMITS,
            help="Longest time of set-up and run, such as 90m; then the job ends, and its results "
            "come home. [default: the profile's; submit: none]",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        USD,
        Parameter(
            group=LIMITS,
            help="Ceiling in USD for all machines: skymark refuses a dearer run (exit status 3), "
            "and the machine ends the run there. [default: the profile's, per machine]",
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
    """Options of a job's environment. A variable without a value has its value here."""

    env: Annotated[
        tuple[str, ...],
        Parameter(
            group=VARIABLES,
            metavar="NAME[=VALUE]",
            help="Variable, by default with its value here. May be repeated.",
        ),
    ] = ()
    env_file: Annotated[
        Path | None,
        FILE,
        Parameter(group=(VARIABLES, RARE), help="Dotenv file of variables; --env overrides it."),
    ] = None
    secret: Annotated[
        Secrets,
        Parameter(group=VARIABLES, help="Variable with a key or password; overrides --env."),
    ] = ()
    secret_file: Annotated[
        Path | None,
        FILE,
        Parameter(group=(VARIABLES, RARE), help="Dotenv file of secrets; --secret overrides it."),
    ] = None

    cache_policy: Annotated[CachePolicy, Parameter(group=(VARIABLES, RARE))] = None
    cache_root: Annotated[
        str | None,
        DIRECTORY,
        Parameter(
            group=(VARIABLES, RARE),
            help="With --cache-policy: directory of the caches on the machine, such as a mounted "
            "disk.",
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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OnOptions(LimitOptions):
    """Options of `run` on a machine that is rented for the run alone."""

    on: Annotated[
        str | None,
        Parameter(
            group=RENTED,
            metavar="GPU:N",
            help="Rent a machine with these GPUs, such as H100:8, run there on all of them, and "
            "end it. Shows the price first.",
        ),
    ] = None
    infra: Annotated[Infra, OF_RENTED] = None
    spot: Annotated[Spot, OF_RENTED] = False
    machine: Annotated[MachineFile, OF_RENTED] = None
    disk_size: Annotated[DiskSize, OF_RENTED] = None
    secret: Annotated[Secrets, OF_RENTED] = ()
    detach: Annotated[
        bool,
        OF_RENTED,
        Parameter(
            name=("--detach", "-d"),
            help="Return once the machine works. It ends itself, and results are in --store.",
        ),
    ] = False
    dry_run: Annotated[DryRun, OF_RENTED] = False
    yes: Annotated[Yes, OF_RENTED] = False

    def request(self) -> Machine:
        """Return the machine.

        Raises:
            UsageError: an option is given without --on.
        """
        return Machine(
            gpus=self.on,
            infra=self.infra,
            spot=self.spot,
            file=self.machine,
            disk_gb=self.disk_size,
        )

    def secrets(self) -> dict[str, str]:
        """Return the secret variables of the run.

        Raises:
            UsageError: one has no value.
        """
        return _pairs("--secret", self.secret, os.environ)

    @property
    def is_asked_for(self) -> bool:
        """Whether a machine is to be rented.

        Raises:
            UsageError: its options are given without --on.
        """
        if self.on is None and (given := given_options(self)):
            raise UsageError(f"{' and '.join(given)} needs --on GPU:N, such as --on H100:8")
        return self.on is not None


DEFAULT_ON = OnOptions()
DEFAULT_OPTIONS = CostOptions()
DEFAULT_CLUSTER = ClusterOptions()
DEFAULT_LAUNCH = LaunchOptions()
DEFAULT_LIMITS = LimitOptions()
DEFAULT_VARIABLES = VariableOptions()


def _pairs(option: str, texts: Iterable[str], here: Mapping[str, str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not NAME.fullmatch(name):
            # Not the whole of it: behind a mistyped name may stand a key.
            raise UsageError(
                f"{option} {name!r}: give NAME=VALUE, or the NAME of a variable that is set here"
            )
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
