"""Pages of declared tables: causes and warnings, metrics, profiles with efforts and settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from skymark.execute.planner import load_profile, profile_paths
from skymark.model.metric import Metric
from skymark.model.option import Option
from skymark.model.plan import Profile
from skymark.model.record import Explanation, Given, explanations
from skymark.model.sizes import percent
from skymark.suite.contract import Suite
from skymark.suite.registry import suites
from skymark.suites.clip.options import ClipSettings
from skymark.suites.loading.options import LoadingSettings
from tests.reference_pages.markdown import code, document, documented_fields, table

CAUSES = """
`skymark show KIND` prints an entry of this page. In a record, `status` says how a cell ended, and
`cause.kind` says why. A cell is one scenario and one library at one size. `warnings` lists reasons
to distrust a figure; they do not change the status. The `message` beside a kind names the values
of your run.
"""
GROUPS: dict[Given, tuple[str, str]] = {
    "invalid": (
        "Status `invalid`",
        """
The loader or model did other work than the scenario asks for. The record has no figures.
The remedies are for the author of the adapter. [Verification](../verification.md) tells how skymark
finds such work.
""",
    ),
    "unsupported": (
        "Status `unsupported`",
        "The library cannot do this work. `skymark plan` shows these cells beforehand.",
    ),
    "skipped": ("Status `skipped`", "The library is not installed."),
    "timeout": ("Status `timeout`", ""),
    "failed": (
        "Status `failed`",
        """
