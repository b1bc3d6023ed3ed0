"""The options that `run` and `plan` share, and how they become a selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from skymark.execute.planner import make_plan
from skymark.execute.profiles import load_profile
from skymark.model.cell import Setting
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, Selection

WHAT = Group.create_ordered("What to measure")
HOW = Group.create_ordered("How to measure it")
WHERE = Group.create_ordered("Where it runs, and what is shown")

Several = Parameter(consume_multiple=1)

OPTIONS_OF_SETTINGS = ("workers", "prefetch", "think_time_ms", "page_cache")
"""Settings with an option of their own, besides --set."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What to measure, and how thoroughly."""

    profile: Annotated[
        str,
        Parameter(
            group=WHAT,
            help="Where everything comes from that is not given: a name "
            "that `skymark list profiles` shows, or a .toml file.",
        ),
    ] = "ci_cpu"
    scenarios: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            help="Names that `skymark list scenarios` shows, such as CV-1, with a size "
            "(CV-1:medium; else small), or many at once: tier-1, all.",
        ),
    ] = ()
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            help="Names that `skymark list adapters` shows, one version of a library "
            "(grain@0.2.17), or a class of your own (./my_loader.py:MyLoader).",
        ),
    ] = ()
    axis: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            help="Only these values of a scenario's axis, such as depth=1,10 of PC-1.",
        ),
    ] = ()
    data: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            help="Real data in place of synthetic: a folder, tar shards, Parquet, CSV, JSON "
            "lines, text, or hf://owner/name.",
        ),
    ] = None
    seed: Annotated[int, Parameter(group=WHAT, help="Seed of every random number.")] = 7
    effort: Annotated[
        Literal["quick", "standard", "rigorous"] | None,
        Parameter(
            group=HOW, help="How many rounds, how long each, and how narrow an interval to reach."
        ),
    ] = None
    rounds: Annotated[
        int | None, Parameter(group=HOW, help="Exactly so many rounds, whatever the effort says.")
    ] = None
    timeout: Annotated[
        float | None,
        Parameter(
            group=HOW,
            help="Seconds that one round of a cell may take, in place of the effort's; then its "
            "processes are ended.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Parameter(
            group=HOW,
            help="Worker processes or threads of each library; 0: none, it loads in the thread "
            "that asks for batches.",
        ),
    ] = None
    prefetch: Annotated[
        int | None,
        Parameter(
            group=HOW,
            help="Batches to hold ready, per worker where the library counts so.",
        ),
    ] = None
    think_time_ms: Annotated[
        float | None,
        Parameter(
            group=HOW,
            help="Milliseconds per batch that an accelerator would compute; adds its utilisation "
            "to the figures.",
        ),
    ] = None
    page_cache: Annotated[
        Literal["warm", "cold"] | None,
        Parameter(
            group=HOW,
            help="warm: files are in memory when measuring begins. cold: the kernel forgets "
            "them before each round.",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            help="NAME=VALUE of any other setting: batch_size, format, http_latency_ms, "
            "http_bandwidth_mb_s, or one of an adapter's own.",
        ),
    ] = ()

    def plan(self) -> Plan:
        """Return the plan that these options ask for.

        Raises:
            UsageError: a name, setting or file is wrong.
        """
        settings: dict[str, Setting] = dict(pair(text) for text in self.set)
        for name in OPTIONS_OF_SETTINGS:
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


def pair(text: str) -> tuple[str, Setting]:
    """Read a setting, NAME=VALUE.

    Raises:
        UsageError: it is none.
    """
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
