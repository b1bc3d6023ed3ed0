"""Verify delivered batches against the reference and build the verdict."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skymark.model.record import Cause, Verification
from skymark.suites.loading.dataset.canonical import Array, Dataset
from skymark.suites.loading.element_streams import Mixing
from skymark.suites.loading.operators import Caches
from skymark.suites.loading.oracle import accounting
from skymark.suites.loading.oracle import reference as arithmetic
from skymark.suites.loading.oracle.accounting import mixture_fault
from skymark.suites.loading.oracle.claims import kept_objects, kept_work, worked_ahead
from skymark.suites.loading.oracle.comparison import Tolerance, compare, difference
from skymark.suites.loading.oracle.diagnosis import FaultyField, diagnose
from skymark.suites.loading.oracle.evidence import Verifier
from skymark.suites.loading.oracle.ordering import Orders
from skymark.suites.loading.oracle.reference import HostBatch, Reference, to_host
from skymark.suites.loading.scenario import Batch, Scenario, Stage


@dataclass
class Oracle(Verifier):
    """The verifier of one cell's batches in one round. Keeps the first fault."""

    scenario: Scenario
    dataset: Dataset
    native: bool = False
    """Whether the library's own operators did the work, so that tolerances are theirs."""
    allowed_short_batches: int = 0
    """Short batches before the last that are no fault: one per worker where each has a tail."""
    mixing: Mixing = "draws"
    """How the adapter declares to pick sources, where the scenario mixes some."""
    caches: Caches = "nothing"
    """The work of one epoch that the adapter declares to keep for the next."""
    orders: Orders = field(default_factory=Orders)
    """The streams that were to be shuffled."""
    cause: Cause | None = None
    epochs: int = 0
    indexed_elements: int = 0
    content_elements: int = 0
    reference_s: float = float("inf")
    """Least CPU seconds per element that the reference took for a batch."""
    max_difference: float | None = None
    max_tolerance: float = 0.0
    fields: tuple[str, ...] = ()

    @property
    def reference(self) -> Reference:
        """The NumPy reference of the scenario on the dataset."""
        return Reference(self.scenario, self.dataset)

    def tolerance(self, want: Array, single: Array | None = None) -> Tolerance:
        """Return the differences allowed in a field, exact where it holds no floats.

        Args:
            want: the reference's values.
            single: the same computed in single precision, where `want` was in double.
        """
        scenario = self.scenario
        if want.dtype.kind != "f":
            return Tolerance(0.0)
        if self.native:
            return Tolerance(scenario.native_tolerance, scenario.native_mean_tolerance)
        spread = None if single is None else difference(single, want)
        return arithmetic.tolerance(scenario.roundings, want, spread)

    def verdict(self) -> Verification:
        """Return the verdict: the counts checked, and the first fault."""
        cause = self.cause
        if cause is None and not self.content_elements:
            cause = Cause(kind="nothing-checked", message="no batch was delivered to check")
        return Verification(
            passed=cause is None,
            cause=cause,
            verified_elements=self.indexed_elements,
            compared_elements=self.content_elements,
            counts={"epochs": self.epochs, **self._places()},
            fields=self.fields,
            tolerance=self.max_tolerance,
            max_difference=self.max_difference,
        )

    def _places(self) -> dict[str, int]:
        """Return the two counts whose ratio is the displacement, also of several rounds' sums."""
        moved, uniform = self.orders.moved_places, self.orders.uniform_places
        return {"moved_places": moved, "uniform_places": uniform} if uniform else {}

    def refuse(self, kind: str, message: str) -> None:
        """Remember the first fault."""
        self._remember(Cause(kind=kind, message=message))

    def fresh(self, *, seed: int | None = None, allowed_short_batches: int | None = None) -> Oracle:
        """Return a fresh oracle of the same kind, for another run of a loader."""
        scenario, short = self.scenario, allowed_short_batches
        if seed is not None:
            scenario = dataclasses.replace(scenario, seed=seed)
        return dataclasses.replace(
            self,
            scenario=scenario,
            allowed_short_batches=self.allowed_short_batches if short is None else short,
            orders=Orders(self.orders.kind),
            cause=None,
            epochs=0,
            indexed_elements=0,
            content_elements=0,
            reference_s=float("inf"),
            max_difference=None,
            max_tolerance=0.0,
            fields=(),
        )

    def absorb(self, other: Oracle, context: str) -> None:
        """Add another oracle's counts, and its fault, if any, with the context."""
        self.epochs += other.epochs
        self.indexed_elements += other.indexed_elements
        self.content_elements += other.content_elements
        self.reference_s = min(self.reference_s, other.reference_s)
        self._saw(other.max_difference)
        self.max_tolerance = max(self.max_tolerance, other.max_tolerance)
        if other.cause is not None:
            self.refuse(other.cause.kind, f"{context}: {other.cause.message}")

    def check_arrivals(self, epoch: int, cause: Cause | None) -> None:
        """Add what was wrong with a batch of an epoch as it arrived, if anything was."""
        if cause is not None:
            self.refuse(cause.kind, f"epoch {epoch}: {cause.message}")

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
        """Check that an epoch delivered each element exactly once (at most once if incomplete)."""
        self.epochs += 1
        batches = accounting.flat_indices(indices)
        if not batches:
            self.refuse("no-batches", f"epoch {epoch} delivered no batch at all")
            return
        stream, total = np.concatenate(batches), len(self.dataset)
        self.indexed_elements += len(stream)
        bucketed = bool(self.scenario.bucket_boundaries)
        short = None if bucketed else streams * (1 + self.allowed_short_batches) - 1
        mixture = self.scenario.mixture
        self._remember(
            accounting.batches_fault(epoch, batches, batch_size, short)
            or accounting.unknown_element(epoch, stream, total)
        )
        if mixture is not None and self.cause is None:
            self._remember(mixture_fault(epoch, stream, mixture, self.mixing, complete=complete))
        if mixture is not None:
            return
        self._remember(accounting.repeated_element(epoch, stream, total))
        if complete and self.cause is None:
            size = batch_size or self.scenario.size.batch_size
            self._remember(
                accounting.missing_element(
                    epoch, batches, total, size, drop_last=drop_last, streams=streams
                )
            )

    def check_ranks(self, epoch: int, ranks: Sequence[Sequence[Any]]) -> None:
        """Check that no rank delivered an element that another rank delivered."""
        self._remember(accounting.ranks_fault(epoch, ranks, len(self.dataset)))

    def check_shuffled(self, epoch: int, indices: Sequence[Any], rank: int = 0) -> None:
        """Check that an epoch was shuffled as the adapter declares, and anew."""
        batches = accounting.flat_indices(indices)
        self._remember(accounting.storage_order(epoch, indices))
        self._remember(self.orders.fault(epoch, accounting.stream_of(indices), rank))
        if not self.scenario.bucket_boundaries:  # a bucket may lie together in storage
            self._remember(self.orders.crowding(epoch, batches))

    def check_kept(self, epoch: int, indices: Sequence[Any], kept: Mapping[int, Batch]) -> None:
        """Compare kept batches, by number, with the reference and with their indices on arrival."""
        for number, batch in kept.items():
            self.check_batch(epoch, batch)
            if "index" in batch and not np.array_equal(indices[number], batch["index"]):
                self.refuse(
                    "changed-index",
                    f"the index of batch {number} of epoch {epoch} was another after its arrival: "
                    "the loader wrote into a batch that it had delivered",
                )

    def check_work(self, cpu_s: float | None, elements: int) -> None:
        """Check that enough CPU time was used to decode what was delivered, where media are."""
        if cpu_s is not None and self._has_work:
            self._remember(kept_work(cpu_s, elements, self.reference_s, native=self.native))

    def check_stream(self, stream_s: float, elements: int, cores: int) -> None:
        """Check that there was time to decode what was delivered in streams, where media are."""
        if self._has_work:
            cause = worked_ahead(stream_s, elements, self.reference_s, cores, native=self.native)
            self._remember(cause)

    @property
    def _has_work(self) -> bool:
        """Whether each element takes work anew, and it is known how much."""
        keeps = self.caches in {"decoded", "finished"}
        return self.scenario.encoded_media and not keeps and bool(self.content_elements)

    def check_fetched(self, sent_bytes: int, elements: int, stored_bytes: int) -> None:
        """Check that what was delivered had been fetched from the object server."""
        if self.caches == "nothing":
            needed = stored_bytes * elements / len(self.dataset)
            self._remember(kept_objects(sent_bytes, needed))

    def check_batch(self, epoch: int, batch: Batch) -> None:
        """Compare every field of a delivered batch with the reference."""
        delivered = to_host(batch)
        if "index" not in delivered:
            self.refuse("missing-field", "the batch has no field 'index'")
            return
        [indices] = accounting.flat_indices([delivered["index"]])
        if fault := accounting.unknown_element(epoch, indices, len(self.dataset)):
            self._remember(fault)
            return
        if not indices.size:
            self.refuse("batch-size", f"epoch {epoch} delivered a batch without elements")
            return
        begin = time.thread_time()
        elements = self.reference.elements(epoch, indices)
        self.reference_s = min(self.reference_s, (time.thread_time() - begin) / len(indices))
        self._remember(accounting.mixed_buckets(epoch, elements, self.scenario))
        expected = self.reference.batch_of(epoch, elements)
        precise = self.reference.in_double(epoch, indices) if self.scenario.in_double else {}
        self.content_elements += len(indices)
        self.fields = tuple(sorted(expected))
        self._remember(self._content_fault(epoch, indices, delivered, expected, precise))

    def expected(
        self,
        epoch: int,
        indices: Array,
        scenario: Scenario | None = None,
        stages: Sequence[Stage] | None = None,
    ) -> HostBatch:
        """Return the reference batch of these elements, in this order."""
        reference = Reference(scenario or self.scenario, self.dataset)
        return reference.batch(epoch, indices, stages=stages)

    def _content_fault(
        self,
        epoch: int,
        indices: Array,
        delivered: HostBatch,
        expected: HostBatch,
        precise: HostBatch,
    ) -> Cause | None:
        """Return the fault of the first faulty field, diagnosed where that is possible.

        Where there is a reference in double precision, fields are compared with that one, rounded
        to the type that was asked for.
        """
        for name, single in expected.items():
            got, want, tolerance = delivered.get(name), single, self.tolerance(single)
            if name in precise:
                tolerance = self.tolerance(precise[name], single)
                want = precise[name].astype(single.dtype)
            self.max_tolerance = max(self.max_tolerance, tolerance.largest)
            fault, largest = compare(name, got, want, tolerance)
            self._saw(largest)
            if fault is None:
                continue
            if got is None or self.cause is not None:
                return fault  # There is nothing to explain, or only the first fault counts.
            return diagnose(
                FaultyField(self.reference, epoch, indices, name, got, want, tolerance, fault)
            )
        return None

    def _saw(self, largest: float | None) -> None:
        if largest is not None:
            self.max_difference = max(self.max_difference or 0.0, largest)

    def _remember(self, cause: Cause | None) -> None:
        if self.cause is None:
            self.cause = cause
