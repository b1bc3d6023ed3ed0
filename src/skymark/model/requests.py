"""Requests: which work, on which machine, within which limits, with results where."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from pydantic import (
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from skymark.model.base import Frozen, faults_of
from skymark.model.duration import seconds_of
from skymark.model.effort import Goal
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.project import ProjectDefaults, ProjectUse
from skymark.model.record import Setting

DEFAULT_PROFILE = "ci_cpu"
BOOT_TIMEOUT_S = 1200
"""Time limit for a machine's start; SkyPilot itself would wait for ever."""
STORE_WAIT_S = 600.0
DEFAULT_RESULTS = Path("results")
"""Default directory of runs."""


class Request(Frozen):
    """Base of requests: complete and valid when made."""

    if not TYPE_CHECKING:  # type checkers see the fields

        def __init__(self, **values: Any) -> None:
            """Make a request.

            Raises:
                UsageError: a field is unknown or its value is invalid.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                fields = type(self).model_fields
                secret = [name for name, field in fields.items() if not field.repr]
                faults = "; ".join(faults_of(error, self._unknown, secret))
                raise UsageError(f"{type(self).__name__}: {faults}") from error

    @classmethod
    def _unknown(cls, name: str, value: Any) -> str:
        """Return the message on an unknown field, with the nearest of any request."""
        elsewhere = {
            field: f"{other.__name__}({field}=...)"
            for other in reversed(Request.__subclasses__())
            for field in other.model_fields
        }
        for field in cls.model_fields:
            elsewhere.pop(field, None)
        if cls is Work and not get_close_matches(name, [*cls.model_fields, *elsewhere], cutoff=0.8):
            elsewhere[name] = f"settings={{{name!r}: {shortened(value)}}}"
        return str(UnknownNameError("field", name, cls.model_fields, elsewhere))


class Work(Request):
    """Cells to measure, and how thoroughly.

    Raises:
        UsageError: a duration is invalid, or two fields contradict each other.
    """

    profile: str = DEFAULT_PROFILE
    """A profile's name, or a ``.toml`` file. It gives the suite and the default of every other
    field."""
    scenarios: tuple[str, ...] = ()
    """Names with or without a size, such as ``CV-1:medium``. Empty for the profile's scenarios."""
    adapters: tuple[str, ...] = ()
    """Names, versions (``grain@0.2``), or classes (``./my_file.py:MyClass``). Empty for the
    profile's adapters."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the suite or of an adapter by name, such as ``workers`` or ``data``."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Values of the suite's own list options by name, such as ``axis``."""
    effort: str | None = None
    """The name of one of the suite's efforts. None for the profile's effort."""
    rounds: int | None = Field(default=None, ge=1)
    """Exact number of rounds for each cell. None for the effort's bounds."""
    time: str | None = None
    """Time limit of all rounds, such as ``20m``. None for the profile's limit."""
    goal: Goal | None = None
    """With `time`: rank all cells (``table``), or find the best (``best``)."""
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Longest time of one round in seconds. None for the effort's limit."""
    defaults: ProjectDefaults | None = None
    """A project's values for fields that this request leaves out, in place of the profile's. They
    count for profiles of their suite."""

    if TYPE_CHECKING:  # lists become tuples

        def __init__(  # noqa: PLR0913  # the fields
            self,
            *,
            profile: str = DEFAULT_PROFILE,
            scenarios: Iterable[str] = (),
            adapters: Iterable[str] = (),
            settings: Mapping[str, Setting] = ...,
            options: Mapping[str, JsonValue] = ...,
            effort: str | None = None,
            rounds: int | None = None,
            time: str | None = None,
            goal: Goal | None = None,
            timeout_s: float | None = None,
            defaults: ProjectDefaults | None = None,
        ) -> None: ...

    def resolved(self, suite: str) -> tuple[Work, ProjectUse | None]:
        """Return this request with its project's defaults as values of its own.

        Args:
            suite: the suite of its profile.

        Returns:
            The request, and the values that came from the project; None for no values.
        """
        defaults = self.defaults
        if defaults is None:
            return self, None
        taken: dict[str, Any] = {}
        keys: list[str] = []
        if defaults.suite == suite:
            has_time = self.time is not None or self.rounds is not None
            given = {**dict(self), "time": has_time or None}
            for name in ("scenarios", "adapters", "effort", "time"):
                if (value := getattr(defaults, name)) and not given[name]:
                    taken[name] = value
                    keys.append(name)
            own = {k: v for k, v in defaults.settings.items() if k not in self.settings}
            taken["settings"] = {**own, **self.settings}
            keys += [f"settings.{name}" for name in own]
        use = ProjectUse(file=defaults.file, keys=tuple(keys)) if keys else None
        return self.changed(**taken, defaults=None), use

    def words(self, options: Collection[str]) -> tuple[str, ...]:
        """Return the options of ``skymark run`` that make this request.

        Args:
            options: names of the suite's options; any other setting goes with ``--set``.
        """
        own = {
            name: value
            for name, value in self.settings.items()
            if name in options and not isinstance(value, bool)
        }
        others = [f"{name}={value}" for name, value in self.settings.items() if name not in own]
        given = {
            "scenarios": self.scenarios,
            "adapters": self.adapters,
            "effort": self.effort,
            "rounds": self.rounds,
            "time": self.time,
            "goal": self.goal,
            "timeout": self.timeout_s,
            "set": others,
            **own,
            **self.options,
        }
        words = ["--profile", self.profile]
        for name, value in given.items():
            if value is False or value in (None, (), []):
                continue
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words += map(str, value if isinstance(value, list | tuple) else (value,))
        return tuple(words)

    @field_validator("time")
    @classmethod
    def _a_duration(cls, text: str | None) -> str | None:
        if text is not None:
            seconds_of(text, "--time")
        return text

    @field_validator("time", "goal")
    @classmethod
    def _without_rounds(cls, given: str | None, info: ValidationInfo) -> str | None:
        if given is not None and (rounds := info.data.get("rounds")) is not None:
            raise UsageError(
                f"--rounds {rounds} is a number of rounds, and --time and --goal give rounds "
                "to the cells that need them; leave one of them out"
            )
        return given


