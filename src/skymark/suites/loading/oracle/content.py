"""Check the content of batches: every field's dtype, precision, shape and values.

The error of n floating-point operations is at most ``γ(n) = n u / (1 - n u)`` times the value's
magnitude, where u is the unit roundoff (Higham, "Accuracy and stability of numerical algorithms",
2nd edition, 2002, lemma 3.1). Some work amplifies rounding, such as the logarithm of a nearly
silent band or a long chain. Its reference is computed in single and in double precision. Honest
work may differ from the double one by a few times their distance.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array, Element
from skymark.suites.loading.element_streams import bucket_of
from skymark.suites.loading.oracle.comparison import ArrayDifference, Tolerance, compare, difference
from skymark.suites.loading.oracle.diagnosis import FaultyField, diagnose
from skymark.suites.loading.oracle.elements import flat_indices, unknown_element
from skymark.suites.loading.oracle.oracle import Check, Oracle
from skymark.suites.loading.oracle.reference import HostBatch, to_host
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.work import Batch

UNIT_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32, round to nearest."""

ROUNDINGS = 32
"""Most roundings of a value to float32, unless a library's own operators do the work."""
SPREADS = 4.0
"""Allowed multiple of the distance between single and double precision. Rounding in another order
has the same size, but its worst value lies elsewhere. PC-1 at all depths, folded in float32, and
MM-2 with another transform stay below twice."""


@dataclass(frozen=True)
class Content(Check):
    """Every field of a batch is as the reference has it, and its index as it was on arrival."""

    epoch: int
    batch: Batch
    number: int = 0
    """Number of the batch in its epoch, from 0."""
    arrived: Any = None
    """Its index on arrival; None if that was not kept."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Count the elements compared, and return the first of the batch's faults."""
        delivered = to_host(self.batch)
        if "index" not in delivered:
            return Cause(kind="missing-field", message="the batch has no field 'index'")
        [indices] = flat_indices([delivered["index"]])
        if unknown := unknown_element(self.epoch, indices, len(oracle.dataset)):
            return unknown
        if not indices.size:
            message = f"epoch {self.epoch} delivered a batch without elements"
            return Cause(kind="batch-size", message=message)
        begin = time.thread_time()
        elements = oracle.reference.elements(self.epoch, indices)
        element_s = (time.thread_time() - begin) / len(indices)
        oracle.reference_s = min(oracle.reference_s, element_s)
        expected = oracle.reference.batch_of(self.epoch, elements)
        oracle.content_elements += len(indices)
        oracle.kept_bytes += sum(value.nbytes for value in delivered.values() if self.epoch)
        oracle.fields = tuple(sorted(expected))
        return (
            self._mixed_buckets(elements, oracle.scenario)
            or self._field_fault(oracle, indices, delivered, expected)
            or self._changed_index(delivered["index"])
        )

    def _mixed_buckets(self, elements: Sequence[Element], scenario: Scenario) -> Cause | None:
        """Look for a batch of several length buckets."""
        name = scenario.length_field
        members = {bucket_of(element, scenario): element for element in elements}
        if name is None or len(members) < 2:
            return None
        shown = ", ".join(
            f"element {element['index']} of length {len(element[name])} is of bucket {bucket}"
            for bucket, element in sorted(members.items())
        )
        return Cause(
            kind="mixed-buckets",
            message=f"a batch of epoch {self.epoch} mixes length buckets: {shown} "
            f"(boundaries {', '.join(map(str, scenario.bucket_boundaries))})",
        )

    def _field_fault(
        self, oracle: Oracle, indices: Array, delivered: HostBatch, expected: HostBatch
    ) -> Cause | None:
        """Return the fault of the first faulty field, diagnosed where that is possible.

        If the reference exists in double precision, fields are compared with it after rounding to
        the type that the job asked for.
        """
        reference, scenario = oracle.reference, oracle.scenario
        precise = reference.in_double(self.epoch, indices) if scenario.in_double else {}
        for name, single in expected.items():
            got, want = delivered.get(name), precise.get(name, single)
            tolerance = tolerance_of(oracle, want, single if name in precise else None)
            want = want.astype(single.dtype, copy=False)
            oracle.max_tolerance = max(oracle.max_tolerance, tolerance.largest)
            fault, largest = compare(name, got, want, tolerance)
            oracle.saw(largest)
            if fault is None:
                continue
            if got is None or oracle.cause is not None:
                return fault  # There is nothing to explain, or only the first fault counts.
            return diagnose(
                FaultyField(reference, self.epoch, indices, name, got, want, tolerance, fault)
            )
        return None

    def _changed_index(self, index: Array) -> Cause | None:
        """Look for a loader that overwrites a delivered batch."""
        if self.arrived is None or np.array_equal(self.arrived, index):
            return None
        return Cause(
            kind="changed-index",
            message=f"the index of batch {self.number} of epoch {self.epoch} was another after its "
            "arrival: the loader wrote into a batch that it had delivered",
        )


def kept_content(
    epoch: int, indices: Sequence[Any], kept: Mapping[int, Batch]
) -> Iterator[Content]:
    """Yield the checks of kept batches, given by number, with the indices of all on arrival."""
    return (Content(epoch, batch, number, indices[number]) for number, batch in kept.items())


def gamma(operations: int) -> float:
    """Return Higham's bound of the relative error of a number of operations in float32."""
    return operations * UNIT_ROUNDOFF / (1 - operations * UNIT_ROUNDOFF)


def rounding_tolerance(
    operations: int, want: Array, spread: ArrayDifference | None = None
) -> Tolerance:
    """Return the differences that honest work in float32 may have in a field.

    Args:
        operations: roundings that a value goes through.
        want: the reference's values.
        spread: the distance of the reference in single from that in double precision, if known.
    """
    magnitude = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    rounding = gamma(operations) * magnitude
    if spread is None:
        return Tolerance(rounding)
    return Tolerance(
        rounding + SPREADS * spread.largest, mean=rounding + SPREADS * spread.worst_mean
    )


def tolerance_of(oracle: Oracle, want: Array, single: Array | None = None) -> Tolerance:
    """Return the differences allowed in a field, exact where it holds no floats.

    Args:
        oracle: whose scenario and adapter decide.
        want: the reference's values.
        single: the same computed in single precision, where `want` was in double.
    """
    scenario = oracle.scenario
    if want.dtype.kind != "f":
        return Tolerance(0.0)
    if oracle.declared.native:
        return Tolerance(scenario.native_tolerance, scenario.native_mean_tolerance, is_native=True)
    spread = None if single is None else difference(single, want)
    return rounding_tolerance(ROUNDINGS, want, spread)