An exception of the library or the adapter gives the name of its class as the kind, such as
`KeyError`; the log of the cell has the traceback.
""",
    ),
    "warning": ("Warnings", "Tables mark these cells with `!`."),
    "doctor": (
        "Findings of `skymark doctor`",
        "`skymark doctor` looks for these before you measure.",
    ),
}
METRICS = """
Each record has these figures in `metrics`, each with `value`, `low` and `high`: the bounds of its
95 % interval. `skymark export` has a column for each. The unit `1/s` is per second; a figure
without a unit is a share or a number. "compared" marks figures that decide verdicts of
`skymark compare`; "gated" marks those that `--gate` judges, too.
"""
PROFILES = """
A profile is a TOML file with a suite, a kind of machine, and the work to do there. Options of the
command line replace its values one by one. `--profile FILE.toml` takes a file of your own. The name
of a profile is the file's.
"""
EFFORTS = """
`--effort NAME` or the key `effort` selects an effort. Rounds end when the 95 % interval is within
the aim (half of its width, over the value), or at the most rounds. A round measures at least
`min_seconds` and `min_batches`, and at most `max_seconds`. `verified_elements` limits the elements
of the warm-up whose content is compared with the reference.
"""
SETTINGS = """
`--set NAME=VALUE` or a profile's `[settings]` take these. A setting with an option of its own, such
as `--workers`, may be given either way. Settings of single loaders are on
[the loaders' page](adapters.md).
"""
OF_SUITE: Mapping[str, type[BaseModel]] = {"loading": LoadingSettings, "clip": ClipSettings}
"""The settings of each suite."""


def metrics_page() -> str:
    """Return the page of the metrics of all suites."""
    parts = [part for suite in suites() if suite.name in OF_SUITE for part in _metrics(suite)]
    return document("Look up a metric", METRICS, *parts)


def _metrics(suite: Suite) -> Iterator[str]:
    declared = suite.declaration
    yield f"## Suite `{suite.name}`"
    yield f"`{declared.primary}` decides the order of a table."
    heads = ("name", "in tables", "unit", "better", "use", "meaning")
    yield "### Figures of every scenario"
    yield table(heads, map(_metric, declared.shared))
    yield "### Figures of some scenarios or settings"
    yield table(heads, (_metric(one) for one in declared.metrics if one.own))


def _metric(one: Metric) -> tuple[str, ...]:
    use = "compared, gated" if one.gated else "compared" * one.compared
    heading = one.heading if one.shown is not None else ""
    return f"`{one.name}`", heading, one.unit, one.better or "", use, one.description


def profiles_page() -> str:
    """Return the page of profiles, efforts and settings."""
    profiles = [load_profile(name) for name in sorted(profile_paths())]
    chosen = [suite for suite in suites() if suite.name in OF_SUITE]
    return document(
        "Look up a key of a profile, an effort or a setting",
        PROFILES,
        "## Keys",
        table(("key", "type", "default", "meaning"), list(_keys(Profile))[1:]),
        "## Profiles of skymark",
        *(part for profile in profiles for part in _profile(profile)),
        "## Efforts",
        EFFORTS,
        *(part for suite in chosen for part in _efforts(suite)),
        "## Settings",
        SETTINGS,
        *(part for suite in chosen for part in _settings(suite)),
    )


def _keys(
    model: type[BaseModel], options: Mapping[str, Option] = MappingProxyType({})
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each field of a model.

    Args:
        model: with a text below each field, or
        options: whose help describes it.
    """
    said = documented_fields(model)
    schema = model.model_json_schema()
    for name, key in model.model_fields.items():
        default = key.get_default(call_default_factory=True)
        empty = default is None or default in ((), {})
        shown = "required" if key.is_required() else "" if empty else f"`{_value(default)}`"
        help = options[name].help if name in options else key.description
        yield f"`{name}`", _type(schema["properties"][name]), shown, help or said[name]


def _value(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return json.dumps(default)


def _type(schema: Mapping[str, Any]) -> str:
    """Return the values that a key takes, from its JSON Schema."""
    if "anyOf" in schema:
        return _type(schema["anyOf"][0])
    if "enum" in schema:
        return code(schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    return {"string": "text", "object": "table", "boolean": "`on`, `off`"}.get(
        schema["type"], schema["type"]
    )


def _profile(profile: Profile) -> Iterator[str]:
    yield f"### {profile.name}"
    yield f"{profile.description}."
    shown = profile.model_dump(exclude_defaults=True, exclude={"name", "description"})
    yield "\n".join(
        f"- `{key}`: {', '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in shown.items()
    )


def _efforts(suite: Suite) -> Iterator[str]:
    yield f"### Efforts of the suite `{suite.name}`"
    rows = (
        (
            f"`{one.name}`",
            f"{one.min_rounds} to {one.max_rounds}",
            percent(one.target_relative_interval),
            f"{one.cell_timeout_s:g}",
            ", ".join(f"`{name}` {value:g}" for name, value in one.limits.items()),
        )
        for one in suite.efforts.values()
    )
    yield table(("effort", "rounds", "aim", "seconds per round at most", "bounds of a round"), rows)


def _settings(suite: Suite) -> Iterator[str]:
    yield f"### Settings of the suite `{suite.name}`"
    options = {one.name: one for one in suite.options if one.setting}
    rows = _keys(OF_SUITE[suite.name], options)
    yield table(("setting", "type", "default", "meaning"), rows)


def causes_page() -> str:
    """Return the page of causes, warnings and findings, each under a heading to link to."""
    parts = [CAUSES]
    for given, (heading, introduction) in GROUPS.items():
        kinds = [one for one in explanations().values() if given in one.given]
        parts += [f"## {heading}", introduction]
        if above := [
            f"[`{one.kind}`](#{one.kind.lower()})" for one in kinds if one.given[0] != given
        ]:
            parts.append(f"Described above: {', '.join(above)}.")
        parts += [part for one in kinds if one.given[0] == given for part in _cause(one)]
    return document("Look up a cause or a warning", *parts)


def _cause(one: Explanation) -> Iterator[str]:
    """Yield the section of a kind."""
    yield f"### {one.kind}"
    yield one.meaning
    more = ""
    if one.page is not None:
        name = one.page.rpartition("/")[2].partition(".")[0]
        more = f" More: [{name}](../{one.page})."
    yield f"**Remedy:** {one.action}{more}"
