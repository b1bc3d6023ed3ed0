"""Plans: made of a profile and the command line's selection, or read from a plan's file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from skymark.cache.location import Policy
from skymark.model.base import faults_of
from skymark.model.duration import seconds_of
from skymark.model.effort import Allotment, Effort, Goal
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan, Profile, Selection
from skymark.model.record import SCHEMA_VERSION, Cause
from skymark.model.requests import Work
from skymark.plain_files import named_by_user, read_named, write_whole
from skymark.resources import resource_directory
from skymark.rundir.reader import read_manifest
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named


def make_plan(
    profile: Profile,
    work: Work,
) -> Plan:
    """Plan a run: the request's values over the profile's.

    Args:
        profile: gives the suite, and all that the request leaves out.
        work: the request; its own `profile` does not count.

    Raises:
        UsageError: a name is unknown, a goal has no time, or nothing is left to run.
    """
    suite = suite_named(profile.suite)
    work, project = work.resolved(suite.name)
    bounds = _bounds(suite.efforts, work.effort or profile.effort, work.rounds, work.timeout_s)
    time = profile.time if work.time is None else work.time
    named = {one.name for one in suite.options if not one.setting}
    own = {name: value for name, value in work.settings.items() if name in named}
    given = {name: value for name, value in work.settings.items() if name not in own}
    selection = Selection(
        platform=profile.platform,
        scenarios=work.scenarios or profile.scenarios,
        size=profile.size,
        adapters=work.adapters or profile.adapters,
        settings={**profile.settings, **given},
        options={**work.options, **own},
    )
    cells = suite.plan(selection, bounds)
    if not cells:
        raise UsageError("the selection has no cell; name at least one scenario and one adapter")
    return Plan(
        suite=suite.name,
        profile=profile.name,
        platform=profile.platform,
        effort=bounds,
        allotment=None if work.rounds else _allotment(suite, time, work.goal, profile.goal),
        settings=selection.settings,
        settings_from={
            name: project.file
            if project is not None and f"settings.{name}" in project.keys
            else "command line"
            if name in work.settings
            else "profile"
            for name in selection.settings
        },
        project=project,
        cells=tuple(cells),
    )


def planned(work: Work | Plan) -> tuple[Plan, str]:
    """Return the plan of a request or of a plan's file, and its profile: a name, or a file.

    Raises:
        UsageError: as in `make_plan`.
    """
    if isinstance(work, Plan):
        return work, work.profile
    return make_plan(load_profile(work.profile), work), work.profile


def words_of(work: Work) -> tuple[str, ...]:
    """Return the options of ``skymark run`` that make a request."""
    suite = suite_named(load_profile(work.profile).suite)
    whole, _ = work.resolved(suite.name)
    return whole.words({one.name for one in suite.options})


def _bounds(
    efforts: Mapping[str, Effort], name: str, rounds: int | None, timeout_s: float | None
) -> Effort:
    """Return an effort of a suite, with a request's own rounds and time limit in seconds."""
    if name not in efforts:
        raise UnknownNameError("effort", name, efforts)
    update: dict[str, object] = {}
    if rounds is not None:
        update |= {"min_rounds": rounds, "max_rounds": rounds}
    if timeout_s is not None:
        update |= {"cell_timeout_s": timeout_s}
    return efforts[name].model_copy(update=update)


def _allotment(
    suite: Suite, time: str | None, goal: Goal | None, default: Goal | None
) -> Allotment | None:
    """Return the time of all rounds, with its goal or the default goal; None without a time."""
    if time is None:
        if goal is not None:
            raise UsageError(f"--goal {goal} needs --time, such as --time 20m")
        return None
    time_s = seconds_of(time, "--time")
    metric = suite.declaration.primary_metric
    if metric.scale == "exact":
        raise UsageError(
            f"--time repeats rounds, and {metric.heading} of the suite {suite.name} does not vary "
            "from round to round; leave it out"
        )
    return Allotment(time_s=time_s, goal=goal or default or "table")


def profile_paths() -> dict[str, Path]:
    """Return the file of each profile by name."""
    return {path.stem: path for path in sorted(resource_directory("profiles").glob("*.toml"))}


def load_profile(name: str) -> Profile:
    """Load a profile by name, or from a ``.toml`` file.

    Raises:
        UnknownNameError: there is no such profile.
        UsageError: the file is a SkyPilot YAML, is no TOML, or has a key or value that profiles do
            not have.
    """
    if name.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{name} is a SkyPilot YAML, which --machine takes: name a profile, such as "
            f"cluster_8xh100, then --machine {name}"
        )
    paths = profile_paths()
    path = Path(name) if name.endswith(".toml") else paths.get(name)
    if path is None:
        raise UnknownNameError("profile", name, paths)
    data = read_named(path, "`skymark list profiles` shows all profiles")
    try:
        content = tomllib.loads(data.decode("utf-8"))
        profile = Profile.model_validate({"name": path.stem, **content})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"profile {path}: {error}; mend the file") from error
    except ValidationError as error:
        raise UsageError(f"profile {path}: {faults_of_profile(error)}") from error
    if profile.time is not None:
        seconds_of(profile.time, f"profile {path}: time")
    elif profile.goal is not None:
        raise UsageError(f"profile {path}: goal needs a time, which is spent on it")
    return profile


