"""Numbers, facts of a run and causes of a cell's end as people read them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skymark.model.duration import Span
from skymark.model.errors import UsageError
from skymark.model.metric import Declaration, Figure, Metric, Shown
from skymark.model.sizes import percent, size_text
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.model.record import Cause, Record, StabilityWarning
    from skymark.rundir.reader import Run


MISSING = "–"


def significant(value: float, digits: int = 3) -> str:
    """Return a number with a given number of significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    decimals = max(0, digits - 1 - exponent)
    return f"{value:,.{decimals}f}"


def count(value: float | None) -> str:
    """Return a number with k, M or G: ``45.6 k``."""
    if value is None:
        return MISSING
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        # A number that rounds up to the next unit is written in it.
        if abs(value) >= factor * 0.9995:
            return significant(value / factor) + letter
    return significant(value)


WIDE = 10
"""Ratio of the ends of a range from which on the range tells nothing."""


def about(time: Span) -> str:
    """Return an expected time with its range: ``about 5 min 0 s (4 min 0 s to 6 min 0 s)``.

    If the range is too wide to tell anything, the time is a rough one: ``roughly 5 min``.
    """
    if time.high_s > WIDE * time.low_s:
        return f"roughly {_rough(time.expected_s)}"
    low, high = duration(time.low_s), duration(time.high_s)
    return f"about {duration(time.expected_s)} ({low} to {high})"


def _rough(value_s: float) -> str:
    """Return seconds in one unit, without decimals."""
    for factor, unit in ((3600, "h"), (60, "min")):
        if value_s >= 2 * factor:
            return f"{value_s / factor:.0f} {unit}"
    return f"{max(1, round(value_s))} s"


def milliseconds(value_ns: float | None) -> str:
    """Return nanoseconds as milliseconds, without the unit."""
    return MISSING if value_ns is None else significant(value_ns / 1e6)


def duration(value_s: float | None) -> str:
    """Return seconds with a fitting unit: ``640 ms``, ``12.3 s``, ``4 min 5 s``."""
    if value_s is None:
        return MISSING
    if value_s < 1:
        return f"{significant(value_s * 1e3)} ms"
    if value_s < 100:
        return f"{significant(value_s)} s"
    minutes, seconds = divmod(round(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def size(value_bytes: float | None) -> str:
    """Return a size in words, or the mark of a missing value."""
    return MISSING if value_bytes is None else size_text(value_bytes)


def share(value: float | None) -> str:
    """Return a share in per cent, with a decimal only where it tells something."""
    if value is None:
        return MISSING
    tells = value < 0.0995 or 0.99 <= value < 0.9995
    return percent(value, 1 if tells else 0)


def writer(metric: Metric) -> Callable[[float], str]:
    """Return the function that writes values of a metric as its suite wants them shown."""
    return writer_as(metric.shown or Shown(), integer=metric.integer)


def writer_as(shown: Shown, *, integer: bool = False) -> Callable[[float], str]:
    """Return the function that writes values in a way that was declared."""
    divisor = shown.divisor
    write = {
        "count": count,
        "milliseconds": milliseconds,
        "duration": duration,
        "share": share,
        "size": size,
        "number": whole if integer else lambda value: significant(value, shown.digits),
    }[shown.format]
    return write if divisor == 1 else lambda value: write(value / divisor)


def whole(value: float) -> str:
    """Return a number without decimals: ``12,345``."""
    return f"{value:,.0f}"


def margin(figure: Figure | None) -> str:
    """Return half the interval relative to the value: ``±4.2 %``; empty without an interval.

    An interval wider than the value itself is ``±>100 %``.
    """
    width = None if figure is None else figure.relative_half_width
    if width is None:
        return ""
    if width > 1:
        return "±>100 %"
    return f"±{percent(width, 1 if width < 0.1 else 0)}"


def escaped_json(text: str, *, ascii_only: bool = False) -> str:
    """Return JSON with control characters as escapes, as only strings can hold them.

    Args:
        text: JSON.
        ascii_only: escape all that is not ASCII, too.
    """

    def escaped(match: re.Match[str]) -> str:
        if match[0].isprintable() and not ascii_only:
            return match[0]
        units = match[0].encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return re.sub(r"[^\n -~]", escaped, text)


CREDENTIALS = re.compile(r"(:/{1,2})[^/\s]+@")
"""A user's name, mostly with a password, in an address."""
QUERY = re.compile(r"(\w:/{1,2}[^\s?'\"]*\?)[^\s'\";,)]+?(?=:?(?:[\s'\";,)]|$))")
"""The query of an address, which may have a token or a signature."""


def without_credentials(text: str) -> str:
    """Return text without the users, passwords and queries of addresses in it."""
    return QUERY.sub(r"\1***", CREDENTIALS.sub(r"\1***@", text))


def plain(text: str) -> str:
    """Return untrusted text without control characters, so that it cannot steer a terminal."""
    if text.isprintable():  # nearly all text is, and this is quickly told
        return text
    return "".join(
        character if character in "\n\t" or unicodedata.category(character)[0] != "C" else "�"
        for character in text
    )


MOST_SHOWN = 100
"""Most kinds of warnings in a report, and most messages of each kind; the rest is counted."""


@dataclass
class Warned:
    """Warnings of one kind."""

    first: StabilityWarning
    count: int = 0
    """Of all."""
    cells: set[str] = field(default_factory=set)
    """Ids of the cells with this warning."""
    shown: list[tuple[Record, StabilityWarning]] = field(default_factory=list)
    """The first of them."""


def noun_of(declaration: Declaration) -> str:
    """Return the word for an adapter: the run's own, else its suite's, else ``adapter``."""
    return declaration.noun or noun_in(declaration.suite)


def noun_in(suite: str) -> str:
    """Return the word for an adapter in a suite: ``adapter`` if it is not installed."""
    try:
        return suite_named(suite).declaration.noun or "adapter"
    except UsageError:
        return "adapter"


def facts_of(run: Run) -> str:
    """Return a run's profile, effort, time and machine; the text is anybody's."""
    hardware = run.manifest.machine.hardware
    allotment = run.manifest.plan.allotment
    limits = run.manifest.machine.limits
    parts = [
        f"profile {run.manifest.profile}",
        f"effort {run.manifest.effort.name}",
        *((f"time {duration(allotment.time_s)} (goal {allotment.goal})",) if allotment else ()),
        hardware.cpu_model or hardware.architecture,
        f"{limits.usable_cores or hardware.logical_cores or MISSING} cores",
        size(hardware.memory_bytes),
        *(accelerator.name for accelerator in hardware.accelerators or ()),
        *(f"continued on {one.name}" for one in run.manifest.continued_on),
        *((duet.words,) if (duet := run.manifest.duet) else ()),
    ]
    return " · ".join(parts)


def warned_in(records: Iterable[Record]) -> list[Warned]:
    """Return the kinds of warnings of records, in the order in which each first occurs."""
    kinds: dict[str, Warned] = {}
    for record in records:
        for warning in record.warnings:
            kind = kinds.setdefault(warning.kind, Warned(warning))
            kind.count += 1
            kind.cells.add(record.cell.id)
            if len(kind.shown) < MOST_SHOWN:
                kind.shown.append((record, warning))
    return list(kinds.values())


def reason_of(cause: Cause | None) -> str:
    """Return a cause, with its remedy in a second line; the text is untrusted."""
    if cause is None:
        return "no cause was recorded"
    return cause.message + (f"\n→ {cause.action}" if cause.action else "")
