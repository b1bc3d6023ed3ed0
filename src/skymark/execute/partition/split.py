"""The splits of items 1…N between workers, read from the text of ``--split``: pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Annotated, Literal

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError

WORKER = "worker"
"""The only type of workers in splits without types."""

MOST_WORKERS = 100_000
"""Far below the four million tasks of Slurm's job arrays, and above any useful split of a plan."""

Number = Annotated[int, Field(ge=1, le=MOST_WORKERS)]


class WorkerType(Frozen):
    """A type of workers: their number, and each worker's parts and CPUs."""

    name: str = WORKER
    count: Number
    completions: Number = 1
    """Parts of each worker's slice, each for a pod of its own."""
    at_once: Number = 1
    """Parts of a slice that run at the same time."""
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """CPUs of each worker; None if the split has none."""

    @property
    def running(self) -> int:
        """Processes of this type that run at the same time."""
        return self.count * self.at_once


class WorkerPlace(Frozen):
    """A worker's place: its type, its number within the type, and its part of that slice."""

    type: str = WORKER
    index: int = Field(ge=0)
    completion: int = Field(default=0, ge=0)


class Part(Frozen):
    """The items that one worker takes, by number from 1, in order."""

    place: WorkerPlace
    items: tuple[int, ...]


Kind = Literal["even", "balanced", "longest", "weighted", "two-level", "waves"]

FORMS: Mapping[Kind, str] = {
    "even": "even:10",
    "balanced": "balanced:10",
    "longest": "longest:10",
    "weighted": "weighted:heavy=1x60,worker=7x20",
    "two-level": "two-level:5x10",
    "waves": "waves:5x10/4",
}
"""An example of each kind."""

WEIGHED: Mapping[Kind, Literal["cells", "time"]] = {"balanced": "cells", "longest": "time"}
"""Weight of items, by kind; the remaining kinds make ranges of neighbours."""


