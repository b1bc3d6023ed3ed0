"""One field of a delivered batch against the reference: dtype, precision, shape, content."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array

CHUNK_VALUES = 1 << 16
"""Values compared at a time (256 KiB of float32), so that what is computed stays in the cache."""

CAST_EVIDENCE = 64
"""Number of values without low mantissa bits that is no coincidence."""


SYSTEMATIC = 0.5
"""Largest share of the squared differences that a shift or a factor may explain."""

NOTICEABLE = 0.25
"""Least root mean square of such differences, as a share of the tolerance."""

LEAST_LEVELS = 0.5
"""Least number of different values, as a share of the reference's."""

SAMPLED_VALUES = 1 << 15
"""Values by which a shift, a factor and the number of levels are estimated."""


class Tolerance(NamedTuple):
    """Absolute differences allowed in floating-point fields."""

    largest: float
    mean: float | None = None
    """On average in any one element, where that is limited too."""
    is_native: bool = False
    """Whether it is that of a library's own operators, whose differences must be of no system."""


class ArrayDifference(NamedTuple):
    """Absolute differences of two arrays ``[B, ...]``."""

    largest: float
    mean: float
    worst_mean: float
    """The mean of the element that differs most."""


class FieldComparison(NamedTuple):
    """The result of comparing a field: its fault, if any, and its differences."""

    fault: Cause | None
    largest: float | None = None
    """The largest difference, where the field holds floats that are all within the tolerance."""


def compare(name: str, got: Array | None, want: Array, tolerance: Tolerance) -> FieldComparison:
    """Compare a field as delivered, None if it was not, with the reference's."""
    if got is None:
        return FieldComparison(
            Cause(kind="missing-field", message=f"the batch has no field {name!r}")
        )
    if fault := _form_fault(name, got, want):
        return FieldComparison(fault)
    if want.dtype.kind == "f":
        return _compare_floats(name, got, want, tolerance)
    return FieldComparison(_inequality(name, got, want))


def difference(got: Array, want: Array) -> ArrayDifference:
    """Measure how far two arrays of one shape ``[B, ...]`` are apart.

    The same infinity or NaN at the same place is no difference; otherwise it is an infinite one.
    """
    largest = total = worst_mean = 0.0
    for chunk in _differences(got, want):
        largest = max(largest, float(chunk.max(initial=0.0)))
        if chunk.size:
            means = chunk.mean(axis=1)
            total += float(means.sum())
            worst_mean = max(worst_mean, float(means.max()))
    return ArrayDifference(largest, total / max(1, len(want)), worst_mean)


def cast_fault(name: str, got: Array, want: Array) -> Cause | None:
    """Look for float32 values that have only the digits of a smaller type."""
    if got.dtype != np.float32 or want.dtype.kind != "f":
        return None
    for bits, kind in ((0xFFFF, "bfloat16"), (0x1FFF, "float16")):
        if _lacks_bits(got, bits) and not _lacks_bits(want.astype(np.float32, copy=False), bits):
            return Cause(
                kind="precision",
                message=f"field {name!r} was cast to lower precision: its float32 values have "
                f"only the digits of {kind}",
            )
    return None


def _form_fault(name: str, got: Array, want: Array) -> Cause | None:
    """Look for a wrong dtype or shape."""
    kinds = {got.dtype.kind, want.dtype.kind}
    if len(kinds) > 1 and not kinds <= set("iu"):
        return Cause(
            kind="dtype", message=f"field {name!r} is {got.dtype}, and should be {want.dtype}"
        )
    if want.dtype.kind == "f" and got.dtype.itemsize < want.dtype.itemsize:
        return Cause(
            kind="precision",
            message=f"field {name!r} was cast to lower precision: {got.dtype} instead of "
            f"{want.dtype}",
        )
    if got.shape != want.shape:
        return Cause(
            kind="shape",
            message=f"field {name!r} has shape {got.shape}, where {want.shape} is right",
        )
    return None


def _inequality(name: str, got: Array, want: Array) -> Cause | None:
    count = _elements_with(got != want)
    if not count:
        return None
    message = f"field {name!r} differs in {count} of {len(want)} elements"
    return Cause(kind="content", message=message)


