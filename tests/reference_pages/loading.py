"""Pages of the loading suite: its adapters and its scenarios, from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module

from skymark.model.record import Setting
from skymark.suites.loading.adapter import ABILITIES, Adapter
from skymark.suites.loading.registry import adapters, scenarios
from skymark.suites.loading.scenario import NEEDS, Scenario
from tests.reference_pages.markdown import code, document, line_of, table, text_of

ADAPTERS = """
An adapter is skymark's class for one loader, with the library used as its own guide recommends.
`skymark show NAME` prints the main entries of one. `skymark plan --scenarios all` shows where each
loader runs on your machine.
"""
ABILITY = """
A loader runs a scenario if it has all abilities that the scenario needs. Otherwise the record is
`unsupported`, with a reason from this page.
"""
SCENARIOS = """
A scenario is a data set with work on it. `skymark plan --scenarios NAME:SIZE` shows what a run
measures. Every scenario needs the abilities `map` and `shuffle`; the table lists the others, which
[the loaders' page](adapters.md#abilities) explains. Each combination of axis values is measured
by itself; `--axis NAME=VALUE` selects some.
"""
SIZES = """
Every batch has `index`, int64 `[B]`, beside the fields named below; B is the batch size. Shapes of
fields are those of one element, unless they begin with B. The size `tiny` is for a quick check.
`long` has 130 batches or more, so that an epoch has a steady stream.
"""


def own_adapters() -> dict[str, type[Adapter]]:
    """Return the adapters that come with skymark, by slug; tests register others."""
    own = (cls for cls in adapters().values() if cls.__module__.startswith("skymark."))
    return {cls.slug: cls for cls in sorted(own, key=lambda cls: cls.slug)}


def own_scenarios() -> dict[str, type[Scenario]]:
    """Return the scenarios that come with skymark, by id; tests register others."""
    own = (cls for cls in scenarios().values() if cls.__module__.startswith("skymark."))
    return {cls.id: cls for cls in sorted(own, key=lambda cls: cls.id)}


def adapters_page() -> str:
    """Return the page of adapters."""
    known = own_adapters()
    rows = [
        (
            f"[`{slug}`](#{slug})",
            f"[{cls.name}]({cls.homepage})",
            _workers(cls),
            cls.shuffles,
            ", ".join(sorted(cls.native)),
            ", ".join(cls.acceleration.builds),
        )
        for slug, cls in known.items()
    ]
    heads = ("name", "library", "workers", "shuffle", "own operators for", "GPU and TPU builds")
    return document(
        "Look up a loader",
        ADAPTERS,
        table(heads, rows),
        "## Abilities",
        ABILITY,
        table(("ability", "the library can"), [(f"`{name}`", w) for name, w in ABILITIES.items()]),
        *(part for cls in known.values() for part in _adapter(cls)),
    )


def _adapter(cls: type[Adapter]) -> Iterator[str]:
    """Yield the section of an adapter."""
    yield f"## {cls.slug}"
    yield text_of(inspect.getmodule(cls))
    library = f"[{cls.name}]({cls.homepage}), package `{cls.distribution}`"
    facts = {
        "Library": f"{library}; the adapter follows [this guide]({cls.guide})",
        "Install": f"`{cls.install_hint}`" * bool(cls.install_hint),
        "Python": cls.python or "",
        "Venv": f"that of `{cls.shared_venv}`" * bool(cls.shared_venv),
        "Storage": f"{code(cls.formats)}; the first is recommended" + _media(cls),
        "Workers": _workers(cls),
        "Shuffle": cls.shuffles,
        "Mixing": cls.mixing * ("mix" in cls.abilities),
        "Works ahead": "as its memory allows" * (cls.works_ahead == "epoch"),
        "Own operators": ", ".join(sorted(cls.native)) + _only(cls),
        "Framework": f"{cls.framework}, for `--deliver device` and `--step`" * bool(cls.framework),
        "Accelerators": _acceleration(cls),
    }
    yield "\n".join(f"- {name}: {fact}" for name, fact in facts.items() if fact)
    if cls.options:
        rows = [(f"`--set {name}=…`", what) for name, what in cls.options.items()]
        yield table(("setting", "meaning"), rows)
    if rows := list(_lacks(cls)):
        yield table(("lacks", "reason"), rows)


def _workers(cls: type[Adapter]) -> str:
    return " or ".join(cls.runs_in)


def _media(cls: type[Adapter]) -> str:
    media = [format for format in cls.formats if format in cls.media_formats]
    return f" ({code(media)} for images and sounds only)" if cls.formats[0] in media else ""


def _only(cls: type[Adapter]) -> str:
    return f"; no other scenarios, because {cls.native_only}" if cls.native_only else ""


def _acceleration(cls: type[Adapter]) -> str:
    seen_by = ", ".join(sorted(set(cls.acceleration.seen_by.values())))
    builds = f"own builds for {', '.join(cls.acceleration.builds)}" * bool(cls.acceleration.builds)
    return "; ".join(filter(None, (f"seen by {seen_by}" * bool(seen_by), builds)))


def _lacks(cls: type[Adapter]) -> Iterator[tuple[str, str]]:
    """Yield the abilities that an adapter lacks, each with its reason."""
    # That it reads no tar shards, say, is plain from its formats, unless it has more to say.
    plain = f"it reads {', '.join(cls.formats)}"
    for name in ABILITIES:
        for reason in cls.lacks([name]):
            if plain not in reason:
                yield f"`{name}`", reason
    if cls.media_only:
        yield "rows of numbers", cls.media_only


def scenarios_page() -> str:
    """Return the page of scenarios."""
    known = own_scenarios()
    rows = [
        (
            f"[{id}](#{id.lower()})",
            cls.title,
            str(cls.tier),
            _axes(cls.axis_values),
            code(sorted(cls.needs - NEEDS)),
        )
        for id, cls in known.items()
    ]
    return document(
        "Look up a scenario",
        SCENARIOS,
        table(("id", "work", "tier", "axes", "needs"), rows),
        SIZES,
        *(part for cls in known.values() for part in _scenario(cls)),
    )


def _axes(axes: Mapping[str, tuple[Setting, ...]]) -> str:
    return "; ".join(f"`{name}` {', '.join(map(str, one))}" for name, one in axes.items())


def _scenario(cls: type[Scenario]) -> Iterator[str]:
    """Yield the section of a scenario."""
    yield f"## {cls.id}"
    yield f"**{cls.title}.**"
    yield text_of(cls)
    described = ("generate", "draw", "stages", "collate", "mix")
    own = {name for name in described if getattr(cls, name) is not getattr(Scenario, name)}
    collated = (line_of(getattr(cls, name)) for name in ("collate", "mix") if name in own)
    drive = import_module(f"skymark.suites.loading.drives.{cls.drive}")
    facts = {
        "Stored": line_of(cls.generate),
        "Drawn": line_of(cls.draw).removeprefix("Draw ") if "draw" in own else "",
        "Stages": line_of(cls.stages),
        "Batch": " ".join(collated),
        "Axes": _axes(cls.axis_values),
        "Needs": code(sorted(cls.needs)) + _more_needs(cls),
        "Measured": line_of(drive) if cls.drive != "epochs" else "",
        "Tolerance of a library's own operators": _tolerance(cls),
        "Your own data": f"`--data`, with the columns {code(cls.columns)}" if cls.columns else "",
        "Process": "one of its own for each cell" if cls.own_process else "",
    }
    yield "\n".join(f"- {name}: {fact}" for name, fact in facts.items() if fact)
    sizes = cls.sizes()
    names = list(next(iter(sizes.values())).values)
    rows = [
        (
            f"`{name}`",
            f"{size.elements:,}",
            f"{size.batch_size:,}",
            *(_number(size.values[key]) for key in names),
        )
        for name, size in sizes.items()
    ]
    yield table(("size", "elements", "batch size", *(f"`{name}`" for name in names)), rows)


def _more_needs(cls: type[Scenario]) -> str:
    """Return the further needs of axis values."""
    further = {
        f"`{name}={value}`": more
        for name, values in cls.axis_values.items()
        for value in values
        if (more := cls.requirements({name: value}) - cls.needs)
    }
    return "".join(f"; {code(sorted(more))} for {at}" for at, more in further.items())


def _tolerance(cls: type[Scenario]) -> str:
    mean = cls.native_mean_tolerance
    more = "" if mean is None else f" at most, {mean:g} on average in any element"
    return f"{cls.native_tolerance:g}{more}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
