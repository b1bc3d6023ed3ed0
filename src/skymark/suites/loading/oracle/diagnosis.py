"""Diagnose a faulty field: a known mistake, a cast, or misplaced values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from skymark.model.errors import DataError
from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.comparison import Tolerance, cast_fault, compare, difference
from skymark.suites.loading.oracle.hypotheses import Hypothesis, deformed, other_draws, other_work
from skymark.suites.loading.oracle.reference import Reference

NEAR_ENOUGH = 0.2
"""An explanation must be this much nearer to what was delivered than the reference is."""

CERTAIN = 1e-6
"""One that is this much nearer leaves nothing to look for."""

BFLOAT16_ERROR = 2**-7
"""The relative error of bfloat16 and a few operations on it."""

NONSENSE = (ArithmeticError, AttributeError, DataError, LookupError, TypeError, ValueError)
"""What a stage may raise when the one before it was left out."""

POOL = 4096
"""Elements among which the owner of misplaced values is looked for, beside the batch itself."""

PROJECTED = 256
"""Values of each element that are enough to recognise it."""

RECOGNISABLE = 16
"""Elements of fewer values have near neighbours by chance, so that only equal values tell."""


@dataclass(frozen=True)
class FaultyField:
    """A field of a delivered batch, the reference's, and the comparison of the two."""

    reference: Reference
    epoch: int
    indices: Array
    name: str
    got: Array
    want: Array
    tolerance: Tolerance
    fault: Cause


def diagnose(field: FaultyField) -> Cause:
    """Return the cause of a field's fault by name, or the fault as found where none is known."""
    if field.fault.kind in {"dtype", "shape"}:
        found = exact_explanation(field)
        return _told(field, found.kind, found.description) if found else field.fault
    if field.fault.kind != "content":
        return field.fault
    if found := nearest_explanation(field):
        return _told(field, found.kind, found.description)
    if _is_rounded(field) and (cast := cast_fault(field.name, field.got, field.want)):
        return cast
    if is_misplaced(field):
        return _told(
            field,
            "misplaced",
            f"the values of field {field.name!r} belong to other elements (shuffled against index)",
        )
    return Cause(kind="content", message=field.fault.message + _drawn(field))


def exact_explanation(field: FaultyField) -> Hypothesis | None:
    """Return the first hypothesis by which a field of another dtype or shape would be right.

    Another seed or epoch is not tried: one shape of a few may agree by chance.
    """
    for hypothesis, guess in _guesses(field, other_work):
        if compare(field.name, field.got, guess, field.tolerance).fault is None:
            return hypothesis
    return None


def nearest_explanation(field: FaultyField) -> Hypothesis | None:
    """Return the hypothesis nearest to the delivered field, if it is near.

    Nearness is relative to the reference's distance, so that it holds for a library's own
    operators, which never agree exactly, and for values of any scale.
    """
    distance = difference(field.got, field.want).mean
    # Beside NaN and infinity everything is near, so that only what is right explains them.
    nearest = NEAR_ENOUGH * distance if math.isfinite(distance) else field.tolerance.largest
    found = None
    for hypothesis, guess in _guesses(field, other_work, other_draws, _deformed(field)):
        if guess.shape != field.got.shape:
            continue
        apart = difference(field.got, guess).mean
        if apart < nearest:
            nearest, found = apart, hypothesis
            if apart <= CERTAIN * distance:
                break
    return found


def is_misplaced(field: FaultyField) -> bool:
    """Whether the field's values are right, within the tolerance, but belong to other elements.

    The owners are looked for in the batch and, where the reference can compute elements one by
    one and the dataset has at most `POOL` of them, in the whole dataset.
    """
    rows, own = _projection(field.got), _projection(field.want)
    if _belong_to(field, rows, own, pool=own):
        return True
    reference = field.reference
    if reference.scenario.mixes or len(reference.dataset) > POOL:
        return False
    everything = np.arange(len(reference.dataset))
    elements = (
        reference.batch(field.epoch, everything[index : index + 1])[field.name]
        for index in everything
    )
    pool = [_projection(one) for one in elements if one.shape[1:] == field.got.shape[1:]]
    return bool(pool) and _belong_to(field, rows, own, pool=np.concatenate(pool))


def _belong_to(field: FaultyField, rows: Array, own: Array, pool: Array) -> bool:
    """Whether every row is as near to one of the pool as is allowed, and nearer than to its own.

    Args:
        field: whose tolerance counts.
        rows: what was delivered, ``[B, values]``.
        own: the reference of the same elements, ``[B, values]``.
        pool: the reference of possible owners, ``[P, values]``.
    """
    allowed = 0.0
    if field.want.dtype.kind == "f" and rows.shape[1] >= RECOGNISABLE:
        allowed = field.tolerance.largest if field.tolerance.mean is None else field.tolerance.mean
    with np.errstate(invalid="ignore"):
        nearest = np.array([np.abs(pool - row).mean(axis=1).min() for row in rows])
        from_own = np.abs(rows - own).mean()
    return bool(np.all(nearest <= allowed) and nearest.mean() < NEAR_ENOUGH * from_own)


def _projection(values: Array) -> Array:
    """Return some values of each element, spread over all of it: ``[B, ...]`` to ``[B, k]``."""
    flat = values.reshape(len(values), -1)
    count = min(flat.shape[1], PROJECTED)
    places = np.linspace(0, flat.shape[1] - 1, count).astype(np.int64)
    return flat[:, places].astype(np.float64)


def _guesses(
    field: FaultyField, *changes: Callable[[Reference, int, Array], Iterable[Hypothesis]]
) -> Iterator[tuple[Hypothesis, Array]]:
    """Yield each hypothesis with the field that it would give, where it gives one."""
    asked = field.reference, field.epoch, field.indices
    for hypothesis in chain.from_iterable(change(*asked) for change in changes):
        try:
            with np.errstate(all="ignore"):
                guess = hypothesis.batch()
        except NONSENSE:
            # A stage left out can break the next: then this is not what the loader did.
            continue
        if field.name in guess:
            yield hypothesis, guess[field.name]


def _deformed(field: FaultyField) -> Callable[[Reference, int, Array], Iterable[Hypothesis]]:
    """Return the hypotheses of the field itself, in the form of those of the whole batch."""
    return lambda *_: deformed(field.name, field.want)


def _is_rounded(field: FaultyField) -> bool:
    """Whether the values differ by no more than a cast to a smaller type would explain."""
    scale = float(np.abs(field.want).max(initial=0))
    return difference(field.got, field.want).largest <= BFLOAT16_ERROR * scale


def _told(field: FaultyField, kind: str, explanation: str) -> Cause:
    return Cause(kind=kind, message=f"{explanation}; {field.fault.message}")


def _drawn(field: FaultyField) -> str:
    """Describe the random parameters of the first element."""
    parameters = field.reference.scenario.parameters(field.epoch, int(field.indices[0]))
    drawn = ", ".join(f"{name}={np.asarray(value)}" for name, value in parameters.items())
    return f"; drawn for its first element: {drawn}" if drawn else ""