class Results(Request):
    """Directory and stores of a run's results, and whether the run continues an earlier one."""

    directory: Path = DEFAULT_RESULTS
    """Parent directory of new runs."""
    output: Path | None = None
    """The run's own directory. None for a new one in `directory`."""
    stores: tuple[str, ...] = ()
    """Additional stores: a directory, ``s3://BUCKET/PREFIX``, or ``wandb``."""
    resume: bool = False
    """Continue a run of the same plan, from the directory and from the stores. Without `output`,
    the newest unfinished run in `directory`."""
    store_wait_s: float = Field(default=STORE_WAIT_S, ge=0, allow_inf_nan=False)
    """Seconds that the end of the run waits for an unreachable store."""

    if TYPE_CHECKING:  # texts become paths

        def __init__(
            self,
            *,
            directory: Path | str = DEFAULT_RESULTS,
            output: Path | str | None = None,
            stores: Iterable[str] = (),
            resume: bool = False,
            store_wait_s: float = STORE_WAIT_S,
        ) -> None: ...


class Machine(Request):
    """Machines to rent: kind, provider, and time to stay up.

    Raises:
        UsageError: a name is invalid, or two fields contradict each other.
    """

    name: str | None = None
    """SkyPilot's name of the cluster. None for a name derived from the profile."""
    file: Path | None = None
    """A SkyPilot YAML in place of the profile's."""
    infra: str | None = None
    """A provider, region or cluster, such as ``lambda`` or ``gcp/us-west1``. None for the
    cheapest."""
    spot: bool = False
    """Rent spot machines: cheaper, but the provider may take them away."""
    gpus: str | None = None
    """Accelerators of each node, such as ``H100:8``. None for the profile's."""
    disk_gb: int | None = Field(default=None, ge=1)
    """Size of each disk, in GB. None for the YAML's size."""
    nodes: int = Field(default=1, ge=1)
    """Number of machines of the cluster, which share the plan."""
    image: str | None = None
    """A container image of skymark that replaces the set-up."""
    boot_timeout_s: int = Field(default=BOOT_TIMEOUT_S, ge=1)
    """Longest time in seconds until the machine is up; after it, skymark returns the machine."""
    managed: bool = False
    """Run as SkyPilot's managed job, which continues on a new machine after a preemption."""
    keep: bool = False
    """Keep the machine for more runs."""
    idle: bool = False
    """Set the machine up, run nothing, and keep it."""
    idle_minutes: int | None = Field(default=None, ge=1)
    """Minutes without a job after which the machine ends itself. None: depends on the stores of the
    results."""

    @property
    def stays(self) -> bool:
        """Whether the machine stays for more runs."""
        return self.keep or self.idle

    @field_validator("name")
    @classmethod
    def _a_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[a-zA-Z](?:[-_.a-zA-Z0-9]*[a-zA-Z0-9])?", name):
            raise UsageError(
                f"--cluster {name!r} is no name of a machine; give letters, digits and hyphens, a "
                "letter first"
            )
        return name

    @field_validator("image")
    @classmethod
    def _an_image(cls, image: str | None) -> str | None:
        if image is not None and not re.fullmatch(r"\S+", image):
            raise UsageError(f"--image {image!r} is no image; give one such as skymark:cpu")
        return image

    @model_validator(mode="after")
    def _one_machine_of_a_managed_job(self) -> Machine:
        if self.managed and self.idle:
            raise UsageError("--managed downloads the run from its store; leave out --idle")
        if self.managed and self.keep:
            raise UsageError("--managed ends its machine with the job; leave out --keep")
        if self.managed and self.nodes > 1:
            raise UsageError("--managed runs on one machine at a time; leave out --num-nodes")
        return self


