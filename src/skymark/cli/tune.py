"""`skymark tune`: the library and the settings that keep an accelerator fed at the least CPU."""

from __future__ import annotations

import dataclasses
import json as json_module
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from skymark.api import expected_time
from skymark.cli.caller import end_when_told, note, print_json, say
from skymark.cli.console import PlainConsole
from skymark.cli.grid import points
from skymark.cli.options import (
    DECLARED,
    OPTIONS_OF_SETTINGS,
    PlanOptions,
    typed_options,
)
from skymark.cli.parameters import COUNT, HOW, MILLISECONDS, PART, WHAT, WHERE, Env, Several
from skymark.cli.tables import Json, print_rows, stdout_console
from skymark.execute.planner import load_profile
from skymark.model.effort import Effort
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.option import read_pair
from skymark.model.plan import Plan
from skymark.model.record import Cell, Record, Setting
from skymark.model.requests import Results
from skymark.plain_files import explained, write_whole
from skymark.references import load_object
from skymark.report.text import escaped_json
from skymark.rundir.layout import MANIFEST, new_run_id
from skymark.suite.contract import Ceiling, Ceilings, Suite, Tuning
from skymark.suite.registry import suite_named, suites

if TYPE_CHECKING:
    from skymark.execute.tune import TuningOrder
    from skymark.report.tuning import MeasuredMachine, TuningReport


def _tunable() -> dict[str, Any]:
    """Return the options of suites that have something to tune, without those of the tune."""
    tuned = {one.name: one.tuning for one in suites() if one.tuning is not None}
    own = {one.step for one in tuned.values()} | {one.batch for one in tuned.values()}
    return {
        name: one
        for name, one in DECLARED.items()
        if tuned.keys() & set(one.suites) and name not in own
    }


if TYPE_CHECKING:
    TunableOptions = dict[str, Any]
else:
    TunableOptions = typed_options(_tunable())
