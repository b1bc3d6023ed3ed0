"""The options of `tune`: those of `run` that say what to measure, and the points to try."""

# Annotations are objects here, and no texts: they are read among the names of another module.

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from skymark.cli.grid import points
from skymark.cli.options import OPTIONS_OF_SETTINGS, PlanOptions, SharedOptions
from skymark.execute.planner import load_profile
from skymark.model.errors import UsageError
from skymark.model.option import read_pair
from skymark.model.record import Cell, Setting
from skymark.suite.contract import Suite, Tuning
from skymark.suite.registry import suite_named, suites

SHARED = ("profile", "scenarios", "adapters", "timeout", "set")
"""Of the options that every suite has: the others say how often to measure, as a tune does."""


def _options_of_tune() -> type:
    """Return the options of `run` that `tune` has, as a class of their own."""
    tuned = {one.name: one.tuning for one in suites() if one.tuning is not None}
    own = {one.step for one in tuned.values()} | {one.batch for one in tuned.values()}
    taken = {
        name
        for name, one in PlanOptions.declared().items()
        if tuned.keys() & set(one.suites) and name not in own
    }
    chosen = [one for one in fields(PlanOptions) if one.name in {*SHARED, *taken}]
    made = make_dataclass(
        "TuneOptions",
        [(one.name, one.type, dataclasses.field(default=one.default)) for one in chosen],
        namespace={"__doc__": "The options of `run` that `tune` has.", "__module__": __name__},
        frozen=True,
        kw_only=True,
    )
    return Parameter(name="*")(made)


if TYPE_CHECKING:
    TuneOptions = SharedOptions
else:
    TuneOptions = _options_of_tune()


@dataclass(frozen=True)
class TuneRequest:
    """A tune as the command line asks for it, checked."""

    suite: Suite
    tuning: Tuning
    options: PlanOptions
    """What all candidates share: the step and the batch are in it."""
    points: tuple[tuple[Mapping[str, Setting], PlanOptions], ...]
    """The settings to try, each with the options that have them."""


def request_of(
    options: TuneOptions, step_ms: float, batch: int | None, grid: Sequence[str], cores: int
) -> TuneRequest:
    """Return the tune that options ask for.

    Args:
        options: of the command line.
        step_ms: the time of an accelerator's step.
        batch: elements of a batch; None for the variant's.
        grid: settings to try in place of the suite's own, ``NAME=VALUE,VALUE,…``.
        cores: of this machine.

    Raises:
        UsageError: the suite has nothing to tune, or options contradict one another.
    """
    suite = suite_named(load_profile(options.profile).suite)
    tuning = suite.tuning
    if tuning is None:
        raise UsageError(
            f"the suite {suite.name} of the profile {options.profile} has nothing to tune; give "
            "another --profile"
        )
    given = _given(options)
    own = {"--step-ms": tuning.step, **({} if batch is None else {"--batch": tuning.batch})}
    for option, name in own.items():
        if name in given:
            raise UsageError(f"{name} is what {option} sets; leave it out of --set")
    settings = {tuning.step: step_ms, **({} if batch is None else {tuning.batch: batch})}
    asked = {one.name: getattr(options, one.name) for one in fields(options)}
    asked["scenarios"] = options.scenarios or (tuning.scenario,)
    shared = with_settings(PlanOptions(**asked), settings, suite)
    if grid:
        found = [
            (dict(map(read_pair, one.set[len(shared.set) :])), one)
            for one in points(shared, grid).values()
        ]
    else:
        free = [
            {name: value for name, value in one.items() if name not in given}
            for one in tuning.points(cores)
        ]
        different = [one for place, one in enumerate(free) if one not in free[:place]]
        found = [(one, with_settings(shared, one, suite)) for one in different]
    return TuneRequest(suite, tuning, shared, tuple(found))


def with_settings(
    options: PlanOptions, settings: Mapping[str, Setting], suite: Suite
) -> PlanOptions:
    """Return options with settings besides, by their own options where the suite has one."""
    names = {one.name for one in suite.options if one.setting}
    own: dict[str, Any] = {name: value for name, value in settings.items() if name in names}
    others = (f"{name}={value}" for name, value in settings.items() if name not in own)
    return dataclasses.replace(options, **own, set=(*options.set, *others))


def run_words(request: TuneRequest, cell: Cell, point: Mapping[str, Setting]) -> tuple[str, ...]:
    """Return the words of `skymark` that measure one candidate again."""
    options = with_settings(request.options, point, request.suite)
    reference = request.suite.adapter_reference(cell)
    return ("run", *dataclasses.replace(options, adapters=(reference,)).words())


def _given(options: TuneOptions) -> set[str]:
    """Return the names of settings that the command line sets."""
    own = {name for name in OPTIONS_OF_SETTINGS if getattr(options, name, None) is not None}
    return own | {read_pair(text)[0] for text in options.set}