class Limits(Request):
    """Limits of time and cost of a run on rented machines; None for no limit."""

    deadline_s: int | None = Field(default=None, ge=1)
    """Longest time of set-up and run together, in seconds."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Largest cost of all machines together, in USD."""


class Job(Request):
    """Job on machines: a plan, or the user's own command or YAML."""

    name: str | None = None
    """The name in the machine's queue. None for a derived name."""
    words: tuple[str, ...] = ()
    """The words of a command, or the path of a SkyPilot YAML. Empty for a plan."""
    gpus: str | None = None
    """Accelerators of each machine for the job, such as ``H100:0.5``. None: all for a plan, none
    for a command."""
    nodes: int | None = Field(default=None, ge=1)
    """Number of machines for the job. None: all for a plan, one for a command."""
    split: str | None = None
    """How the machines share the plan, as in ``skymark run --split``. None for balanced."""
    all_gpus: bool = False
    """Whether workers on all GPUs of the machine share the plan. Then the profile's deadline, which
    is for one process, does not count, and the ceiling ends the run."""
    gpu_fraction: float | None = Field(default=None, gt=0, le=1)
    """With `all_gpus`: share of a GPU for each worker. None for an eighth or more."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the job. No secrets."""
    secrets: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Secret environment variables of the job; no record contains them."""
    files: tuple[Path, ...] = ()
    """Additional files and directories to send, below the current directory."""
    workdir: Path | None = None
    """Directory to send, in which a command runs. None for the YAML's directory, or skymark's
    source."""

    @property
    def is_yaml(self) -> bool:
        """Whether the words are the path of a YAML instead of a command."""
        return len(self.words) == 1 and self.words[0].endswith((".yaml", ".yml"))

    @property
    def cache_policy(self) -> str | None:
        """The policy of its caches, as in ``skymark run --cache-policy``; None without a policy."""
        return self.variables.get("SKYMARK_CACHE_POLICY")
