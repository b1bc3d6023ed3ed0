"""Run `skymark run` in a container or on a rented machine, on the platform that was asked for.

    python -m benchmarks.runners.full_runner --platform gpu --profile gpu_a100 --output DIR

Every option that is not told here goes on to ``skymark run``. The same command goes on where an
earlier one stopped: it resumes whatever the output directory or a store holds of its plan.

As a job of SkyPilot it needs no directory: each job has its own, ``~/results/JOB``, to which
``~/results/latest`` leads, and each of its nodes takes its part of the plan.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cyclopts import CycloptsError

from skymark.cli.caller import INTERRUPTED, USAGE_ERROR, end_when_told, say, use_any_output
from skymark.cli.main import add_suites, app, tell_usage
from skymark.cli.options import PlanOptions
from skymark.cli.run import RunOptions, measure, wanted_plan
from skymark.execute.accelerator import require_accelerator
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.machine import Platform
from skymark.model.plan import Plan
from skymark.rundir.layout import MANIFEST

PLATFORMS = ("cpu", "gpu", "tpu")
PROGRAM = "full_runner"
RESULTS = Path("~/results")
"""Directory of runs of a machine's jobs."""
LATEST = "latest"
"""Link to the newest of them."""
SPLITTING = {"--shard", "--split"}
"""Options of ``skymark run`` that say which part of a plan to run."""
JOB_VARIABLE = "SKYPILOT_TASK_ID"
"""A job's id with SkyPilot, other than that of any other job."""


@dataclass(frozen=True)
class Request:
    """The request of a command line."""

    platform: Platform | None
    """None for the plan's."""
    output: Path | None
    results: Path | None
    own_venvs: bool
    passed_on: tuple[str, ...]
    """Options of ``skymark run``, as they were given."""
    command: tuple[str, ...] = ("run",)
    """Which ``run`` it is: skymark's, or that of a suite with words of its own."""


def read(arguments: Sequence[str] | None = None) -> Request:
    """Read a command line; exits with status 2 where an option of the runner's is wrong."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run a profile or a plan on this machine, or go on with it. Takes the options "
        "of `skymark run` too: skymark run --help.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        help="required of the machine; with gpu or tpu, nothing starts without it "
        "(default: the profile's)",
    )
    where = parser.add_argument_group("where the run lies, one of")
    where.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="the run's own directory; one that holds runs is taken as --results",
    )
    where.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="a directory of runs, in which this one is named after its profile and plan",
    )
    parser.add_argument(
        "--env",
        choices=("own", "current"),
        default="own",
        help="as of `skymark run`; current also asks this interpreter's libraries for the "
        "accelerator",
    )
    known, passed_on = parser.parse_known_args(arguments)
    output = known.output
    if output is None and known.results is None:
        output = directory_of_job()
    if output is None and known.results is None:
        parser.error("give --output DIR or --results DIR")
    return Request(
        platform=known.platform,
        output=output,
        results=known.results,
        own_venvs=known.env == "own",
        passed_on=(*passed_on, *part_of_node(passed_on)),
    )


def directory_of_job() -> Path | None:
    """Return the run's directory in a job of SkyPilot that names none; else None."""
    job = os.environ.get(JOB_VARIABLE)
    return RESULTS.expanduser() / job if job else None


def link_as_newest(run: Path) -> None:
    """Let the link to a machine's newest run lead to this one, in a job of SkyPilot."""
    job, results = os.environ.get(JOB_VARIABLE), RESULTS.expanduser()
    if not job or run.absolute().parent != results:
        return
    results.mkdir(parents=True, exist_ok=True)
    link = results / f".{LATEST}-{job}"
    link.unlink(missing_ok=True)
    link.symlink_to(run.name)
    link.rename(results / LATEST)


def holds_runs(directory: Path) -> bool:
    """Whether a directory is one of runs, and no run itself."""
    if (directory / MANIFEST).exists():
        return False
    below = directory.glob(f"*/{MANIFEST}")
    return directory.absolute() == RESULTS.expanduser() or next(below, None) is not None


def part_of_node(passed_on: Sequence[str]) -> tuple[str, ...]:
    """Return the option for this node's part of the plan, in a job of several nodes."""
    nodes = int(os.environ.get("SKYPILOT_NUM_NODES") or 1)
    if nodes == 1 or any(option.partition("=")[0] in SPLITTING for option in passed_on):
        return ()
    return ("--shard", f"{os.environ['SKYPILOT_NODE_RANK']}/{nodes}")


def parsed(passed_on: Sequence[str], command: Sequence[str] = ("run",)) -> tuple[Plan, RunOptions]:
    """Return the plan and the other options that words of ``skymark run`` ask for.

    Raises:
        CycloptsError: an option is wrong.
        UsageError: a name, setting or file is wrong.
    """
    words = [*command, *passed_on]
    add_suites(words)
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    given = bound.arguments
    options: PlanOptions = given["options"]
    how: RunOptions = given["how"]
    # A suite's own `run` takes no file.
    plan = wanted_plan(options, given["plan"]) if "plan" in given else options.plan()
    return plan, how


def directory_of(request: Request, plan: Plan) -> Path:
    """Return the run's directory: the one given, else one that the same command finds again."""
    if request.output is not None and not holds_runs(request.output):
        return request.output
    results = request.output or request.results
    assert results is not None
    return results / f"{Path(plan.profile).stem}-{plan.hash[:12]}"


def run(request: Request) -> int:
    """Check the machine, then measure; returns the exit status of ``skymark run``.

    Raises:
        CycloptsError: an option is wrong.
        SkymarkError: the plan cannot be made, or the accelerator is not there.
    """
    plan, how = parsed(request.passed_on, request.command)
    platform = request.platform or plan.platform
    if plan.platform not in {"cpu", platform}:
        raise UsageError(
            f"profile {plan.profile} is for a machine with a {plan.platform.upper()}; give "
            f"--platform {plan.platform}, or another --profile"
        )
    if platform == "cpu":
        # Read by JAX when it is imported, in workers too: no search for accelerators.
        os.environ["JAX_PLATFORMS"] = "cpu"
    if platform != plan.platform:  # else the run itself asks
        require_accelerator(platform, lambda text: say(text, PROGRAM), own=request.own_venvs)
    output = directory_of(request, plan)
    link_as_newest(output)
    env: Literal["own", "current"] = "own" if request.own_venvs else "current"
    # Without a run to go on with, resuming begins one.
    return measure(plan, replace(how, output=output, env=env, resume=True))


def entry_point(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line; returns the exit status, as ``skymark run`` has them."""
    return carry_out(lambda: read(arguments))


def carry_out(request: Callable[[], Request]) -> int:
    """Carry out what is requested; returns the exit status."""
    # As process 1 of a container, without a handler, a request to terminate would be lost.
    end_when_told()
    try:
        return run(request())
    except CycloptsError as error:
        tell_usage(error)
        return USAGE_ERROR
    except SkymarkError as error:
        say(str(error), PROGRAM)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    use_any_output()
    sys.exit(entry_point())
