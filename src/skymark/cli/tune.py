"""`skymark tune`: the library and the settings that keep an accelerator fed at the least CPU."""

from __future__ import annotations

import json as json_module
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import skymark
from skymark.api import TARGET, tune_directory
from skymark.cli.caller import end_when_told, note, print_json, print_plain, say
from skymark.cli.console import PlainConsole
from skymark.cli.grid import axes_of
from skymark.cli.help import RARE
from skymark.cli.options import DECLARED, PlanOptions, typed_options
from skymark.cli.parameters import (
    COUNT,
    DIRECTORY,
    HOW,
    MILLISECONDS,
    NAME,
    PART,
    WHAT,
    WHERE,
    Env,
    Several,
)
from skymark.cli.tables import Json, print_rows
from skymark.execute.planner import load_profile
from skymark.execute.project_file import results_directory
from skymark.execute.tune import tuning_of
from skymark.model.errors import UsageError
from skymark.model.option import read_value
from skymark.model.requests import DEFAULT_PROFILE, Results, Work
from skymark.plain_files import read_regular
from skymark.suite.registry import suite_named, suites

if TYPE_CHECKING:
    from skymark.execute.tune import TuningOrder
    from skymark.report.tuning import Choice, MeasuredMachine


def _tunable() -> dict[str, Any]:
    """Return the options of suites that have something to tune, without the tune's own."""
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
WATCHED = "verdict.json"
"""File of a watch's directory."""
LARGEST_VERDICT_BYTES = 1 << 24
Hidden = Annotated[None, Parameter(parse=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TuneOptions(PlanOptions):
    """The options of `run` that `tune` has; a tune itself decides the number of rounds."""

    effort: Hidden = None
    rounds: Hidden = None
    time: Hidden = None
    goal: Hidden = None
    own: Annotated[TunableOptions, Parameter(name="*")] = field(default_factory=dict)


DEFAULT_OPTIONS = TuneOptions()


def tune(  # noqa: PLR0913  # its parameters are the options of a command
    data: Annotated[
        str | None,
        Parameter(
            name="DATA",
            group=WHAT,
            help="Your data, as --data takes it, or your own loader: FILE.py:NAME, a function that "
            "returns one; `skymark tune --profile own_loader --help` shows its options.",
        ),
    ] = None,
    /,
    options: TuneOptions = DEFAULT_OPTIONS,
    *,
    step_ms: Annotated[
        float | None,
        MILLISECONDS,
        Parameter(
            group=WHAT,
            help="Milliseconds that your GPU computes per batch. Without it and without --step "
            "the command asks.",
        ),
    ] = None,
    watch: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=WHAT,
            help="In place of --step-ms: what `skymark watch --output DIR` saw of your loop.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        COUNT,
        Parameter(group=WHAT, help="Elements per batch. [default: the scenario's]"),
    ] = None,
    target: Annotated[
        float,
        PART,
        Parameter(group=WHAT, help="Part of its time that the GPU is to be busy."),
    ] = TARGET,
    grid: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            name=("--grid", "--try"),
            group=HOW,
            metavar="NAME=VALUE,VALUE...",
            help="Values to try for a setting, such as workers=2,4,8, in place of the usual ones; "
            "for a parameter of your own loader, beside the usual ones of others. A setting with "
            "one value, such as --workers 4, stays.",
        ),
    ] = (),
    effort: Annotated[
        str,
        NAME,
        Parameter(
            group=HOW,
            help="check, quick, standard or rigorous: length of the finalists' measurement; all "
            "earlier ones are in proportion.",
        ),
    ] = "standard",
    exhaustive: Annotated[
        bool,
        Parameter(group=(HOW, RARE), help="Measure every candidate for as long as the finalists."),
    ] = False,
    runs: Annotated[
        tuple[Path, ...],
        Several,
        Parameter(
            group=(WHERE, RARE),
            metavar="DIRECTORY...",
            help="Runs or tunes of the same work on other machines; shows the cheapest machine "
            "that suffices.",
        ),
    ] = (),
    output: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=WHERE,
            help="The tune's directory. [default: a new one, results/TIME-PROFILE-tune-ID]",
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(
            group=WHERE,
            help="Continue the tune in --output, else the newest unfinished tune of this profile.",
        ),
    ] = False,
    env: Annotated[Env, Parameter(group=(WHERE, RARE))] = "own",
    json: Annotated[Json, Parameter(group=WHERE)] = False,
) -> int:
    """Find the loader and settings that feed a GPU with the least CPU.

    Measures many candidates for a moment, the best third for longer, and so on, and checks that
    all did the same work (not for your own loader). The candidate that keeps the GPU busy with the
    least CPU time wins; if no candidate does, the fastest wins, and you see the machine's limit.
    After Ctrl-C the same command with --resume continues.

    Examples:
      skymark tune ./photos --step-ms 85 --batch 256
      skymark tune train.py:make_loader --step-ms 120

    Exit status: 0 a candidate reaches the target; 1 none does; 2 nothing was started; 130
    interrupted.
    """
    from skymark.cli.progress import ProgressObserver
    from skymark.report.tuning import LOG, OUTCOME

    axes = {name: [read_value(one) for one in values] for name, values in axes_of(grid).items()}
    results = Results(directory=results_directory(), output=output, resume=resume)
    if data is not None and (profile := _profile_of_loader(data)) is not None:
        options, data = _of_own_loader(options, data, profile), None
    path = tune_directory(options.profile, results)
    declaration = suite_named(load_profile(options.profile).suite).declaration
    work = _on_data(options.work(), data).changed(effort=effort)
    if watch is not None:
        step_ms = _seen_step_ms(watch, step_ms)
    if step_ms is None:
        work, step_ms = _with_step(work)
    end_when_told()
    try:
        choice = skymark.tune(
            work,
            step_ms=step_ms,
            batch=batch,
            target=target,
            grid=axes,
            exhaustive=exhaustive,
            runs=runs,
            results=results.changed(output=path),
            observers=lambda expected_s: ProgressObserver(
                PlainConsole(stderr=True), expected_s, declaration
            ),
            own_venvs=env == "own",
        )
    except KeyboardInterrupt:
        say(
            f"interrupted; the finished candidates are in {path}. Continue with the same command "
            f"and --output {path} --resume"
        )
        raise
    if json:
        print_json(choice.to_json())
    else:
        _show(choice)
    note(f"outcome in {path / OUTCOME}, what was tried in {path / LOG}")
    note(f"each stage is a run: skymark report {path}/rung-1")
    return 0 if choice.reaches else 1


