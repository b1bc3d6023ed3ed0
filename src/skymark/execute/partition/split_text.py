"""Read the text of ``--split``, such as ``even:10`` or ``waves:5x10/4``."""

from __future__ import annotations

import re

from skymark.execute.partition.split import (
    MOST_WORKERS,
    Alike,
    Balanced,
    Even,
    Longest,
    Split,
    TwoLevel,
    Waves,
    Weighted,
    WorkerType,
)
from skymark.model.errors import UnknownNameError, UsageError

FLAT: dict[str, type[Alike]] = {one.kind: one for one in (Balanced, Even, Longest)}
FORMS = {
    "even": "even:10",
    "balanced": "balanced:10",
    "longest": "longest:10",
    "weighted": "weighted:heavy=1x60,worker=7x20",
    "two-level": "two-level:5x10",
    "waves": "waves:5x10/4",
}
"""An example of each kind."""


def read_split(text: str, workers: int | None = None) -> Split:
    """Read a split.

    Args:
        text: as the user typed it.
        workers: how many there are, where the environment tells; for a text that names no number.

    Raises:
        UsageError: it is no split, or nothing tells the number of workers.
    """
    kind, _, rest = text.partition(":")
    if kind not in FORMS:
        raise UnknownNameError("split", kind, FORMS)
    if kind in FLAT:
        if not rest and workers is None:
            raise UsageError(
                f"--split {text} names no number of workers, and nothing here tells it; give "
                f"--split {kind}:4"
            )
        count = workers if not rest and workers is not None else _number(rest, text)
        return FLAT[kind](workers=count)
    if kind == Weighted.kind:
        return _weighted(rest, text)
    match = re.fullmatch(r"(\d+)x(\d+)(?:/(\d+))?", rest, re.ASCII)
    if match is None or (match[3] is None) == (kind == Waves.kind):
        raise _refused(text)
    slices, completions = _number(match[1], text), _number(match[2], text)
    if slices * completions > MOST_WORKERS:
        raise UsageError(f"--split {text} makes more than {MOST_WORKERS:,} parts; give fewer")
    if match[3] is None:
        return TwoLevel(workers=slices, completions=completions)
    at_once = _number(match[3], text)
    if at_once > completions:
        raise UsageError(
            f"--split {text}: of {completions} completions no {at_once} can run at once; give "
            f"waves:{slices}x{completions}/K with K up to {completions}"
        )
    return Waves(workers=slices, completions=completions, at_once=at_once)


def _weighted(rest: str, text: str) -> Weighted:
    types: list[WorkerType] = []
    for one in rest.split(","):
        match = re.fullmatch(
            r"([a-z](?:[a-z0-9-]{0,30}[a-z0-9])?)=(\d+)x(\d{1,6}(?:\.\d{1,3})?)", one, re.ASCII
        )
        if match is None or not float(match[3]):
            raise _refused(text)
        if match[1] in {known.name for known in types}:
            raise UsageError(f"--split {text} has the type {match[1]} twice; give each one name")
        types.append(WorkerType(name=match[1], count=_number(match[2], text), cpus=float(match[3])))
    if sum(one.count for one in types) > MOST_WORKERS:
        raise UsageError(f"--split {text} has more than {MOST_WORKERS:,} workers; give fewer")
    return Weighted(of=tuple(types))


def _number(digits: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", digits, re.ASCII) or not 0 < int(digits) <= MOST_WORKERS:
        raise _refused(text)
    return int(digits)


def _refused(text: str) -> UsageError:
    form = FORMS[text.partition(":")[0]]
    return UsageError(
        f"--split {text} cannot be read; give one such as {form}, with numbers from 1 to "
        f"{MOST_WORKERS:,}"
    )
