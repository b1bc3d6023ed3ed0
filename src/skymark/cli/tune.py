"""`skymark tune`: the library and the settings that keep an accelerator fed at the least CPU."""

from __future__ import annotations

import json as json_module
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from skymark.cli.caller import end_when_told, note, print_json, say
from skymark.cli.console import PlainConsole
from skymark.cli.parameters import COUNT, HOW, MILLISECONDS, PART, WHAT, WHERE, Env, Several
from skymark.cli.tables import Json, expected_time, print_rows, stdout_console
from skymark.cli.tune_options import TuneOptions, TuneRequest, request_of, run_words
from skymark.model.effort import Effort
from skymark.model.errors import RunDirectoryError
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.plain_files import explained, write_whole
from skymark.references import load_object
from skymark.report.text import escaped_json
from skymark.rundir.layout import MANIFEST, new_run_id
from skymark.suite.contract import Ceiling, Ceilings

if TYPE_CHECKING:
    from skymark.execute.tune import TuningOrder
    from skymark.report.tuning import MeasuredMachine, TuningReport

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
    from skymark.cli.console import ProgressObserver
    from skymark.execute.session import run_plan
    from skymark.execute.tune import tune as measure_rungs
    from skymark.machine.measuring_lock import measuring
    from skymark.report.tuning import TuningReport

    def run(plan: Plan, place: Path) -> Sequence[Record]:
        time = expected_time(plan)
        with ProgressObserver(PlainConsole(stderr=True), time.measuring.expected_s) as observer:
            rounds = plan.effort.min_rounds
            observer.stage(f"{place.name}: {len(plan.runnable)} candidates, {rounds} rounds each")
            begun = (place / MANIFEST).exists()
            return run_plan(plan, place, observer, resume=begun, own=own).records

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
