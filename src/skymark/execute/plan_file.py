"""Plan files: a plan written here is priced, sent and run as it is."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan
from skymark.model.record import SCHEMA_VERSION
from skymark.plain_files import read_named
from skymark.suite.registry import suite_named
from skymark.whole_files import named_by_user, write_whole

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
    """Read a plan file, and see to it that its cells can be run by an installed suite.

    Raises:
        UsageError: there is no such file, it is no plan or a newer skymark's, or its suite is not
            installed.
    """
    data = read_named(path, MAKE_ONE)
    try:
        plan = Plan.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(f"{path} {_fault(data, error)}") from error
    _check(plan, path)
    return plan


def _fault(data: bytes, error: ValidationError) -> str:
    """Return what is wrong with a file that is no plan."""
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
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"is no whole plan: {place}: {fault['msg']}; {MAKE_ONE}"


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
