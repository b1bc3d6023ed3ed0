"""Runs and watched loops as single HTML files, and the environment of all HTML pages."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.errors import SkymarkError
from skymark.model.sizes import percent
from skymark.plain_files import write_whole
from skymark.report import text
from skymark.report.page import anchor_of, page_of
from skymark.report.text import MOST_SHOWN
from skymark.resources import install_line
from skymark.watching.verdict import REASONS, STAGE_WORDS, advice_of, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment
    from markupsafe import Markup

    from skymark.model.record import StabilityWarning
    from skymark.report.chart import Axis
    from skymark.report.ranking_table import Filled
    from skymark.rundir.reader import Run
    from skymark.watching.verdict import LoopVerdict


@cache
def page_environment() -> Environment:
    """Return the environment that templates of pages are rendered in.

    All pages share it, because to compile a template takes longer than a page's text.

    Raises:
        SkymarkError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise SkymarkError(f"a page needs jinja2; run: {install_line('report')}") from error
    environment = Environment(
        loader=PackageLoader("skymark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "anchor": anchor_of,
        "code": code,
        "duration": text.duration,
        "grid": grid,
        "percent": percent,
        "number": number,
        "numbers": numbers,
        "share": text.share,
        "significant": text.significant,
        "size": text.size,
        "word": word,
    }
    return environment


WORDS = {
    "busy-machine": "Disturbed",
    "load-average": "Disturbed",
    "cpu-throttled": "Disturbed",
    "rehearsal": "Simulated",
}
"""The word at the head of a page for a machine's warning, by kind."""


CODE = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z][a-z-]*)")
"""A command between backticks, or an option."""


def word(warning: StabilityWarning) -> str:
    """Return the effect of a machine's warning on the run in a word."""
    return WORDS.get(warning.kind, "Warning")


def visible(value: Any) -> Any:
    """Show what is missing as a dash, and text without control characters."""
    if value is None:
        return text.MISSING
    return text.plain(value) if type(value) is str else value


def code(words: str) -> Markup:
    """Return a text whose quoted commands and options are set as code."""
    from markupsafe import Markup, escape

    shown = CODE.sub(r"<code>\1\2</code>", str(escape(visible(words))))
    return Markup(shown)  # noqa: S704 escaped


def number(value: float | None, shown: Any) -> Markup:
    """Return a table's entry that is sorted by its number."""
    from markupsafe import Markup, escape

    key = "" if value is None else value
    return Markup(f'<td data-value="{key}">{escape(visible(shown))}</td>')  # noqa: S704 a number


def numbers(columns: Sequence[Filled], place: int) -> Markup:
    """Return a row's entries in columns, all at once: there may be 100,000 of them."""
    from markupsafe import Markup, escape

    cells = []
    for column, entries in columns:
        value, shown = entries[place]
        name = "primary" if column.is_primary else "wide" if column.is_wide_only else ""
        kind = f' class="{name}"' if name else ""
        key = "" if value is None else value
        cells.append(f'<td data-value="{key}"{kind}>{escape(visible(shown))}</td>')
    return Markup("\n".join(cells))  # noqa: S704 values are numbers, texts are escaped


def grid(axis: Axis) -> Markup:
    """Return the lines of a chart at its axis's ticks."""
    from markupsafe import Markup

    return Markup(  # noqa: S704 places are numbers
        "".join(
            f'<line class="grid" x1="{tick.place}%" x2="{tick.place}%" y1="-6" y2="26"/>'
            for tick in axis.ticks
        )
    )


def write_html(run: Run, path: Path) -> None:
    """Write the report of a run, whole or not at all.

    Raises:
        SkymarkError: jinja2 is not installed, or the file cannot be written.
    """
    content = render(run)
    try:
        write_whole(path, content.encode(), durable=False)
    except OSError as error:
        raise SkymarkError(
            f"cannot write {path}: {error.strerror}; make room, then: "
            f"skymark report {shlex.quote(str(path.parent))}"
        ) from error


def render(run: Run, home: str | None = None) -> str:
    """Return the report of a run as HTML.

    All text from the run is escaped: a record may come from a machine one does not trust.

    Args:
        run: of any status.
        home: the address of the page of all runs, where there is one.

    Raises:
        SkymarkError: jinja2 is not installed, or the run is of an old schema and its suite is not.
    """
    declaration = run.declaration
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            most_shown=MOST_SHOWN,
            page=page_of(run),
            home=home,
            run=run,
            manifest=run.manifest,
            declaration=declaration,
            primary=declaration.primary_metric,
            adapter_name=declaration.adapter_name,
            written=text.writer(declaration.primary_metric),
        )
    )


def watched_page(verdict: LoopVerdict) -> str:
    """Return the page as HTML that needs no other file.

    Raises:
        SkymarkError: jinja2 is not installed.
    """
    facts = verdict.facts
    longest_s = max((wait for _, wait in facts.waits), default=0.0) or 1.0
    last_s = max((asked for asked, _ in facts.waits), default=0.0) or 1.0
    causes = [
        {
            "share": cause.share,
            "stage": STAGE_WORDS[cause.stage],
            "reason": REASONS.get(cause.cause, cause.cause),
            "advice": advice_of(cause),
            "lines": lines_of(cause, facts.library),
        }
        for cause in verdict.diagnosis.causes
        if cause.cause != "none"
    ]
    marks = [
        (100 * asked / last_s, 100 * (1 - wait / longest_s), asked, wait)
        for asked, wait in facts.waits
    ]
    return (
        page_environment()
        .get_template("watched.html.j2")
        .render(verdict=verdict, facts=facts, causes=causes, marks=marks, longest_s=longest_s)
    )
