"""The splits of items 1…N between workers, read from the text of ``--split``: pure functions."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError

WORKER = "worker"
"""The type of workers that are all alike."""

MOST_WORKERS = 100_000
"""A job array of Slurm can hold four million; nobody splits a plan into as many."""

Number = Annotated[int, Field(ge=1, le=MOST_WORKERS)]


class WorkerType(Frozen):
    """Workers of one kind: so many, each with so many parts, and CPUs where a split has them."""

    name: str = WORKER
    count: Number
    completions: Number = 1
    """Parts of each one's slice, which pods of their own take."""
    at_once: Number = 1
    """Those of them that run at the same time."""
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Of each; None where the split does not say."""

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


class Split(Frozen):
    """A way to divide items between workers. Equal splits give equal parts, on any machine."""

    kind: ClassVar[str]
    """Its name in ``--split``."""
    weighs: ClassVar[str] = ""
    """Which weight of items it looks at: ``cells``, ``time``, or none."""

    @property
    @abstractmethod
    def types(self) -> tuple[WorkerType, ...]:
        """Its workers, those first whose numbers come first."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The split as ``--split`` takes it."""

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
        """Return the part of every worker; together they are all items, each once.

        Args:
            weights: one for each item, such as seconds. Only their number counts for splits into
                ranges.
        """
        items = self.items(weights)
        return tuple(
            Part(place=place, items=tuple(chosen))
            for place, chosen in zip(self.places, items, strict=True)
        )

    @abstractmethod
    def items(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return the items of every worker, by number from 1, in the order of `places`."""


class Alike(Split):
    """Workers that are all alike, each with one part."""

    workers: Number

    @property
    def types(self) -> tuple[WorkerType, ...]:
        """Workers that are all alike."""
        return (WorkerType(count=self.workers),)

    @property
    def text(self) -> str:
        """Such as ``even:10`` or ``longest:8``."""
        return f"{self.kind}:{self.workers}"


class Even(Alike):
    """Ranges of equal length: 1000 items over 10 workers are 1–100, 101–200 and so on."""

    kind: ClassVar = "even"

    def items(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return ranges whose lengths differ by one at most."""
        return _ranges(range(1, len(weights) + 1), [1] * self.workers)


class Weighted(Split):
    """Ranges as long as workers have CPUs: one of 60 takes three times what one of 20 takes."""

    kind: ClassVar = "weighted"
    of: tuple[WorkerType, ...] = Field(min_length=1)

    @property
    def types(self) -> tuple[WorkerType, ...]:
        """Workers of several types, in the order that was given."""
        return self.of

    @property
    def text(self) -> str:
        """Such as ``weighted:heavy=1x60,worker=7x20``."""
        return f"{self.kind}:" + ",".join(
            f"{one.name}={one.count}x{one.cpus or 0:g}" for one in self.of
        )

    def items(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return ranges in proportion to CPUs."""
        shares = [Fraction(one.cpus or 0) for one in self.of for _ in range(one.count)]
        return _ranges(range(1, len(weights) + 1), shares)


class Longest(Alike):
    """The longest item first, each to the worker that has the least to do."""

    kind: ClassVar = "longest"
    weighs: ClassVar = "time"

    def items(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return the items of every worker (R. L. Graham, SIAM J. Appl. Math. 17, 1969).

        Equal weights go by number, and equal loads to the first worker.
        """
        loads = [0.0] * self.workers
        taken: list[list[int]] = [[] for _ in loads]
        for item in sorted(range(len(weights)), key=lambda item: (-weights[item], item)):
            worker = loads.index(min(loads))
            loads[worker] += weights[item]
            taken[worker].append(item + 1)
        return [sorted(items) for items in taken]


class Balanced(Longest):
    """As many cells for each worker as their keys allow: the split of ``--shard``."""

    kind: ClassVar = "balanced"
    weighs: ClassVar = "cells"


class TwoLevel(Split):
    """A slice for each worker, and an equal part of it for each of its completions."""

    kind: ClassVar = "two-level"
    workers: Number
    completions: Number

    @property
    def types(self) -> tuple[WorkerType, ...]:
        """Workers that run all their completions at the same time."""
        return (self._type(at_once=self.completions),)

    @property
    def text(self) -> str:
        """Such as ``two-level:5x10``."""
        return f"{self.kind}:{self.workers}x{self.completions}"

    def items(self, weights: Sequence[float]) -> list[Sequence[int]]:
        """Return parts of slices, worker by worker."""
        slices = _ranges(range(1, len(weights) + 1), [1] * self.workers)
        return [part for one in slices for part in _ranges(one, [1] * self.completions)]

    def _type(self, at_once: int) -> WorkerType:
        return WorkerType(count=self.workers, completions=self.completions, at_once=at_once)


class Waves(TwoLevel):
    """Slices and parts as of `TwoLevel`, of which each worker runs only some at a time."""

    kind: ClassVar = "waves"
    at_once: Number

    @property
    def types(self) -> tuple[WorkerType, ...]:
        """Workers that run some of their completions at the same time."""
        return (self._type(at_once=self.at_once),)

    @property
    def text(self) -> str:
        """Such as ``waves:5x10/4``."""
        return f"{super().text}/{self.at_once}"


def _ranges(items: Sequence[int], shares: Sequence[int | Fraction]) -> list[Sequence[int]]:
    """Return neighbouring ranges of items, as long as their shares; no item between two of them."""
    total = sum(shares)
    ends = (int(len(items) * done / total) for done in accumulate(map(Fraction, shares)))
    return [items[start:end] for start, end in pairwise((0, *ends))]


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
