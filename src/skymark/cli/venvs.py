"""`skymark env`: the adapters' venvs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import skymark
from skymark.cache.location import cache_directory
from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.parameters import FILE, NAME, Env
from skymark.cli.tables import Json, print_rows
from skymark.execute.accelerator import target_of
from skymark.execute.planner import read_plan
from skymark.execute.venv_specs import venvs_named, venvs_of_plan
from skymark.execute.venvs import BuiltVenv, Venvs, adapters_here, install_line
from skymark.machine.facts import has_driver
from skymark.model.errors import UsageError, VenvBuildError
from skymark.model.machine import Platform
from skymark.model.requests import Work
from skymark.model.sizes import size_text
from skymark.model.venv import VenvSpec
from skymark.report.text import MISSING
from skymark.suite.registry import suites

env = App(name="env", help="""List, build or remove the adapters' Python environments.""")


@env.command(name="list")
def list_venvs(
    *names: Annotated[str, Parameter(help="Only these adapters. [default: all]")],
    env: Annotated[
        Env,
        Parameter(
            help="own: the venvs on disk. current: the adapters' libraries in skymark's own venv, "
            "and a command that installs the missing ones."
        ),
    ] = "own",
    json: Json = False,
) -> int:
    """List the venvs on disk, or the libraries in skymark's own venv.

    Each venv's size includes the files that it shares with others, which are on disk once.

    Examples:
      skymark env list
      skymark env list --env current
    """
    if env == "current":
        return _list_current(names, json=json)
    built = [one for one in Venvs(cache_directory()).built() if not names or one.name in names]
    if json:
        print_json(built)
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
    if json:
        print_json({"adapters": found, "install": line})
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
        Parameter(help="Names from `skymark list adapters`, or NAME@VERSION. [default: all]"),
    ],
    plan: Annotated[
        Path | None,
        FILE,
        Parameter(help="The venvs of a plan: a file of `skymark plan --output`."),
    ] = None,
    profile: Annotated[
        str | None,
        NAME,
        Parameter(help="The venvs of a profile: a name from `skymark list profiles`."),
    ] = None,
    platform: Annotated[
        Platform,
        Parameter(
            help="With NAMES: kind of machine. gpu takes the builds of libraries for the driver "
            "here, or for CUDA 12 if there is no driver."
        ),
    ] = "cpu",
    json: Json = False,
) -> int:
    """Build venvs now instead of on first use.

    Examples:
      skymark env build pytorch grain@0.2
      skymark env build --profile cpu

    Exit status: 0 all are there; 1 one failed; 2 bad usage.
    """
    venvs = Venvs(cache_directory(), announce=note)
    built: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, spec in _wanted(names, plan, profile, platform).items():
        try:
            built[name] = str(venvs.ensure(spec).directory)
            if not json:
                print_plain(f"{name}: {built[name]}")
        except VenvBuildError as error:
            failed[name] = str(error)
            say(f"{error}\n{error.log_tail}")
    if json:
        print_json({"built": built, "failed": failed})
    return 1 if failed else 0


def _wanted(
    names: tuple[str, ...], plan_file: Path | None, profile: str | None, platform: Platform
) -> dict[str, VenvSpec]:
    """Return the venvs that a user asks for, by name."""
    if bool(names) + (plan_file is not None) + (profile is not None) > 1:
        raise UsageError("names, --plan and --profile exclude one another; give only one")
    if (plan_file is not None or profile is not None) and platform != "cpu":
        raise UsageError("--platform is for names; a plan and a profile have their own platform")
    if plan_file is not None:
        plan = read_plan(plan_file)
        return venvs_of_plan(plan, target_of(plan.platform))
    if profile is not None:
        plan = skymark.plan(Work(profile=profile))
        return venvs_of_plan(plan, target_of(plan.platform))
    return venvs_named(names, suites(), target_of(platform))


@env.command
def cloud(*, json: Json = False) -> int:
    """Make the venv of SkyPilot, for launch and all commands of rented machines.

    These commands find the venv by themselves. In a checkout, `make cloud` does the same.

    Examples:
      skymark env cloud
      make cloud
    """
    from skymark.cloud import cloud_venv, make_cloud_venv

    is_there = (cloud_venv() / "bin" / "skymark").is_file()
    note("the venv of SkyPilot is there; checking it" if is_there else "making SkyPilot's venv")
    venv = make_cloud_venv()
    if json:
        print_json({"directory": str(venv)})
    else:
        print_plain(f"cloud: {venv}")
    return 0


@env.command
def clean(
    *names: Annotated[str, Parameter(help="Names from `skymark env list`. [default: all]")],
    json: Json = False,
) -> int:
    """Remove venvs; skymark makes them again when it needs them.

    Examples:
      skymark env clean pytorch
      skymark env clean
    """
    venvs = Venvs(cache_directory())
    removed: list[BuiltVenv] = []
    known = {one.name for one in venvs.built()}
    for name in names or (None,):
        # An unknown name is an error, not a silent nothing.
        chosen = {name}
        if name is not None and name not in known:
            chosen = {spec.name for spec in venvs_named([name], suites()).values()}
        for one in chosen:
            removed += venvs.clean(one)
    if json:
        print_json([{"name": one.name, "directory": one.directory} for one in removed])
    else:
        for built in removed:
            print_plain(f"removed {built.name}: {built.directory}")
    return 0
