"""`skymark list`: scenarios, adapters and profiles, with why something is unavailable."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cache.location import cache_directory
from skymark.cli.tables import Json, print_rows
from skymark.execute.profiles import load_profile, profile_paths
from skymark.execute.venvs import Venvs
from skymark.model.errors import VenvBuildError
from skymark.suites.loading.adapter import Adapter
from skymark.suites.loading.registry import adapters, scenarios
from skymark.suites.loading.suite import LoadingSuite

Row = dict[str, object]


def listing(
    what: Annotated[Literal["scenarios", "adapters", "profiles"], Parameter(help="What to list.")],
    /,
    *,
    json: Json = False,
) -> int:
    """List scenarios, adapters or profiles."""
    kinds: dict[str, Callable[[], list[Row]]] = {
        "scenarios": scenario_rows,
        "adapters": adapter_rows,
        "profiles": profile_rows,
    }
    rows = kinds[what]()
    if json:
        print(json_module.dumps(rows, indent=1))
    else:
        headers = list(rows[0])
        print_rows(headers, ([_text(row[name]) for name in headers] for row in rows))
    return 0


def scenario_rows() -> list[Row]:
    """One row per scenario."""
    return [
        {
            "id": cls.id,
            "tier": cls.tier,
            "work": cls.title,
            "variants": list(cls.variants),
            "axes": {name: list(values) for name, values in cls.axis_values.items()},
            "needs": sorted(cls.needs),
        }
        for cls in scenarios().values()
    ]


def adapter_rows() -> list[Row]:
    """One row per adapter."""
    venvs = Venvs(cache_directory())
    return [
        {
            "slug": slug,
            "name": cls.name,
            "venv": venv_state(slug, cls, venvs),
            "formats": list(cls.formats),
            "native": sorted(cls.native),
        }
        for slug, cls in adapters().items()
    ]


def venv_state(slug: str, cls: type[Adapter], venvs: Venvs) -> str:
    """Say whether an adapter can run: its venv is built, will be built, or cannot be."""
    if cls.install_hint:
        return f"not by itself; run: {cls.install_hint}"
    try:
        built = venvs.is_built(LoadingSuite().venv(slug))
    except VenvBuildError as error:
        return str(error)
    return "built" if built else "made on first use"


def profile_rows() -> list[Row]:
    """One row per profile."""
    profiles = [load_profile(name) for name in profile_paths()]
    return [
        {
            "name": profile.name,
            "platform": profile.platform,
            "scenarios": list(profile.scenarios),
            "effort": profile.effort,
            "description": profile.description,
        }
        for profile in profiles
    ]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(item).replace(' ', ',')}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return str(value)
