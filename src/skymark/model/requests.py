"""Requests: which work, on which machine, within which limits, with results where."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
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
from skymark.model.errors import UsageError
from skymark.model.record import Setting

DEFAULT_PROFILE = "ci_cpu"
BOOT_TIMEOUT_S = 1200
"""SkyPilot itself would wait for ever."""
STORE_WAIT_S = 600.0
DEFAULT_RESULTS = Path("results")
"""Directory of runs that have no directory of their own."""


class Request(Frozen):
    """A request, which is whole and valid when it is made."""

    if not TYPE_CHECKING:  # type checkers see the fields

        def __init__(self, **values: Any) -> None:
            """Make a request.

            Raises:
                UsageError: a field is unknown, or has no such value.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                faults = "; ".join(faults_of(error))
                raise UsageError(f"{type(self).__name__}: {faults}") from error


class Work(Request):
    """Cells to measure, and how thoroughly.

    Raises:
        UsageError: a duration means nothing, or two fields contradict one another.
    """

    profile: str = DEFAULT_PROFILE
    """A profile's name, or a ``.toml`` file. It gives the suite and all that is not given here."""
    scenarios: tuple[str, ...] = ()
    """Names with or without a size, such as ``CV-1:medium``. Empty for the profile's."""
    adapters: tuple[str, ...] = ()
    """Names, versions (``grain@0.2``), or classes (``./my_file.py:MyClass``). Empty for the
    profile's."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the suite or of an adapter by name, such as ``workers`` or ``data``."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Values of the suite's own options by name, where one is a list, such as ``axis``."""
    effort: str | None = None
    """The name of one of the suite's efforts. None for the profile's."""
    rounds: int | None = Field(default=None, ge=1)
    """Exactly so many rounds for each cell. None for the effort's bounds."""
    time: str | None = None
    """Of all rounds, such as ``20m``. None for the profile's."""
    goal: Goal | None = None
    """With `time`: rank all cells (``table``), or find the best (``best``)."""
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds that one round may take. None for the effort's."""

    if TYPE_CHECKING:  # lists become tuples

        def __init__(
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
        ) -> None: ...

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
    """Places of a run's results, and whether it goes on with what is there."""

    directory: Path = DEFAULT_RESULTS
    """Directory of runs, in which a new run gets a directory."""
    output: Path | None = None
    """The run's own directory. None for a new one in `directory`."""
    stores: tuple[str, ...] = ()
    """Further places: a directory, ``s3://BUCKET/PREFIX``, or ``wandb``."""
    resume: bool = False
    """Go on with a run of the same plan, from the directory and from the stores."""
    store_wait_s: float = Field(default=STORE_WAIT_S, ge=0, allow_inf_nan=False)
    """Seconds that the end of the run waits for a store that is away."""

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
    """Machines to hire: their kind, their place, and how long they stay.

    Raises:
        UsageError: a name means nothing, or two fields contradict one another.
    """

    name: str | None = None
    """The name with SkyPilot. None for one made of the profile's name."""
    file: Path | None = None
    """A SkyPilot YAML in place of the profile's."""
    infra: str | None = None
    """A provider, region or cluster, such as ``lambda`` or ``gcp/us-west1``. None for the
    cheapest."""
    spot: bool = False
    """Cheaper, and may be taken away."""
    gpus: str | None = None
    """Accelerators of each node, such as ``H100:8``. None for the profile's."""
    disk_gb: int | None = Field(default=None, ge=1)
    """Size of its disk, in GB. None for the YAML's."""
    nodes: int = Field(default=1, ge=1)
    """Machines of the cluster, which share the plan."""
    image: str | None = None
    """A container image of skymark in place of the set-up."""
    boot_timeout_s: int = Field(default=BOOT_TIMEOUT_S, ge=1)
    """Seconds until the machine is up; then it is given back."""
    managed: bool = False
    """As SkyPilot's managed job: where the machine is taken away, another one goes on."""
    keep: bool = False
    """Leave it for more runs."""
    idle: bool = False
    """Set it up, run nothing, and leave it."""
    idle_minutes: int | None = Field(default=None, ge=1)
    """Minutes without a job after which it ends itself. None: by where the results go."""

    @property
    def stays(self) -> bool:
        """Whether it is left for more runs."""
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
            raise UsageError("--managed brings a run home from its store; leave out --idle")
        if self.managed and self.keep:
            raise UsageError("--managed ends its machine with the job; leave out --keep")
        if self.managed and self.nodes > 1:
            raise UsageError("--managed runs on one machine at a time; leave out --num-nodes")
        return self


class Limits(Request):
    """The most time and money of a run on rented machines; None for no limit."""

    deadline_s: int | None = Field(default=None, ge=1)
    """Seconds of set-up and run together."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD of all machines together."""


class Job(Request):
    """The work of machines: a plan, or a command or YAML of the user's own."""

    name: str | None = None
    """The name in the machine's queue. None for one made of other names."""
    words: tuple[str, ...] = ()
    """Of a command, or the path of a YAML of SkyPilot's. Empty for a plan."""
    gpus: str | None = None
    """The part of each machine that it takes, such as ``H100:0.5``. None for all of them for a
    plan, and none for a command."""
    nodes: int | None = Field(default=None, ge=1)
    """Machines that it takes. None for all of them for a plan, and one for a command."""
    split: str | None = None
    """The way the machines share the plan, as of ``skymark run --split``. None for balanced."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Of its environment. No secrets."""
    secrets: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Of its environment, for what nobody is to read; no note has them."""
    files: tuple[Path, ...] = ()
    """Files and directories below the current directory that are sent besides the source."""
    workdir: Path | None = None
    """Directory that a command is sent with and runs in. None for the YAML's, or skymark's
    source."""

    @property
    def is_yaml(self) -> bool:
        """Whether the words are the path of a YAML, and no command."""
        return len(self.words) == 1 and self.words[0].endswith((".yaml", ".yml"))

    @property
    def cache_policy(self) -> str | None:
        """The policy of its caches, as ``skymark run --cache-policy``; None for none."""
        return self.variables.get("SKYMARK_CACHE_POLICY")
