"""`skymark list`: scenarios, adapters, profiles and suites."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cache.location import cache_directory
from skymark.cli.caller import print_json
from skymark.cli.tables import Json, print_rows
from skymark.execute.planner import load_profile, profile_paths
from skymark.execute.venvs import Venvs
from skymark.model.errors import VenvBuildError
from skymark.suite.contract import Row, Suite
from skymark.suite.registry import suites


def listing(
    what: Annotated[
        Literal["scenarios", "adapters", "profiles", "suites"], Parameter(help="What to list.")
    ],
    /,
    *,
    json: Json = False,
) -> int:
    """List scenarios, adapters, profiles or suites."""
    kinds: dict[str, Callable[[], list[Row]]] = {
        "scenarios": lambda: scenario_rows(suites()),
        "adapters": lambda: adapter_rows(suites(), Venvs(cache_directory())),
        "profiles": profile_rows,
        "suites": lambda: suite_rows(suites()),
    }
    rows = kinds[what]()
    if json:
        print_json(json_module.dumps(rows, indent=1))
    else:
        headers = list(dict.fromkeys(name for row in rows for name in row))
        print_rows(headers, ([_text(row.get(name, "")) for name in headers] for row in rows))
    return 0


def scenario_rows(chosen: Sequence[Suite]) -> list[Row]:
    """One row per scenario of the chosen suites."""
    return [_of(suite, row, chosen) for suite in chosen for row in suite.scenarios()]


def adapter_rows(chosen: Sequence[Suite], venvs: Venvs) -> list[Row]:
    """One row per adapter of the chosen suites, with the state of its venv at the end."""
    return [
        _of(suite, _with_venv(suite, row, venvs), chosen)
        for suite in chosen
        for row in suite.adapters()
    ]


def _of(suite: Suite, row: Row, chosen: Sequence[Suite]) -> Row:
    """Return a row with its suite, where it could be another's."""
    return {**row, "suite": suite.name} if len(chosen) > 1 else row


def _with_venv(suite: Suite, row: Row, venvs: Venvs) -> Row:
    """Return an adapter's row with the state of its venv in place of how it is installed."""
    slug = str(next(iter(row.values())))
    rest = {name: value for name, value in row.items() if name != "install"}
    return {**rest, "venv": venv_state(suite, slug, row.get("install"), venvs)}


def venv_state(suite: Suite, slug: str, install: object, venvs: Venvs) -> str:
    """Say whether an adapter can run: its venv is built, will be built, or cannot be.

    Args:
        suite: which has the adapter.
        slug: its name.
        install: the command that installs its library, where no package does it by itself.
        venvs: where venvs are looked for.
    """
    if install:
        return f"not by itself; run: {install}"
    try:
        states = [venvs.is_built(spec) for spec in suite.venvs([slug]).values()]
    except VenvBuildError as error:  # one that has no pins must not keep the others from the list
        return str(error)
    if not states:
        return "not needed"
    return "built" if all(states) else "made on first use"


def profile_rows() -> list[Row]:
    """One row per profile."""
    profiles = [load_profile(name) for name in profile_paths()]
    return [
        {
            "name": profile.name,
            "suite": profile.suite,
            "platform": profile.platform,
            "scenarios": list(profile.scenarios),
            "size": profile.size,
            "effort": profile.effort,
            "minutes": profile.deadline_minutes,
            "description": profile.description,
        }
        for profile in profiles
    ]


def suite_rows(chosen: Sequence[Suite]) -> list[Row]:
    """One row per suite."""
    return [
        {
            "name": suite.name,
            "work": suite.title,
            "scenarios": len(suite.scenarios()),
            "adapters": len(suite.adapters()),
            "compares": [one.name for one in suite.declaration.metrics if one.compared],
        }
        for suite in chosen
    ]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(item).replace(' ', ',')}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)
