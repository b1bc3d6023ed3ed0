"""`skymark env`: the adapters' venvs."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import skymark
from skymark.cache.location import cache_directory
from skymark.cli.caller import note, print_json, print_plain
from skymark.cli.parameters import Env
from skymark.cli.tables import Json, print_rows
from skymark.execute.accelerator import target_of
from skymark.execute.planner import read_plan
from skymark.execute.venv_specs import venvs_named, venvs_of_plan
from skymark.execute.venvs import Venvs, adapters_here, install_line
from skymark.machine.facts import has_driver
from skymark.model.errors import UsageError, VenvBuildError
from skymark.model.machine import Platform
from skymark.model.requests import Work
from skymark.model.sizes import size_text
from skymark.model.venv import VenvSpec
from skymark.report.text import MISSING
from skymark.suite.registry import suites

env = App(name="env", help="""List, build or remove the adapters' venvs.""")


@env.command(name="list")
def list_venvs(
    *names: Annotated[str, Parameter(help="Only these adapters; all, if none is given.")],
    env: Annotated[
        Env,
        Parameter(
            help="own: the venvs on disk. current: the adapters' libraries in the interpreter that "
            "skymark runs in, and one command that installs all that is missing."
        ),
    ] = "own",
    json: Json = False,
) -> int:
    """List the venvs on disk, or the libraries of the running interpreter.

    Files that several venvs share are on disk once; the sizes here count them in each.
    """
    if env == "current":
        return _list_current(names, json=json)
    built = [one for one in Venvs(cache_directory()).built() if not names or one.name in names]
    rows = [
        {
            "name": one.name,
            "target": one.target,
            "size_bytes": one.size_bytes,
            "directory": str(one.directory),
        }
        for one in built
    ]
    if json:
        print_json(json_module.dumps(rows, indent=1))
    else:
        print_rows(
            ("name", "for", "size", "directory"),
            (
                (one.name, one.target, size_text(one.size_bytes or 0), str(one.directory))
                for one in built
            ),
        )
    return 0


def _list_current(names: tuple[str, ...], *, json: bool) -> int:
    target = target_of("gpu" if has_driver("gpu") else "cpu")
    found = adapters_here(venvs_named(names, suites(), target))
    line = install_line(found)
    rows = [
        {
            "adapter": one.adapter,
            "library": one.library,
            "version": one.version,
            "missing": [str(need) for need in one.missing],
        }
        for one in found
    ]
    if json:
        print_json(json_module.dumps({"adapters": rows, "install": line}, indent=1))
        return 0
    print_rows(
        ("adapter", "library", "version", "missing"),
        (
            (one.adapter, one.library, one.version or MISSING, ", ".join(map(str, one.missing)))
            for one in found
        ),
    )
    print_plain("\nnothing is missing" if line is None else f"\ninstall what is missing: {line}")
    return 0


@env.command
def build(
    *names: Annotated[
        str,
        Parameter(
            help="As `skymark list adapters` shows them, or NAME@VERSION; all, if none is given."
        ),
    ],
    plan: Annotated[
        Path | None,
        Parameter(help="Those of this plan's cells, as `skymark plan --output` has it."),
    ] = None,
    profile: Annotated[
        str | None,
        Parameter(help="Those of a profile's cells: a name that `skymark list profiles` shows."),
    ] = None,
    platform: Annotated[
        Platform,
        Parameter(
            help="With NAMES: the machine that they are for. gpu takes the builds of libraries "
            "that the driver here can use, those for CUDA 12 where there is none."
        ),
    ] = "cpu",
) -> int:
    """Build venvs now instead of on first use.

    Exit status: 0 all were built, or there before; 1 one could not be built, 2 bad usage.
    """
    venvs = Venvs(cache_directory(), announce=note)
    failed = False
    for name, spec in _wanted(names, plan, profile, platform).items():
        try:
            built = venvs.ensure(spec)
            print_plain(f"{name}: {built.directory}")
        except VenvBuildError as error:
            failed = True
            note(f"{error}\n{error.log_tail}")
    return 1 if failed else 0


def _wanted(
    names: tuple[str, ...], plan_file: Path | None, profile: str | None, platform: Platform
) -> dict[str, VenvSpec]:
    """Return the venvs that a user asks for, by name."""
    if bool(names) + (plan_file is not None) + (profile is not None) > 1:
        raise UsageError("give names, --plan or --profile, and only one of them")
    if (plan_file is not None or profile is not None) and platform != "cpu":
        raise UsageError("--platform goes with names; a plan and a profile have one of their own")
    if plan_file is not None:
        plan = read_plan(plan_file)
        return venvs_of_plan(plan, target_of(plan.platform))
    if profile is not None:
        plan = skymark.plan(Work(profile=profile))
        return venvs_of_plan(plan, target_of(plan.platform))
    return venvs_named(names, suites(), target_of(platform))


@env.command
def cloud() -> int:
    """Make the venv of SkyPilot, which launch and the other commands for rented machines run in.

    Every one of them finds it by itself; in a checkout `make cloud` does the same.
    """
    from skymark.cloud import make_cloud_venv

    note("making the venv of SkyPilot (once)")
    print_plain(f"cloud: {make_cloud_venv()}")
    return 0


@env.command
def clean(
    *names: Annotated[
        str, Parameter(help="As `skymark env list` shows them; all, if none is given.")
    ],
) -> int:
    """Remove venvs; they are made again when they are needed."""
    venvs = Venvs(cache_directory())
    known = {one.name for one in venvs.built()}
    for name in names or (None,):
        # A name that is no adapter's is an error, not a silent nothing.
        chosen = {name}
        if name is not None and name not in known:
            chosen = {spec.name for spec in venvs_named([name], suites()).values()}
        for one in chosen:
            for removed in venvs.clean(one):
                print_plain(f"removed {removed.name}: {removed.directory}")
    return 0
