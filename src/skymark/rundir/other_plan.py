"""Differences of two plans in words, to help the user find the options of the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from skymark.model.plan import Plan

NAMED = 3
"""Most differences, or names in a difference, that are shown; the rest is counted."""
LONGEST_VALUE = 40


def difference(theirs: Plan, ours: Plan) -> str:
    """Describe the differences of two plans with different hashes.

    Args:
        theirs: plan of the existing run.
        ours: the new plan.

    Returns:
        Such as ``adapters: numpy only there, grain only here``; empty if no difference is found.
    """
    return "; ".join(_few([*_names(theirs, ours), *_efforts(theirs, ours), *_cells(theirs, ours)]))


def _names(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the adapters and scenarios of only one plan, or else of its combinations."""
    there, here = ([planned.cell for planned in plan.cells] for plan in (theirs, ours))
    told = [
        *_only("adapters", {cell.adapter for cell in there}, {cell.adapter for cell in here}),
        *_only("scenarios", {cell.label for cell in there}, {cell.label for cell in here}),
    ]
    yield from told or _only("cells", {cell.id for cell in there}, {cell.id for cell in here})


def _only(kind: str, there: set[str], here: set[str]) -> Iterator[str]:
    sides = (("there", there - here), ("here", here - there))
    named = [f"{', '.join(_few(sorted(names)))} only {side}" for side, names in sides if names]
    if named:
        yield f"{kind}: {', '.join(named)}"


def _efforts(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the names of two efforts, or the differences of efforts with the same name."""
    there, here = theirs.effort, ours.effort
    if there.name != here.name:
        yield f"effort is {there.name} there and {here.name} here"
        return
    dumps = [effort.model_dump(mode="json", exclude={"cell_timeout_s"}) for effort in (there, here)]
    yield from _values("effort", *dumps)


def _cells(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the differences of cells with the same id, each once."""
    there = {planned.cell.id: planned.cell for planned in theirs.cells}
    differences: dict[str, None] = {}
    for planned in ours.cells:
        cell = there.get(planned.cell.id)
        if cell is not None and cell.hash != planned.cell.hash:
            dumps = [one.model_dump(mode="json") for one in (cell, planned.cell)]
            for name in ("settings", "specification"):
                differences.update(dict.fromkeys(_values(name, dumps[0][name], dumps[1][name])))
    yield from differences


def _values(
    path: str, there: Mapping[str, JsonValue], here: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Yield each different value of nested JSON objects."""
    for name in sorted(there.keys() | here.keys()):
        one, other = there.get(name), here.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _values(f"{path}.{name}", one, other)
        elif one != other:
            yield f"{path}.{name} is {_short(one)} there and {_short(other)} here"


def _short(value: JsonValue) -> str:
    text = "not set" if value is None else str(value) or "empty"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _few(names: Sequence[str]) -> list[str]:
    """Return the first names, and the number of further names."""
    more = len(names) - NAMED
    return [*names[:NAMED], *([f"{more} more"] if more > 0 else [])]