def _profile_of_loader(text: str) -> str | None:
    """Return the profile for a text that names a loader of the user's own; None for data."""
    tunings = (suite.tuning for suite in suites() if suite.tuning is not None)
    return next((one.profile for one in tunings if one.loader and one.loader.fullmatch(text)), None)


def _of_own_loader(options: TuneOptions, reference: str, profile: str) -> TuneOptions:
    """Return options for a loader of the user's own.

    Raises:
        UsageError: they name another profile, or loaders.
    """
    if options.profile not in {DEFAULT_PROFILE, profile} or options.adapters:
        raise UsageError(
            f"{reference} is the loader to tune; leave out --profile and --adapters, which name "
            "others"
        )
    return replace(options, profile=profile, adapters=(reference,))


def _seen_step_ms(directory: Path, step_ms: float | None) -> float:
    """Return the milliseconds of a step that a watch saw, to three digits.

    Raises:
        UsageError: a step is given, too, or the directory has no verdict of a watch.
    """
    if step_ms is not None:
        raise UsageError("--step-ms and --watch both name a step; leave one of them out")
    path = directory / WATCHED
    try:
        verdict = json_module.loads(read_regular(path, largest=LARGEST_VERDICT_BYTES))
        step_s = 1 / float(verdict["batches_per_s_if_data_were_free"])
    except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise UsageError(
            f"{directory} has no verdict of a watch ({error}); make one with `skymark watch "
            f"--output {directory} -- python train.py`"
        ) from error
    milliseconds = float(f"{1000 * step_s:.3g}")
    note(f"a step takes {milliseconds:g} ms, as seen in {directory}")
    return milliseconds


def _on_data(work: Work, data: str | None) -> Work:
    """Return a request for the data that was named without an option.

    Raises:
        UsageError: --data names some, too.
    """
    if data is None:
        return work
    name = tuning_of(work).data
    if name is None:
        raise UsageError(f"the profile {work.profile} reads no data; leave {data} out")
    if name in work.options or name in work.settings:
        raise UsageError(f"{data} and --data both name data; leave one of them out")
    return work.changed(settings={**work.settings, name: data})


def _with_step(work: Work) -> tuple[Work, float | None]:
    """Ask for the training step if a terminal is there and the request names none.

    Returns:
        The request, with the name of a network that was answered; the milliseconds, if those were.
    """
    step = tuning_of(work).measured_step
    is_given = step is not None and step.network in work.settings
    if is_given or not sys.stdin.isatty():
        return work, None  # without a step, `skymark.tune` says what to give
    say("How many milliseconds does your GPU compute per batch?")
    or_network = "Or name a network to measure here [resnet50]: " if step is not None else ""
    answer = input(or_network).strip() or ("resnet50" if step is not None else "")
    try:
        return work, float(answer)
    except ValueError:
        if step is None:
            raise UsageError(f"{answer!r} is no number of milliseconds") from None
        return work.changed(settings={**work.settings, step.network: answer}), None


def _show(choice: Choice) -> None:
    """Print the candidates, the reason of the choice, and how to measure it again."""
    print_plain("\n".join((*choice.sentences, "")))
    print_rows(choice.headings(), choice.rows())
    lines = ["", *choice.reason()[len(choice.sentences) :]]
    if choice.command:
        settings = " ".join(f"{name}={value}" for name, value in choice.settings.items())
        paste = ["", "in your program:", f"  {choice.code}"] if choice.code else []
        again = f"to measure it again: {shlex.join(choice.command)}"
        lines += ["", f"settings: {settings}", *paste, "", again]
    print_plain("\n".join(lines))
    if choice.machines:
        _show_machines(choice.tuned.order, choice.machines)


def _show_machines(order: TuningOrder, machines: Sequence[MeasuredMachine]) -> None:
    from skymark.report.tuning import HEADINGS, cheapest, machine_row

    print_plain("")
    headings = (*HEADINGS, order.goal.heading, order.rate.heading)
    print_rows(headings, (machine_row(one, order) for one in machines))
    best = cheapest(machines)
    print_plain(
        "no machine of a known price suffices"
        if best is None
        else f"cheapest machine that suffices: {best.name}, {best.hourly_price_usd:.2f} USD/h"
    )
