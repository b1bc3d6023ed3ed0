"""Compare every element of an epoch with the reference, by a few numbers for each field.

Whole batches are compared at random, so one wrong element among thousands would rarely be met. So
the worker sums up every element of the warm-up, outside the clock. The reference's sums depend on
neither library nor round. The judge keeps them beside the data and adds some in each round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.devices import on_host
from skymark.suites.loading.oracle.comparison import CHUNK_VALUES
from skymark.suites.loading.oracle.content import tolerance_of
from skymark.suites.loading.oracle.oracle import Check, Oracle

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.dataset.canonical import Array
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch

PARTS = 8
"""Equal parts of an element with a sum each; for an image these are stripes."""

MOST_ELEMENTS = 200_000
"""Largest data set whose elements are summed up."""

LEAST_BUDGET_S = 0.5
"""Least time of a round to sum up the reference's elements."""

BUDGET_SHARE = 0.15
"""The same as a share of the reference's time for the compared batches."""

LARGEST_WEIGHT = 1.5
"""Weights lie between 0.5 and this, so that exchanged values change a sum."""

MOST_DOUBTED = 8
"""Differing elements for which the reference's sums are made again."""

GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio are spread evenly (Weyl's equidistribution), so weights differ."""


def sums(values: Any, padding: int | None) -> Array | None:
    """Return the weighted sums of each element of a field; None for what has none.

    Args:
        values: ``[B, ...]``.
        padding: value that fills up ragged elements; None for elements of one shape.

    Returns:
        float64 ``[B, parts]``, weighted means of parts; uint64 ``[B, 1]``, for integers exact
        modulo 2⁶⁴ and the same however long an element is padded.
    """
    array = np.asarray(on_host(values))
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    rows = array.reshape(len(array), -1)
    places = np.arange(rows.shape[1])
    if array.dtype.kind != "f":
        factors = (2 * places + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        shifted = (rows.astype(np.int64) - (padding or 0)).view(np.uint64)
        exact: Array = (shifted * factors).sum(axis=1, dtype=np.uint64)[:, None]
        return exact
    if padding is not None:
        return None
    weights = 0.5 + (places * GOLDEN) % 1.0
    starts = np.linspace(0, len(places), min(PARTS, len(places)), endpoint=False).astype(int)
    lengths = np.diff([*starts, len(places)])
    step = max(1, CHUNK_VALUES // len(places))
    chunks = (rows[begin : begin + step] * weights for begin in range(0, len(rows), step))
    return np.concatenate([np.add.reduceat(chunk, starts, axis=1) for chunk in chunks]) / lengths


def sums_of(batch: Batch, scenario: Scenario) -> dict[str, Array]:
    """Return the sums of the fields of a batch that has a row for each element."""
    found = {}
    for name, values in batch.items():
        padding = scenario.padding.get(name, 0) if name in scenario.variable_length else None
        if _rows(values) != _rows(batch["index"]):
            continue
        if (made := sums(values, padding)) is not None:
            found[name] = made
    return found


def _rows(values: Any) -> int | None:
    """Return the number of rows; None for a future and the like, which other checks refuse."""
    try:
        return len(values)
    except TypeError:
        return None


class Summary:
    """The sums of the batches of one epoch, by field."""

    def __init__(self, job: LoadingJob) -> None:
        self._scenario = job.scenario
        self._is_wanted = (
            not job.scenario.mixes
            and job.deliver == "host"
            and job.scenario.epoch_elements <= MOST_ELEMENTS
        )
        self._parts: list[dict[str, Array]] = []
        self.cpu_s = 0.0
        """CPU time that it took."""

    def add(self, batch: Batch) -> None:
        """Sum up a batch, unless its elements change one another or lie on a device."""
        if not self._is_wanted:
            return
        begin = time.thread_time()
        self._parts.append(sums_of(batch, self._scenario))
        self.cpu_s += time.thread_time() - begin

    def check(self, epoch: int, stream: Array) -> Iterator[EveryElement]:
        """Yield the check of an epoch with these elements in order, int64 ``[n]``."""
        names = set.intersection(*map(set, self._parts)) if self._parts else set()
        fields = {
            name: np.concatenate([part[name] for part in self._parts])
            for name in sorted(names)
            if len({part[name].shape[1] for part in self._parts}) == 1
        }
        whole = {name: values for name, values in fields.items() if len(values) == len(stream)}
        if whole:
            yield EveryElement(epoch, stream, whole)


@dataclass(frozen=True)
class EveryElement(Check):
    """Every element of an epoch has the reference's sums; made after the checks of content."""

    epoch: int
    stream: Array
    """Elements in order of delivery, int64 ``[n]``."""
    fields: Mapping[str, Array]
    """Sums ``[n, …]`` by field."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for an element with other sums, among those whose reference is known."""
        if oracle.known_sums is None or oracle.cause is not None:
            return None
        known = KnownSums(oracle.known_sums, len(oracle.dataset))
        in_time = self._unknown(known, oracle)
        known.add(in_time, self._made(in_time, oracle))
        for name in self.fields:
            doubted = self._differing(name, known, oracle)[:MOST_DOUBTED]
            known.add(doubted, self._made(doubted, oracle))
            if wrong := self._differing(name, known, oracle).tolist():
                known.save()
                return Cause(
                    kind="content",
                    message=f"element {wrong[0]} of epoch {self.epoch} has another {name!r} than "
                    f"the reference ({len(wrong)} of {len(self.stream)} elements)",
                )
        known.save()
        return None

    def _unknown(self, known: KnownSums, oracle: Oracle) -> Array:
        """Return the unknown elements for which there is time, at random."""
        unknown = np.setdiff1d(self.stream, np.flatnonzero(known.is_known))
        np.random.default_rng().shuffle(unknown)
        element_s = max(oracle.reference_s, 1e-6)
        spent_s = element_s * oracle.content_elements
        return unknown[: int(max(LEAST_BUDGET_S, BUDGET_SHARE * spent_s) / element_s)]

    def _made(self, elements: Array, oracle: Oracle) -> Iterator[dict[str, Array]]:
        """Yield the reference's sums of elements, one at a time."""
        for index in elements.tolist():
            transformed = oracle.reference.elements(self.epoch, np.array([index]))
            yield sums_of(oracle.reference.batch_of(self.epoch, transformed), oracle.scenario)

    def _differing(self, name: str, known: KnownSums, oracle: Oracle) -> Array:
        """Return the elements whose sums of a field differ from the known ones."""
        here = known.is_known[self.stream]
        got = self.fields[name][here]
        elements: Array = self.stream[here]
        want = known.fields.get(name)
        if want is None or not len(elements) or want.shape[1] != got.shape[1]:
            return elements[:0]
        want = want[elements]
        if got.dtype.kind != "f" or want.dtype.kind != "f":
            unequal: Array = elements[(got != want).any(axis=1)]
            return unequal
        allowed = LARGEST_WEIGHT * self._allowed(want, oracle)
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= allowed)
        apart: Array = elements[~same.all(axis=1)]
        return apart

    @staticmethod
    def _allowed(want: Array, oracle: Oracle) -> float:
        """Return the largest honest difference of the mean of a part."""
        if not oracle.declared.native:
            return oracle.max_tolerance
        largest, mean, _ = tolerance_of(oracle, want)
        return largest if mean is None else min(largest, PARTS * mean)


class KnownSums:
    """The reference's sums of the elements of one epoch, in a file that grows.

    Args:
        path: the file; need not exist.
        elements: elements of the data set.
    """

    def __init__(self, path: Path, elements: int) -> None:
        self._path, self._is_new = path, False
        self.is_known = np.zeros(elements, bool)
        self.fields: dict[str, Array] = {}
        with suppress(OSError, ValueError, KeyError, EOFError, BadZipFile):  # or it is made anew
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                held = {name: stored[name] for name in stored.files}
            if all(len(values) == elements for values in held.values()):
                self.is_known = held.pop("")
                self.fields = held

    def add(self, elements: Array, made: Iterable[dict[str, Array]]) -> None:
        """Add or replace the sums of elements."""
        for index, sums in zip(elements.tolist(), made, strict=True):
            for name, values in sums.items():
                empty = np.zeros((len(self.is_known), values.shape[1]), values.dtype)
                self.fields.setdefault(name, empty)[index] = values[0]
            self.is_known[index] = self._is_new = True

    def save(self) -> None:
        """Write the file anew if there are new sums; others may write it at the same time."""
        if self._is_new:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_suffix(f".{os.getpid()}")
            arrays: dict[str, Any] = {"": self.is_known, **self.fields}
            with part.open("wb") as file:
                np.savez(file, **arrays)
            part.replace(self._path)