class Split(Frozen):
    """A way to divide items between workers. Equal splits give equal parts, on any machine.

    - ``even``: ranges of equal length. 1000 items over 10 workers are 1–100, 101–200 and so on.
    - ``weighted``: ranges in proportion to the workers' CPUs. 60 CPUs take three times as much as
      20.
    - ``two-level``: a slice for each worker, divided equally among its completions.
    - ``waves``: like ``two-level``, but each worker runs only some completions at a time.
    - ``longest``: the longest item first, each to the worker with the least total time.
    - ``balanced``: like ``longest``, by the number of cells. ``--shard`` uses this split.
    """

    kind: Kind
    types: tuple[WorkerType, ...] = Field(min_length=1)
    """Types of workers, in the order of their numbers."""

    @classmethod
    def alike(cls, kind: Kind, workers: int) -> Split:
        """Return a split between equal workers, each with one part."""
        return cls(kind=kind, types=(WorkerType(count=workers),))

    @property
    def weighs(self) -> str:
        """The weight of items that it uses: ``cells``, ``time``, or none."""
        return WEIGHED.get(self.kind, "")

    @property
    def text(self) -> str:
        """The split as ``--split`` takes it."""
        first = self.types[0]
        match self.kind:
            case "weighted":
                each = (f"{one.name}={one.count}x{one.cpus or 0:g}" for one in self.types)
                return f"{self.kind}:{','.join(each)}"
            case "two-level":
                return f"{self.kind}:{first.count}x{first.completions}"
            case "waves":
                return f"{self.kind}:{first.count}x{first.completions}/{first.at_once}"
        return f"{self.kind}:{first.count}"

    @property
    def places(self) -> tuple[WorkerPlace, ...]:
        """Every worker's place; a worker's number is its position here."""
        return tuple(
            WorkerPlace(type=one.name, index=index, completion=completion)
            for one in self.types
            for index in range(one.count)
            for completion in range(one.completions)
        )

    def parts(self, weights: Sequence[float]) -> tuple[Part, ...]:
        """Return the part of every worker; each item is in exactly one part.

        Args:
            weights: one for each item, such as seconds. Only their number counts for splits into
                ranges.
        """
        items = self._longest(weights) if self.weighs else self._neighbours(len(weights))
        return tuple(
            Part(place=place, items=tuple(chosen))
            for place, chosen in zip(self.places, items, strict=True)
        )

    def _longest(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return the items of every worker (R. L. Graham, SIAM J. Appl. Math. 17, 1969).

        Equal weights go by number, and equal loads to the first worker.
        """
        loads = [0.0] * self.types[0].count
        taken: list[list[int]] = [[] for _ in loads]
        for item in sorted(range(len(weights)), key=lambda item: (-weights[item], item)):
            worker = loads.index(min(loads))
            loads[worker] += weights[item]
            taken[worker].append(item + 1)
        return [sorted(items) for items in taken]

    def _neighbours(self, items: int) -> list[Sequence[int]]:
        """Return ranges of items in proportion to CPUs, and their equal parts by completions."""
        workers = [one for one in self.types for _ in range(one.count)]
        slices = _ranges(range(1, items + 1), [Fraction(one.cpus or 1) for one in workers])
        return [
            part
            for worker, items_of_worker in zip(workers, slices, strict=True)
            for part in _ranges(items_of_worker, [Fraction(1)] * worker.completions)
        ]


def _ranges(items: Sequence[int], shares: Sequence[Fraction]) -> list[Sequence[int]]:
    """Return adjacent ranges of items, in proportion to their shares."""
    total = sum(shares)
    ends = (int(len(items) * done / total) for done in accumulate(shares))
    return [items[start:end] for start, end in pairwise((0, *ends))]


def read_split(text: str, workers: int | None = None) -> Split:
    """Read a split.

    Args:
        text: the user's text.
        workers: number of workers from the environment, for a text without a number.

    Raises:
        UsageError: it is no split, or the number of workers is unknown.
    """
    name, _, rest = text.partition(":")
    kind = next((known for known in FORMS if known == name), None)
    match kind:
        case None:
            raise UnknownNameError("split", name, FORMS)
        case "even" | "balanced" | "longest":
            if rest:
                return Split.alike(kind, _number(rest, text))
            if workers is None:
                raise UsageError(
                    f"--split {text} has no number of workers, and the environment has none; give "
                    f"--split {kind}:4"
                )
            return Split.alike(kind, workers)
        case "weighted":
            types = _weighted(rest, text)
        case _:
            types = (_parted(rest, text, in_waves=kind == "waves"),)
    return Split(kind=kind, types=types)


def read_index(text: str, option: str) -> tuple[int, int]:
    """Read a worker's number, from 0, and the number of all: ``0/2`` is the first of two.

    Raises:
        UsageError: it is not INDEX/COUNT with 0 ≤ INDEX < COUNT.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if match is None or not int(match[1]) < int(match[2]) <= MOST_WORKERS:
        raise UsageError(f"{option} {text!r} must be INDEX/COUNT, such as 0/2 and 1/2")
    return int(match[1]), int(match[2])


def _parted(rest: str, text: str, *, in_waves: bool) -> WorkerType:
    """Read the workers of ``5x10`` or ``5x10/4``."""
    match = re.fullmatch(r"(\d+)x(\d+)(?:/(\d+))?", rest, re.ASCII)
    if match is None or (match[3] is not None) != in_waves:
        raise _refused(text)
    slices, completions = _number(match[1], text), _number(match[2], text)
    if slices * completions > MOST_WORKERS:
        raise UsageError(f"--split {text} makes more than {MOST_WORKERS:,} parts; give fewer")
    at_once = _number(match[3], text) if in_waves else completions
    if at_once > completions:
        raise UsageError(
            f"--split {text}: {at_once} of {completions} completions cannot run at once; give "
            f"waves:{slices}x{completions}/K with K up to {completions}"
        )
    return WorkerType(count=slices, completions=completions, at_once=at_once)


def _weighted(rest: str, text: str) -> tuple[WorkerType, ...]:
    """Read the workers of ``heavy=1x60,worker=7x20``."""
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
    return tuple(types)


def _number(digits: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", digits, re.ASCII) or not 0 < int(digits) <= MOST_WORKERS:
        raise _refused(text)
    return int(digits)


def _refused(text: str) -> UsageError:
    form = next(form for kind, form in FORMS.items() if text.partition(":")[0] == kind)
    return UsageError(
        f"--split {text} cannot be read; give one such as {form}, with numbers from 1 to "
        f"{MOST_WORKERS:,}"
    )