def _compare_floats(name: str, got: Array, want: Array, tolerance: Tolerance) -> FieldComparison:
    largest, _, worst_mean = difference(got, want)
    if not math.isfinite(largest) and (fault := _nan_fault(name, got, want)):
        return FieldComparison(fault)
    if largest > tolerance.largest or (tolerance.mean is not None and worst_mean > tolerance.mean):
        message = (
            f"field {name!r} differs from the reference by up to {largest:.3g}, "
            f"{worst_mean:.3g} on average in the worst element "
            f"(tolerance {tolerance.largest:.3g})"
        )
        return FieldComparison(Cause(kind="content", message=message))
    fault = cast_fault(name, got, want)
    if tolerance.is_native:
        fault = fault or _distortion(name, got, want, tolerance)
    return FieldComparison(fault, largest)


def _distortion(name: str, got: Array, want: Array, tolerance: Tolerance) -> Cause | None:
    """Look for values that are shifted or scaled, or have fewer levels, within the tolerance."""
    step = max(1, want.size // SAMPLED_VALUES)
    here, there = (values.reshape(-1)[::step].astype(np.float64) for values in (got, want))
    apart = here - there
    size = float(np.sqrt(np.mean(apart**2))) if apart.size and np.isfinite(apart).all() else 0.0
    if size > NOTICEABLE * (tolerance.mean or tolerance.largest):
        basis = np.stack([np.ones_like(there), there], axis=1)
        factors = np.linalg.lstsq(basis, apart, rcond=None)[0]
        left = float(np.mean((apart - basis @ factors) ** 2)) / size**2
        if left < 1 - SYSTEMATIC:
            return Cause(
                kind="content",
                message=f"field {name!r} is the reference's times {1 + factors[1]:.4g} plus "
                f"{factors[0]:.3g}: a library's own operators may round otherwise, but not shift "
                "or scale",
            )
    levels, wanted = (len(np.unique(values)) for values in (here, there))
    if levels >= LEAST_LEVELS * wanted or wanted < CAST_EVIDENCE:
        return None
    return Cause(
        kind="precision",
        message=f"field {name!r} was cast to lower precision: {levels} different values in a "
        f"sample of {here.size}, where the reference has {wanted}",
    )


def _nan_fault(name: str, got: Array, want: Array) -> Cause | None:
    """Look for NaN on one side only."""
    for here, there, message in (
        (got, want, "is NaN in {count}, where the reference has numbers"),
        (want, got, "has numbers in {count}, where the reference is NaN"),
    ):
        if count := _elements_with(np.isnan(here) & ~np.isnan(there)):
            told = message.format(count=f"{count} of {len(want)} elements")
            return Cause(kind="content", message=f"field {name!r} {told}")
    return None


def _elements_with(wrong: Array) -> int:
    """Count the elements of a bool array ``[B, ...]`` in which any value is true."""
    return int(wrong.reshape(len(wrong), -1).any(axis=1).sum()) if wrong.size else 0


def _differences(got: Array, want: Array) -> Iterator[Array]:
    """Yield the absolute differences of a few elements at a time, ``[n, values]``.

    Computed in float32 if both are float32, because float64 copies of a batch of images would take
    four times its memory.
    """
    dtype = np.result_type(got, want, np.float32)
    step = max(1, CHUNK_VALUES * len(want) // max(1, want.size))
    for start in range(0, len(want), step):
        here, there = got[start : start + step], want[start : start + step]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.subtract(here, there, dtype=dtype)
        np.abs(apart, out=apart)
        if not np.isfinite(apart.max(initial=0.0)):
            apart[(here == there) | (np.isnan(here) & np.isnan(there))] = 0.0
            apart[np.isnan(apart)] = np.inf
        yield apart.reshape(len(here), -1)


def _lacks_bits(values: Array, mask: int) -> bool:
    """Whether no float32 value uses the mantissa bits in `mask`, for more than a few values."""
    bits = values.reshape(-1).view(np.uint32)
    return bits.size >= CAST_EVIDENCE and not any(
        np.any(bits[start : start + CHUNK_VALUES] & np.uint32(mask))
        for start in range(0, bits.size, CHUNK_VALUES)
    )