Hidden = Annotated[None, Parameter(parse=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TuneOptions(PlanOptions):
    """The options of `run` that `tune` has: a tune says by itself how often to measure."""

    effort: Hidden = None
    rounds: Hidden = None
    time: Hidden = None
    goal: Hidden = None
    own: Annotated[TunableOptions, Parameter(name="*")] = field(default_factory=dict)


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
    scenarios = options.scenarios or (tuning.scenario,)
    shared = with_settings(dataclasses.replace(options, scenarios=scenarios), settings, suite)
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
    return dataclasses.replace(options, own=options.own | own, set=(*options.set, *others))


def run_words(request: TuneRequest, cell: Cell, point: Mapping[str, Setting]) -> tuple[str, ...]:
    """Return the words of `skymark` that measure one candidate again."""
    options = with_settings(request.options, point, request.suite)
    reference = request.suite.adapter_reference(cell)
    return ("run", *dataclasses.replace(options, adapters=(reference,)).words())


def _given(options: TuneOptions) -> set[str]:
    """Return the names of settings that the command line sets."""
    own = set(OPTIONS_OF_SETTINGS) & options.own.keys()
    return own | {read_pair(text)[0] for text in options.set}


DEFAULT_OPTIONS = TuneOptions()
OUTCOME = "tune.json"
"""The outcome's file, beside the directories of the rungs."""
TARGET = 0.95


def tune(  # noqa: PLR0913  # its parameters are the options of a command
    options: TuneOptions = DEFAULT_OPTIONS,
    *,
    step_ms: Annotated[
        float,
        MILLISECONDS,
        Parameter(group=WHAT, help="Milliseconds that the accelerator computes per batch."),
    ],
    batch: Annotated[
        int | None,
        COUNT,
        Parameter(group=WHAT, help="Elements of a batch. [default: the scenario's]"),
    ] = None,
    target: Annotated[
        float,
        PART,
        Parameter(group=WHAT, help="The share of its time that the accelerator is to be busy."),
    ] = TARGET,
    grid: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            help="NAME=VALUE,VALUE,… of a setting that `skymark run --set` knows, such as "
            "workers=2,4,8: to be tried in place of the usual ones. A setting that is given "
            "once, such as --workers 4, is not tuned.",
        ),
    ] = (),
    effort: Annotated[
        str,
        Parameter(
            group=HOW,
            help="quick, standard or rigorous: how long the finalists are measured, and the others "
            "in proportion; of loaders also check: a moment each, to see whether all works.",
        ),
    ] = "standard",
    exhaustive: Annotated[
        bool,
        Parameter(group=HOW, help="Measure every candidate for as long as the finalists."),
    ] = False,
    runs: Annotated[
        tuple[Path, ...],
        Several,
        Parameter(
            group=WHERE,
            help="Directories of runs, or of tunes, of the same work on other kinds of machines: "
            "says which is the cheapest that suffices.",
        ),
    ] = (),
    output: Annotated[
        Path | None,
        Parameter(
            group=WHERE, help="The tune's directory. [default: results/TIME-PROFILE-tune-CHANCE]"
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(
            group=WHERE, help="Continue the tune in --output, with the options it was made with."
        ),
    ] = False,
    env: Annotated[Env, Parameter(group=WHERE)] = "own",
    json: Annotated[Json, Parameter(group=WHERE)] = False,
) -> int:
    """Find the library and the settings that keep an accelerator fed at the least CPU.

    Many candidates are measured for a moment, the best third for longer, and so on; an oracle
    checks all of them, as in `run`. Of those that keep the accelerator busy, the one that uses
    the least CPU is chosen; where none does, the fastest, with what limits the machine. Ctrl-C
    keeps what was measured, and the same command with --output DIRECTORY --resume goes on.

    Exit status: 0 a candidate reaches the target, 1 none does, 2 nothing was started, 130
    interrupted.
    """
    from skymark.execute.tune import TuningOrder, candidates_of
    from skymark.machine.disk import usable_cores
    from skymark.report.tuning import machines_of, runs_in

    request = request_of(options, step_ms, batch, grid, usable_cores())
    tuning, suite = request.tuning, request.suite
    efforts = tuning.efforts(step_ms, effort)[-1 if exhaustive else 0 :]
    candidates = candidates_of((point, one.plan()) for point, one in request.points)
    order = TuningOrder.of(tuning, suite.declaration, target)
    same = (tuning.step, tuning.batch)
    machines = machines_of(runs_in(runs), candidates.cells[0].cell, suite, order, same)
    path = output or Path("results") / new_run_id(f"{options.profile}-tune", datetime.now(UTC))
    _require_place(path, resume=resume)
    if options.timeout is not None:
        limit = {"cell_timeout_s": options.timeout}
        efforts = [one.model_copy(update=limit) for one in efforts]
    end_when_told()
    note(f"{len(candidates.runnable)} candidates; their records go to {path}")
    try:
        report = _carried_out(request, candidates, efforts, order, path, own=env == "own")
    except KeyboardInterrupt:
        say(
            f"interrupted; what was measured is in {path}. Continue with the same command and "
            f"--output {path} --resume"
        )
        raise
    found = _content(request, report, machines, own=env == "own")
    with explained(path / OUTCOME):
        write_whole(path / OUTCOME, escaped_json(json_module.dumps(found, indent=1)).encode())
    if json:
        print_json(json_module.dumps(found, indent=1))
    else:
        _show(found, report, machines)
    note(f"outcome in {path / OUTCOME}; each rung is a run: skymark report {path}/rung-1")
    return 0 if report.reaches else 1


def _require_place(path: Path, *, resume: bool) -> None:
    """Refuse a directory that is another thing's, or a tune's that is not to be continued."""
    if (path / MANIFEST).exists():
        raise RunDirectoryError(f"{path} holds a run and no tune; choose another --output")
    if not resume and path.is_dir() and any(path.iterdir()):
        raise RunDirectoryError(
            f"{path} is not empty; add --resume to continue a tune there, or choose another "
            "--output"
        )


def _carried_out(
    request: TuneRequest,
    candidates: Plan,
    efforts: Sequence[Effort],
    order: TuningOrder,
    path: Path,
    *,
    own: bool,
) -> TuningReport:
    """Measure the candidates rung by rung, then the machine itself."""
    from skymark.cache.location import cache_directory
    from skymark.cli.progress import ProgressObserver
    from skymark.execute.session import run as carry_out
    from skymark.execute.sweeps import Sweeps
    from skymark.execute.tune import tune as measure_rungs
    from skymark.machine.measuring_lock import measuring
    from skymark.report.tuning import TuningReport

    def run(plan: Plan, place: Path) -> Sequence[Record]:
        time = expected_time(plan)
        with ProgressObserver(PlainConsole(stderr=True), time.measuring.expected_s) as observer:
            rounds = plan.effort.min_rounds
            observer.stage(f"{place.name}: {len(plan.runnable)} candidates, {rounds} rounds each")
            results = Results(output=place, resume=(place / MANIFEST).exists())
            return carry_out(plan, results, observer, Sweeps(), own=own).records

    names = {name for point, _ in request.points for name in point}
    tuned = measure_rungs(candidates, efforts, order, path, run, names)
    ceilings: Sequence[Ceiling] = ()
    if (chosen := tuned.chosen) is not None:
        measure: Ceilings = load_object(request.tuning.ceilings)
        with measuring(announce=note):
            ceilings = measure(chosen, cache_directory())
    return TuningReport(tuned, tuple(ceilings))


def _content(
    request: TuneRequest,
    report: TuningReport,
    machines: Sequence[MeasuredMachine],
    *,
    own: bool,
) -> dict[str, Any]:
    """Return the outcome as JSON has it."""
    from skymark.report.tuning import cheapest

    found = report.json_content()
    if (chosen := report.tuned.chosen) is not None:
        point = report.tuned.point(chosen)
        found["settings"] = {**chosen.cell.settings, **point}
        words = (*run_words(request, chosen.cell, point), *(() if own else ("--env", "current")))
        found["command"] = shlex.join(("skymark", *words))
    found["machines"] = [one.json_content() for one in machines]
    best = cheapest(machines)
    found["cheapest_machine"] = None if best is None else best.json_content()
    return found


def _show(
    found: Mapping[str, Any], report: TuningReport, machines: Sequence[MeasuredMachine]
) -> None:
    """Print the candidates, the reason of the choice, and how to measure it again."""
    print_rows(report.headings(), report.rows())
    lines = ["", *report.reason()]
    if "command" in found:
        settings = " ".join(f"{name}={value}" for name, value in found["settings"].items())
        lines += ["", f"settings: {settings}", f"again: {found['command']}"]
    _print_lines(lines)
    if machines:
        _show_machines(report.tuned.order, machines)


def _show_machines(order: TuningOrder, machines: Sequence[MeasuredMachine]) -> None:
    from skymark.report.tuning import HEADINGS, cheapest, machine_row

    _print_lines([""])
    headings = (*HEADINGS, order.goal.heading, order.rate.heading)
    print_rows(headings, (machine_row(one, order) for one in machines))
    best = cheapest(machines)
    _print_lines(
        [
            "no machine of a known price suffices"
            if best is None
            else f"the cheapest that suffices: {best.name}, {best.hourly_price_usd:.2f} USD/h"
        ]
    )


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        stdout_console().print(line, markup=False, highlight=False, soft_wrap=True)