def faults_of_profile(error: ValidationError) -> str:
    """Return the faults of a profile in one line, with the nearest key for an unknown one."""
    known = Profile.model_fields
    return "; ".join(faults_of(error, lambda key, _: str(UnknownNameError("key", key, known))))


MAKE_ONE = "`skymark plan --output FILE` writes one"


def plan_text(plan: Plan) -> str:
    """Return a plan as its file has it."""
    return plan.model_dump_json(indent=1) + "\n"


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan file.

    Raises:
        UsageError: the file cannot be written.
    """
    with named_by_user(path):
        write_whole(path, plan_text(plan).encode())


def read_plan(path: Path) -> Plan:
    """Return the plan of a plan file or of a run's directory, if an installed suite can run it.

    Raises:
        RunDirectoryError: the directory has no manifest, or a damaged one.
        UsageError: there is no such file, it is no plan or a newer skymark's, or its suite is not
            installed.
    """
    if path.is_dir():
        plan = read_manifest(path).plan
        _check(plan, path)
        return plan
    data = read_named(path, MAKE_ONE)
    try:
        plan = Plan.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(f"{path} {_fault(data, error)}") from error
    _check(plan, path)
    return plan


def _fault(data: bytes, error: ValidationError) -> str:
    """Return the fault of a file that is no plan."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return f"is no plan: it is not JSON; {MAKE_ONE}"
    if not (isinstance(content, dict) and "cells" in content):
        return f"is no plan; {MAKE_ONE}"
    version = content.get("schema_version")
    if isinstance(version, int) and version != SCHEMA_VERSION:
        remedy = "install that skymark" if version > SCHEMA_VERSION else "make it anew"
        age = "a newer" if version > SCHEMA_VERSION else "an earlier"
        return (
            f"is a plan of {age} skymark (schema {version}, here {SCHEMA_VERSION}); {remedy}: "
            f"{MAKE_ONE}"
        )
    return f"is no whole plan: {faults_of(error)[0]}; {MAKE_ONE}"


def _check(plan: Plan, path: Path) -> None:
    """Refuse a plan that was not made by an installed suite.

    Raises:
        UsageError: it was not.
    """
    try:
        suite_named(plan.suite)
    except UnknownNameError as error:
        raise UsageError(
            f"{path}: {error}; install the package that has the suite {plan.suite!r}"
        ) from error
    ids = {planned.cell.id for planned in plan.cells}
    if not plan.cells or len(ids) < len(plan.cells):
        raise UsageError(f"{path} is no whole plan: it has no cell, or one twice; {MAKE_ONE}")
    if strangers := {one.cell.suite for one in plan.cells} - {plan.suite}:
        raise UsageError(
            f"{path} is no whole plan: it is of the suite {plan.suite!r}, and has cells of "
            f"{', '.join(sorted(strangers))}; {MAKE_ONE}"
        )


def data_names(plan: Plan) -> list[str]:
    """Return the names of a plan's data, from `--data`."""
    suite = suite_named(plan.suite)
    names = (suite.data_of(one.cell) for one in plan.cells)
    return list(dict.fromkeys(name for name in names if name is not None))


def require_data(policy: str | None, plan: Plan) -> None:
    """Refuse a policy that keeps the data of a run for a plan that names none.

    Raises:
        UsageError: it is so.
    """
    if policy is None or not Policy(policy).needs_data_of_run or data_names(plan):
        return
    raise UsageError(
        f"--cache-policy {policy} keeps the data that --data names, and this plan names none: what "
        "it reads is generated, or fetched by its suite, once for all runs. Choose per-job, shared "
        "or auto, or give --data"
    )


def lacks_here(plan: Plan) -> Iterator[str]:
    """Yield the resources that this machine lacks for the worker processes of a plan."""
    from skymark.machine.cgroup import Need, room_here, shortage
    from skymark.machine.fitness import room_warnings

    suite, room = suite_named(plan.suite), room_here()
    needs = {one.cell.id: suite.need(one.cell) for one in plan.runnable}
    lacking: dict[Cause, list[str]] = {}
    for id, need in needs.items():
        if (cause := shortage(need, room)) is not None:
            lacking.setdefault(cause, []).append(id)
    for cause, cells in lacking.items():
        others = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        yield f"cannot be measured here: {cells[0]}{others}: {cause.message}; {cause.action}"
    named = {cause.kind for cause in lacking}
    for warning in room_warnings(room) if set(needs.values()) - {Need()} else ():
        if warning.kind not in named:
            yield f"{warning.message}; {warning.action}"
