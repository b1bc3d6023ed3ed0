"""The oracle: did the loader deliver every element once, with the right content?

Content is compared with the NumPy reference. When it differs, the oracle tries to say what went
wrong: it recomputes the batch with one thing changed at a time (a stage left out, another seed,
another epoch, a known mistake) and names the change that explains what was delivered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from skymark.loading.bucketing import bucket_of
from skymark.loading.dataset.canonical import Array, Dataset, Element
from skymark.loading.scenario import Batch, Scenario, Stage
from skymark.model.record import Cause, Verification

HostBatch = dict[str, Array]

NEAR_ENOUGH = 0.2
"""An explanation must be this much nearer to what was delivered than the reference is."""


def to_host(batch: Batch) -> HostBatch:
    """Return a batch of any array library as NumPy arrays."""
    return {name: np.asarray(value) for name, value in batch.items()}


def stream_of(indices: Sequence[Any]) -> Array:
    """Return the elements of batches in order of delivery, int64 ``[n]``.

    Args:
        indices: the ``index`` array of each batch, of any array library.
    """
    flat = [np.asarray(index).reshape(-1).astype(np.int64) for index in indices]
    return np.concatenate(flat) if flat else np.empty(0, np.int64)


@dataclass
class Oracle:
    """Checks what one cell's loader delivered in one round. Stops at the first fault."""

    scenario: Scenario
    dataset: Dataset
    native: bool = False
    """Whether the library's own operators did the work, so that tolerances are theirs."""
    cause: Cause | None = None
    epochs: int = 0
    indexed_elements: int = 0
    content_elements: int = 0
    max_difference: float | None = None
    fields: tuple[str, ...] = field(default=())

    @property
    def tolerance(self) -> float:
        """Largest absolute difference allowed in floating-point fields."""
        return self.scenario.native_tolerance if self.native else self.scenario.tolerance

    def verdict(self) -> Verification:
        """Return what was checked and whether all of it was right."""
        cause = self.cause
        if cause is None and not self.content_elements:
            cause = Cause(kind="nothing-checked", message="no batch was delivered to check")
        return Verification(
            passed=cause is None,
            cause=cause,
            epochs=self.epochs,
            indexed_elements=self.indexed_elements,
            content_elements=self.content_elements,
            fields=self.fields,
            tolerance=self.tolerance,
            max_difference=self.max_difference,
            operators="native" if self.native else "reference",
        )

    def refuse(self, kind: str, message: str) -> None:
        """Remember the first fault."""
        if self.cause is None:
            self.cause = Cause(kind=kind, message=message)

    def fresh(self, **changes: Any) -> Oracle:
        """Return an oracle of the same kind that has seen nothing, for another run of a loader."""
        return dataclasses.replace(
            self,
            cause=None,
            epochs=0,
            indexed_elements=0,
            content_elements=0,
            max_difference=None,
            **changes,
        )

    def absorb(self, other: Oracle, context: str) -> None:
        """Count what another oracle checked; its fault, if any, is told with the context."""
        self.epochs += other.epochs
        self.indexed_elements += other.indexed_elements
        self.content_elements += other.content_elements
        if other.max_difference is not None:
            self.max_difference = max(self.max_difference or 0.0, other.max_difference)
        if other.cause is not None:
            self.refuse(other.cause.kind, f"{context}: {other.cause.message}")

    # Which elements

    def check_indices(
        self,
        epoch: int,
        indices: Sequence[Any],
        *,
        complete: bool = True,
        drop_last: bool = False,
        batch_size: int | None = None,
        streams: int = 1,
    ) -> None:
        """Check that an epoch delivered each element exactly once (at most once if incomplete).

        Args:
            epoch: for the message.
            indices: the ``index`` array of each batch, ``[B]``, in order of delivery.
            complete: whether the epoch ran to its end.
            drop_last: whether the job asked to drop the last short batch.
            batch_size: what the job asked for; None skips that check.
            streams: how many ranks' batches these are, each with a last batch of its own.
        """
        batches = [np.asarray(index).reshape(-1).astype(np.int64) for index in indices]
        self.epochs += 1
        if not batches:
            self.refuse("no-batches", f"epoch {epoch} delivered no batch at all")
            return
        order = np.concatenate(batches)
        self.indexed_elements += len(order)
        self._check_batches(epoch, batches, batch_size, streams)
        total = len(self.dataset)
        if len(order) and (order.min() < 0 or order.max() >= total):
            bad = order[(order < 0) | (order >= total)][0]
            self.refuse(
                "unknown-element", f"epoch {epoch} delivered index {bad} of {total} elements"
            )
            return
        counts = np.bincount(order, minlength=total)
        if (repeated := np.flatnonzero(counts > 1)).size:
            self.refuse(
                "repeated-element",
                f"epoch {epoch} delivered {_some(repeated)} more than once "
                f"({int((counts - 1).clip(0).sum())} surplus of {total} elements)",
            )
        missing = np.flatnonzero(counts == 0)
        if complete and missing.size:
            size = batch_size or self.scenario.size.batch_size
            if drop_last and missing.size == total % size:
                return
            only_full = all(len(batch) == size for batch in batches)
            tail = (
                "dropped tail: what was left after the last full batch is missing, "
                if only_full and missing.size <= size * streams
                else ""
            )
            self.refuse(
                "dropped-tail" if tail else "missing-element",
                f"{tail}epoch {epoch} never delivered {_some(missing)} "
                f"({missing.size} of {total} elements)",
            )

    def _check_batches(
        self, epoch: int, batches: list[Array], batch_size: int | None, streams: int
    ) -> None:
        for number, (previous, batch) in enumerate(pairwise(batches), 1):
            if len(batch) and np.array_equal(previous, batch):
                self.refuse(
                    "repeated-batch",
                    f"batch {number} of epoch {epoch} is batch {number - 1} served again "
                    f"(elements {_some(batch)})",
                )
        if batch_size and (largest := max(map(len, batches))) > batch_size:
            self.refuse(
                "batch-size", f"a batch of {largest} elements, where {batch_size} were asked for"
            )
        bucketed = bool(self.scenario.bucket_boundaries)
        short = [number for number, batch in enumerate(batches[:-1]) if len(batch) != batch_size]
        allowed = streams * (1 + self.allowed_short_batches) - 1
        if batch_size and short and not bucketed and len(short) > allowed:
            self.refuse(
                "batch-size",
                f"batch {short[0]} of epoch {epoch} has {len(batches[short[0]])} elements "
                f"before the end, where {batch_size} were asked for",
            )

    allowed_short_batches: int = 0
    """Short batches before the last that are no fault: one per worker where each has a tail."""

    def check_ranks(self, epoch: int, ranks: Sequence[Sequence[Any]]) -> None:
        """Check that no rank delivered an element that another rank delivered.

        Args:
            epoch: for the message.
            ranks: per rank, the ``index`` array of each batch.
        """
        owner = np.full(len(self.dataset), -1)
        for rank, indices in enumerate(ranks):
            order = stream_of(indices)
            order = order[(order >= 0) & (order < len(owner))]
            foreign = order[owner[order] >= 0]
            if foreign.size:
                other = owner[foreign[0]]
                shared = np.unique(order[owner[order] == other])
                self.refuse(
                    "another-rank",
                    f"rank {rank} delivered elements of another rank: epoch {epoch}, "
                    f"{_some(shared)} came from rank {other} too ({shared.size} in all)",
                )
            owner[order] = rank

    def check_shuffled(self, epoch: int, indices: Sequence[Any]) -> None:
        """Check that an epoch that was to be shuffled is not in storage order."""
        order = stream_of(indices)
        if len(order) > 16 and np.all(np.diff(order) > 0):
            self.refuse("not-shuffled", f"epoch {epoch} came in storage order; a shuffle was asked")

    # What content

    def check_batch(self, epoch: int, batch: Batch) -> None:
        """Compare every field of a delivered batch with the reference."""
        delivered = to_host(batch)
        if "index" not in delivered:
            self.refuse("missing-field", "the batch has no field 'index'")
            return
        indices = delivered["index"].reshape(-1).astype(np.int64)
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self.dataset)):
            self.refuse("unknown-element", f"epoch {epoch} delivered an index that does not exist")
            return
        elements = self._reference(epoch, indices, self.scenario, None)
        self._check_one_bucket(epoch, elements)
        expected = self._batch_of(epoch, elements, self.scenario)
        self.content_elements += len(indices)
        self.fields = tuple(sorted(expected))
        for name in expected:
            fault = self._field_fault(name, delivered, expected)
            if fault is not None:
                kind, message = fault
                if kind == "content":
                    kind, message = self._diagnose(epoch, indices, delivered, name, message)
                self.refuse(kind, message)
                return

    def expected(
        self,
        epoch: int,
        indices: Array,
        scenario: Scenario | None = None,
        stages: Sequence[Stage] | None = None,
    ) -> HostBatch:
        """Return the reference batch of these elements, in this order."""
        scenario = scenario or self.scenario
        elements = self._reference(epoch, indices, scenario, stages)
        return self._batch_of(epoch, elements, scenario)

    def _reference(
        self, epoch: int, indices: Array, scenario: Scenario, stages: Sequence[Stage] | None
    ) -> list[Element]:
        elements: list[Element] = []
        for index in indices.tolist():
            element = self.dataset[index]
            if stages is None:
                element = scenario.transform(element, epoch)
            else:
                parameters = scenario.parameters(epoch, index)
                for stage in stages:
                    element = stage.apply(element, parameters)
            elements.append(element)
        return elements

    def _batch_of(self, epoch: int, elements: list[Element], scenario: Scenario) -> HostBatch:
        return to_host(scenario.mix(scenario.collate(elements), epoch))

    def _check_one_bucket(self, epoch: int, elements: list[Element]) -> None:
        """Check that a batch's elements are of one length bucket, where the scenario has such."""
        scenario, name = self.scenario, self.scenario.length_field
        members = {bucket_of(element, scenario): element for element in elements}
        if name is None or len(members) < 2:
            return
        shown = ", ".join(
            f"element {element['index']} of length {len(element[name])} is of bucket {bucket}"
            for bucket, element in sorted(members.items())
        )
        self.refuse(
            "mixed-buckets",
            f"a batch of epoch {epoch} mixes length buckets: {shown} "
            f"(boundaries {', '.join(map(str, scenario.bucket_boundaries))})",
        )

    def _field_fault(
        self, name: str, delivered: HostBatch, expected: HostBatch
    ) -> tuple[str, str] | None:
        """Return (kind, message) of what is wrong with one field, or None."""
        if name not in delivered:
            return "missing-field", f"the batch has no field {name!r}"
        got, want = delivered[name], expected[name]
        if got.dtype.kind != want.dtype.kind and not {got.dtype.kind, want.dtype.kind} <= set("iu"):
            return "dtype", f"field {name!r} is {got.dtype}, where {want.dtype} was asked for"
        if want.dtype.kind == "f" and got.dtype.itemsize < want.dtype.itemsize:
            return (
                "precision",
                f"field {name!r} was cast to lower precision: {got.dtype} instead of {want.dtype}",
            )
        if got.shape != want.shape:
            return "shape", f"field {name!r} has shape {got.shape}, where {want.shape} is right"
        if want.dtype.kind != "f":
            wrong = got != want
            count = int(wrong.reshape(len(want), -1).any(axis=1).sum()) if want.size else 0
            if count:
                return "content", f"field {name!r} differs in {count} of {len(want)} elements"
            return None
        return self._float_fault(name, got, want)

    def _float_fault(self, name: str, got: Array, want: Array) -> tuple[str, str] | None:
        difference = np.abs(got.astype(np.float64) - want)
        within_element = tuple(range(1, difference.ndim))
        largest = float(difference.max(initial=0.0))
        mean = float(difference.mean(axis=within_element).max(initial=0.0))
        mean_limit = self.scenario.native_mean_tolerance if self.native else None
        if not largest <= self.tolerance or (mean_limit is not None and mean > mean_limit):
            return (
                "content",
                f"field {name!r} differs from the reference by up to {largest:.3g}, "
                f"{mean:.3g} on average in the worst element (tolerance {self.tolerance:.3g})",
            )
        self.max_difference = max(self.max_difference or 0.0, largest)
        return _cast_fault(name, got, want)

    # What went wrong

    def _diagnose(
        self, epoch: int, indices: Array, delivered: HostBatch, name: str, message: str
    ) -> tuple[str, str]:
        """Find the one change to the reference that explains a field's content."""
        got, want = delivered[name], self.expected(epoch, indices)[name]
        if found := self._explanation(epoch, indices, name, got):
            kind, description = found
            return kind, f"{description}; {message}"
        if _is_rounded(got, want) and (cast := _cast_fault(name, got, want)):
            return cast
        if moved := self._moved(indices, delivered, name, epoch):
            return "misplaced", f"{moved}; {message}"
        parameters = self.scenario.parameters(epoch, int(indices[0]))
        drawn = ", ".join(f"{key}={np.asarray(value)}" for key, value in parameters.items())
        return "content", f"{message}" + (
            f"; drawn for its first element: {drawn}" if drawn else ""
        )

    def _explanation(
        self, epoch: int, indices: Array, name: str, got: Array
    ) -> tuple[str, str] | None:
        """Return (kind, description) of the hypothesis nearest to what was delivered, if near.

        Nearness is relative to the reference's distance, so that it holds for a library's own
        operators, which never agree exactly, and for values of any scale.
        """
        distance = _mean_difference(self.expected(epoch, indices)[name], got)
        nearest, found = NEAR_ENOUGH * distance, None
        for kind, description, hypothesis in self._hypotheses(epoch, indices):
            try:
                guess = hypothesis()
            except Exception:  # noqa: BLE001 - a stage left out can break the next: no explanation
                continue
            if name in guess and guess[name].shape == got.shape:
                difference = _mean_difference(guess[name], got)
                if difference < nearest:
                    nearest, found = difference, (kind, description)
                if difference <= 1e-6 * distance:
                    break
        return found

    def _hypotheses(
        self, epoch: int, indices: Array
    ) -> Iterator[tuple[str, str, Callable[[], HostBatch]]]:
        scenario, stages = self.scenario, self.scenario.stages()
        for place, stage in enumerate(stages):
            without = (*stages[:place], *stages[place + 1 :])
            yield (
                "skipped-stage",
                f"the stage {stage.name!r} was skipped",
                lambda chosen=without: self.expected(epoch, indices, stages=chosen),
            )
            for description, mistake in stage.mistakes.items():
                wrong = (*stages[:place], Stage(stage.name, mistake), *stages[place + 1 :])
                yield (
                    "wrong-stage",
                    f"the stage {stage.name!r} is wrong: {description}",
                    lambda chosen=wrong: self.expected(epoch, indices, stages=chosen),
                )
        for seed in {0, 1, 42, scenario.seed + 1, scenario.seed - 1} - {scenario.seed}:
            other = dataclasses.replace(scenario, seed=seed)
            yield (
                "ignored-seed",
                f"the seed was ignored: this is the content of seed {seed}, not {scenario.seed}",
                lambda chosen=other: self.expected(epoch, indices, scenario=chosen),
            )
        for wrong_epoch in {0, 1, epoch - 1, epoch + 1} - {epoch, -1}:
            yield (
                "ignored-epoch",
                f"the epoch was ignored: this is the content of epoch {wrong_epoch}, not {epoch}",
                lambda chosen=wrong_epoch: self.expected(chosen, indices),
            )

    def _moved(self, indices: Array, delivered: HostBatch, name: str, epoch: int) -> str | None:
        """Tell whether the field's values are right but belong to other elements."""
        got = delivered[name].reshape(len(indices), -1)
        everything = range(len(self.dataset)) if len(self.dataset) <= 4096 else indices.tolist()
        pool = self.expected(epoch, np.asarray(everything, np.int64))[name] if got.size else got
        known = {row.tobytes() for row in pool.reshape(len(pool), -1).astype(got.dtype)}
        if all(row.tobytes() in known for row in got):
            return f"the values of field {name!r} belong to other elements (shuffled against index)"
        return None


