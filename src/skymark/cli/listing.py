"""`skymark list`, `show` and `schema`: scenarios, adapters, profiles, suites, causes, schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cache.location import cache_directory
from skymark.cli.caller import note, print_json, print_plain
from skymark.cli.parameters import NAME
from skymark.cli.tables import Json, print_rows
from skymark.execute.planner import load_profile, profile_paths
from skymark.execute.venvs import Venvs
from skymark.model.errors import UnknownNameError, UsageError, VenvBuildError
from skymark.model.record import explanations
from skymark.model.requests import DEFAULT_PROFILE
from skymark.suite.contract import Row, Suite
from skymark.suite.registry import suite_named, suites

Kind = Literal["scenarios", "adapters", "profiles", "suites", "causes"]
KINDS: dict[Kind, str] = {
    "scenarios": "work to measure, such as CV-1, or data sets to score",
    "adapters": "loaders, or models",
    "profiles": "named defaults of a run, such as cpu",
    "suites": "families of scenarios and adapters",
    "causes": "reasons of bad cells, and warnings, with advice",
}
OF_SUITES = ("scenarios", "adapters")
TITLES = ("work", "name", "description", "meaning")
"""Columns of a thing's title, in the order of preference."""


def listing(
    what: Annotated[
        Kind | None, Parameter(help="Kind of things to list. [default: the kinds themselves]")
    ] = None,
    /,
    *,
    suite: Annotated[
        str | None,
        NAME,
        Parameter(help="Suite of the scenarios or adapters. [default: the profile's]"),
    ] = None,
    profile: Annotated[str, NAME, Parameter(help="Profile of the suite.")] = DEFAULT_PROFILE,
    json: Annotated[bool, Parameter(help="Print all details as JSON.")] = False,
) -> int:
    """List scenarios, adapters, profiles, suites or causes.

    `skymark show NAME` prints the details of a name.

    Examples:
      skymark list adapters
      skymark list scenarios --json
    """
    if what is None:
        _list_kinds(json=json)
        return 0
    of_suite = what in OF_SUITES
    if suite is not None and not of_suite:
        raise UsageError(f"--suite {suite} is for scenarios and adapters only; leave it out")
    chosen = suite_named(load_profile(profile).suite if suite is None else suite)
    rows = _rows(what, [chosen] if of_suite else suites())
    if json:
        print_json(rows)
        return 0
    shown = [(str(next(iter(row.values()))), _title(row), _text(row.get("venv"))) for row in rows]
    headings = (what, "title", *(("venv",) if what == "adapters" else ()))
    print_rows(headings, (one[: len(headings)] for one in shown))
    others = " or ".join(one.name for one in suites() if one.name != chosen.name)
    note("details: skymark show NAME")
    if of_suite and others:
        note(f"suite {chosen.name}; other suites: --suite {others}")
    return 0


def _list_kinds(*, json: bool) -> None:
    """Print the kinds of things, each with its meaning."""
    if json:
        print_json([{"kind": kind, "meaning": meaning} for kind, meaning in KINDS.items()])
        return
    print_rows(("kind", "meaning"), KINDS.items())
    note("list one kind: skymark list KIND")


def show(
    name: Annotated[str, Parameter(help="A name from `skymark list`.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Show the details of a scenario, adapter, profile, suite or cause.

    Examples:
      skymark show CV-1
      skymark show pytorch --json
    """
    known: dict[str, list[tuple[Kind, Row]]] = {}
    for kind in KINDS:
        for row in _rows(kind, suites()):
            known.setdefault(str(next(iter(row.values()))), []).append((kind, row))
    if name not in known:
        raise UnknownNameError("name", name, known)
    if json:
        print_json([row for _, row in known[name]])
        return 0
    for of_kind, row in known[name]:
        shown = {of_kind.removesuffix("s"): name, **dict(list(row.items())[1:])}
        width = max(map(len, shown))
        for key, value in shown.items():
            if text := _text(value):
                print_plain(f"{key:{width}}  {text}")
    return 0


def _rows(kind: Kind, chosen: Sequence[Suite]) -> list[Row]:
    """Return all details of one kind of things of suites."""
    match kind:
        case "scenarios":
            return scenario_rows(chosen)
        case "adapters":
            return adapter_rows(chosen, Venvs(cache_directory()))
        case "profiles":
            return [
                {
                    "name": one.name,
                    "suite": one.suite,
                    "platform": one.platform,
                    "scenarios": list(one.scenarios),
                    "size": one.size,
                    "effort": one.effort,
                    "minutes": one.deadline_minutes,
                    "description": one.description,
                }
                for one in map(load_profile, profile_paths())
            ]
        case "suites":
            return suite_rows(chosen)
        case "causes":
            return [
                {
                    "kind": cause,
                    "given": list(one.given),
                    "meaning": one.meaning,
                    "action": one.action,
                    "page": None if one.page is None else f"docs/{one.page}",
                }
                for cause, one in explanations().items()
            ]


def _title(row: Row) -> str:
    """Return the title of a row, or all its details where it has none."""
    name, *_ = row
    for key in TITLES:
        if key != name and row.get(key):
            return _text(row[key])
    details = {key: _text(value) for key, value in row.items() if key not in (name, "venv")}
    return ", ".join(f"{key} {text}" for key, text in details.items() if text)


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


Name = Literal["request", "plan", "record", "manifest", "comparison", "report"]


def schema(name: Annotated[Name, Parameter(help="The thing to describe.")], /) -> int:
    """Print the JSON Schema of a file or a request.

    request: the arguments of `skymark.Work`. plan: the file of `plan --output`. record and
    manifest: files of a run's directory. comparison and report: the output of `compare --json` and
    `report --json`.

    Examples:
      skymark schema record
      skymark schema comparison
    """
    from skymark.report.results import schema_of

    print_json(schema_of(name))
    return 0
