"""Hypotheses of a field's mistakes that no stage knows: places, values, masks, axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np

from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.hypotheses import Hypothesis

Deformation: TypeAlias = Callable[[Array], Array]

STEPS = (1, -1)
"""Places and values by which loops and conventions are usually off."""


def deformed(name: str, want: Array) -> Iterator[Hypothesis]:
    """Yield the likely mistakes in a field of the reference ``[B, ...]``, whatever its work."""
    for description, deform in _deformations(want):
        yield Hypothesis(
            "deformed",
            f"field {name!r} is the right one, but {description}",
            partial(_batch_of, name, deform, want),
        )


def _batch_of(name: str, deform: Deformation, want: Array) -> dict[str, Array]:
    return {name: deform(want)}


def _deformations(want: Array) -> Iterator[tuple[str, Deformation]]:
    if want.dtype.kind in "iu":
        yield from _of_integers(want)
    for axis in range(1, want.ndim):
        counted = f"axis {axis} of {want.ndim}, from 0"
        for step in STEPS:
            where = "later" if step > 0 else "earlier"
            yield f"one place {where} along {counted}", partial(shifted, axis=axis, by=step)
        yield f"mirrored along {counted}", partial(np.flip, axis=axis)
    if want.ndim > 2 and want.shape[1] == want.shape[2]:
        yield "with its first two axes swapped", partial(np.swapaxes, axis1=1, axis2=2)


def _of_integers(want: Array) -> Iterator[tuple[str, Deformation]]:
    if want.ndim > 1 and want.size and 0 <= want.min() <= want.max() <= 1:
        yield "its ones reach one place too far", partial(longer, by=1)
        yield "its ones begin one place too early", partial(longer, by=-1)
        yield "its ones end one place too early", partial(shorter, by=-1)
        yield "its ones begin one place too late", partial(shorter, by=1)
        yield "ones and zeros are exchanged", lambda values: 1 - values
    yield "one too large", lambda values: values + 1
    yield "one too small", lambda values: values - 1


def shifted(values: Array, axis: int, by: int) -> Array:
    """Move values along an axis; the place left free keeps what it had."""
    moved: Array = np.roll(values, by, axis)
    free = [slice(None)] * values.ndim
    free[axis] = slice(0, by) if by > 0 else slice(by, None)
    moved[tuple(free)] = values[tuple(free)]
    return moved


def longer(mask: Array, by: int) -> Array:
    """Extend runs of ones at one end, along the last axis."""
    return np.maximum(mask, shifted(mask, mask.ndim - 1, by))


def shorter(mask: Array, by: int) -> Array:
    """Shorten runs of ones at one end, along the last axis."""
    return np.minimum(mask, shifted(mask, mask.ndim - 1, by))