def _mean_difference(one: Array, other: Array) -> float:
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).mean())


def _is_rounded(got: Array, want: Array) -> bool:
    """Whether values differ by no more than bfloat16 and a few operations on it would explain."""
    return bool(_largest(got.astype(np.float64) - want) <= 2**-7 * _largest(want))


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _cast_fault(name: str, got: Array, want: Array) -> tuple[str, str] | None:
    """Return (kind, message) if float32 values have only the digits of a smaller type."""
    if got.dtype != np.float32 or want.dtype.kind != "f":
        return None
    for bits, kind in ((0xFFFF, "bfloat16"), (0x1FFF, "float16")):
        if _only_high_bits(got, bits) and not _only_high_bits(want.astype(np.float32), bits):
            return (
                "precision",
                f"field {name!r} was cast to lower precision: its float32 values have only "
                f"the digits of {kind}",
            )
    return None


def _only_high_bits(values: Array, mask: int) -> bool:
    """Whether no float32 value uses the mantissa bits in `mask`, for more than a few values."""
    return values.size >= 64 and not np.any(values.view(np.uint32) & np.uint32(mask))


def _some(indices: Array) -> str:
    shown = ", ".join(str(index) for index in indices[:5].tolist())
    return f"element{'s' if len(indices) > 1 else ''} {shown}" + (" …" if len(indices) > 5 else "")
