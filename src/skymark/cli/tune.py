"""`skymark tune`: the library and the settings that keep an accelerator fed at the least CPU."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import skymark
from skymark.api import TARGET, new_directory
from skymark.cli.caller import end_when_told, note, print_json, say
from skymark.cli.console import PlainConsole
from skymark.cli.grid import axes_of
from skymark.cli.options import DECLARED, PlanOptions, typed_options
from skymark.cli.parameters import COUNT, HOW, MILLISECONDS, PART, WHAT, WHERE, Env, Several
from skymark.cli.tables import Json, print_rows, stdout_console
from skymark.model.option import read_value
from skymark.model.requests import Results
from skymark.suite.registry import suites

if TYPE_CHECKING:
    from skymark.execute.tune import TuningOrder
    from skymark.report.tuning import Choice, MeasuredMachine


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


DEFAULT_OPTIONS = TuneOptions()


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
    from skymark.cli.progress import ProgressObserver
    from skymark.report.tuning import OUTCOME

    axes = {name: [read_value(one) for one in values] for name, values in axes_of(grid).items()}
    path = output or new_directory(f"{options.profile}-tune")
    end_when_told()
    try:
        choice = skymark.tune(
            options.work().changed(effort=effort),
            step_ms=step_ms,
            batch=batch,
            target=target,
            grid=axes,
            exhaustive=exhaustive,
            runs=runs,
            results=Results(output=path, resume=resume),
            observers=lambda expected_s: ProgressObserver(PlainConsole(stderr=True), expected_s),
            own_venvs=env == "own",
        )
    except KeyboardInterrupt:
        say(
            f"interrupted; what was measured is in {path}. Continue with the same command and "
            f"--output {path} --resume"
        )
        raise
    if json:
        print_json(choice.to_json())
    else:
        _show(choice)
    note(f"outcome in {path / OUTCOME}; each rung is a run: skymark report {path}/rung-1")
    return 0 if choice.reaches else 1


def _show(choice: Choice) -> None:
    """Print the candidates, the reason of the choice, and how to measure it again."""
    print_rows(choice.headings(), choice.rows())
    lines = ["", *choice.reason()]
    if choice.command:
        settings = " ".join(f"{name}={value}" for name, value in choice.settings.items())
        lines += ["", f"settings: {settings}", f"again: {shlex.join(choice.command)}"]
    _print_lines(lines)
    if choice.machines:
        _show_machines(choice.tuned.order, choice.machines)


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
