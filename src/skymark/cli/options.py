"""The options that `run` and `plan` share, and how they become a selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.execute.planner import make_plan
from skymark.execute.profiles import load_profile
from skymark.model.cell import Setting
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, Selection

Several = Parameter(consume_multiple=True, negative=())


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """What to measure, and how thoroughly."""

    profile: Annotated[str, Parameter(help="A profile's name, or a .toml file.")] = "ci_cpu"
    scenarios: Annotated[
        tuple[str, ...], Several, Parameter(help="Such as CV-1, CV-1:medium, tier-1 or all.")
    ] = ()
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(help="Slugs or names, grain@0.2.17, or ./my_loader.py:MyLoader."),
    ] = ()
    effort: Annotated[
        Literal["quick", "standard", "rigorous"] | None,
        Parameter(help="Rounds, batches and the interval to reach."),
    ] = None
    rounds: Annotated[
        int | None, Parameter(help="Exactly so many rounds, whatever the effort says.")
    ] = None
    timeout: Annotated[float | None, Parameter(help="Seconds until a cell's round is ended.")] = (
        None
    )
    workers: Annotated[
        int | None, Parameter(help="Worker processes or threads of each library.")
    ] = None
    prefetch: Annotated[int | None, Parameter(help="Batches that workers hold ready.")] = None
    think_time_ms: Annotated[
        float | None,
        Parameter(help="Time per batch that an accelerator would compute; gives utilisation."),
    ] = None
    page_cache: Annotated[
        Literal["warm", "cold"] | None, Parameter(help="Whether files are cached at the start.")
    ] = None
    axis: Annotated[
        tuple[str, ...], Several, Parameter(help="Chosen axis values, such as depth=1,10.")
    ] = ()
    set: Annotated[
        tuple[str, ...], Several, Parameter(help="Any other setting, such as format=parquet.")
    ] = ()
    data: Annotated[
        str | None,
        Parameter(help="Real data: a folder, tar shards, Parquet or hf://owner/name."),
    ] = None
    seed: Annotated[int, Parameter(help="Seed of every random number.")] = 7

    def plan(self) -> Plan:
        """Return the plan that these options ask for.

        Raises:
            UsageError: a name, setting or file is wrong.
        """
        settings: dict[str, Setting] = dict(_pair(text) for text in self.set)
        for name in ("workers", "prefetch", "think_time_ms", "page_cache"):
            if (value := getattr(self, name)) is not None:
                settings[name] = value
        axes = {
            name: tuple(_value(part) for part in str(values).split(","))
            for name, values in (text.partition("=")[::2] for text in self.axis)
        }
        selection = Selection(
            scenarios=self.scenarios,
            adapters=self.adapters,
            settings=settings,
            axes=axes,
            seed=self.seed,
            data=self.data,
        )
        plan = make_plan(load_profile(self.profile), selection, self.effort, self.rounds)
        if self.timeout is not None:
            if not 0 < self.timeout < math.inf:
                raise UsageError(f"--timeout {self.timeout:g} must be a number above 0 seconds")
            effort = plan.effort.model_copy(update={"cell_timeout_s": self.timeout})
            plan = plan.model_copy(update={"effort": effort})
        return plan


def _pair(text: str) -> tuple[str, Setting]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text!r} must be NAME=VALUE")
    return name.strip().replace("-", "_"), _value(value)


def _value(text: str) -> Setting:
    """Read a setting's value: true/false, an integer, a decimal number, else text."""
    if text.casefold() in {"true", "false"}:
        return text.casefold() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
