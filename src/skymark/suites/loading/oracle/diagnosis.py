"""Name the mistake in a faulty field: a known one, a cast, or misplaced values.

A hypothesis is the reference's batch with one change: a stage left out or done wrongly, another
seed or epoch, a field that is moved, mirrored or off by one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skymark.model.errors import DataError
from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array, Element
from skymark.suites.loading.oracle.comparison import Tolerance, cast_fault, compare, difference
from skymark.suites.loading.oracle.reference import HostBatch, Reference
from skymark.suites.loading.work import Stage

NEAR_ENOUGH = 0.2
"""Largest distance of an explanation from the delivered field, as a share of the reference's."""

CERTAIN = 1e-6
"""Distance of an explanation at which the search ends, as such a share."""

BFLOAT16_ERROR = 2**-7
"""The relative error of bfloat16 and a few operations on it."""

NONSENSE = (ArithmeticError, AttributeError, DataError, LookupError, TypeError, ValueError)
"""Errors that a stage may raise without the preceding stage."""

POOL = 4096
"""Largest data set that is searched for the owners of misplaced values."""

PROJECTED = 256
"""Number of values by which an element is recognised."""

RECOGNISABLE = 16
"""Least values of an element for which a near match counts. Shorter ones must be equal."""

USUAL_SEEDS = frozenset({0, 1, 42})
"""Seeds that are a library's default, or that people type."""

STEPS = (1, -1)
"""Usual errors of loops and conventions, in places or values."""

Deformation: TypeAlias = Callable[[Array], Array]


class Hypothesis(NamedTuple):
    """One possible mistake: the kind and words of its cause, and the batch it would give."""

    kind: str
    description: str
    batch: Callable[[], HostBatch]


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
    """Return the named cause of a field's fault, or the fault itself if the cause is unknown."""
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
    for hypothesis, guess in _guesses(field, other_work(field)):
        if compare(field.name, field.got, guess, field.tolerance).fault is None:
            return hypothesis
    return None


def nearest_explanation(field: FaultyField) -> Hypothesis | None:
    """Return the hypothesis nearest to the delivered field, if it is near.

    Nearness is relative to the reference's distance. It therefore works for values of any scale and
    for a library's own operators, which never agree exactly.
    """
    distance = difference(field.got, field.want).mean
    # Everything is near compared with NaN and infinity, so only an exact explanation counts.
    nearest = NEAR_ENOUGH * distance if math.isfinite(distance) else field.tolerance.largest
    found = None
    hypotheses = chain(other_work(field), other_draws(field), deformed(field.name, field.want))
    for hypothesis, guess in _guesses(field, hypotheses):
        if guess.shape != field.got.shape:
            continue
        apart = difference(field.got, guess).mean
        if apart < nearest:
            nearest, found = apart, hypothesis
            if apart <= CERTAIN * distance:
                break
    return found


def _guesses(
    field: FaultyField, hypotheses: Iterable[Hypothesis]
) -> Iterator[tuple[Hypothesis, Array]]:
    """Yield each hypothesis with the field that it would give, where it gives one."""
    for hypothesis in hypotheses:
        try:
            with np.errstate(all="ignore"):
                guess = hypothesis.batch()
        except NONSENSE:
            # A left-out stage can break the next one: then the loader did something else.
            continue
        if field.name in guess:
            yield hypothesis, guess[field.name]


def other_work(field: FaultyField) -> Iterator[Hypothesis]:
    """Yield the known mistakes of each stage and of the batch-level work.

    The work before a mistake is done once for all that come after it.
    """
    reference, epoch, indices = field.reference, field.epoch, field.indices
    scenario = reference.scenario
    stages = scenario.stages()
    elements = list(reference.raw(indices))

    def batch_after(
        elements: Iterable[Element], stages: Sequence[Stage] = (), **batching: Any
    ) -> HostBatch:
        """Return the batch of elements after some stages; the elements stay unchanged."""
        done = reference.after(stages, map(deepcopy, elements), epoch, indices)
        return reference.batch_of(epoch, done, **batching)

    for place, stage in enumerate(stages):
        later = stages[place + 1 :]
        yield Hypothesis(
            "skipped-stage",
            f"the stage {stage.name!r} was skipped",
            partial(batch_after, elements, later),
        )
        for description, mistake in stage.mistakes.items():
            yield Hypothesis(
                "wrong-stage",
                f"the stage {stage.name!r} is wrong: {description}",
                partial(batch_after, elements, (Stage(stage.name, mistake), *later)),
            )
        elements = reference.after([stage], map(deepcopy, elements), epoch, indices)
    for description, collate in scenario.collate_mistakes.items():
        yield Hypothesis(
            "wrong-stage",
            f"the batch is put together wrongly: {description}",
            partial(batch_after, elements, collate=collate),
        )
    if scenario.mixes:
        yield Hypothesis(
            "skipped-stage",
            "the batch-level work (mix) was skipped",
            partial(batch_after, elements, mixed=False),
        )


def other_draws(field: FaultyField) -> Iterator[Hypothesis]:
    """Yield the mistakes in seed and epoch, which decide the random parameters."""
    reference, epoch, indices = field.reference, field.epoch, field.indices
    scenario = reference.scenario
    asked = scenario.seed
    for seed in sorted((USUAL_SEEDS | {asked - 1, asked + 1}) - {asked, -1}):
        other = dataclasses.replace(reference, scenario=dataclasses.replace(scenario, seed=seed))
        yield Hypothesis(
            "ignored-seed",
            f"the seed was ignored: this is the content of seed {seed}, not {asked}",
            partial(other.batch, epoch, indices),
        )
    for number in sorted({0, 1, epoch - 1, epoch + 1} - {epoch, -1}):
        yield Hypothesis(
            "ignored-epoch",
            f"the epoch was ignored: this is the content of epoch {number}, not {epoch}",
            partial(reference.batch, number, indices),
        )


def deformed(name: str, want: Array) -> Iterator[Hypothesis]:
    """Yield the likely mistakes in a field of the reference ``[B, ...]``, whatever its work."""

    def batch_with(deform: Deformation) -> HostBatch:
        return {name: deform(want)}

    for description, deform in _deformations(want):
        yield Hypothesis(
            "deformed",
            f"field {name!r} is the right one, but {description}",
            partial(batch_with, deform),
        )


def _deformations(want: Array) -> Iterator[tuple[str, Deformation]]:
    if want.dtype.kind in "iu":
        if want.ndim > 1 and want.size and 0 <= want.min() <= want.max() <= 1:
            yield "its ones reach one place too far", partial(longer, by=1)
            yield "its ones begin one place too early", partial(longer, by=-1)
            yield "its ones end one place too early", partial(shorter, by=-1)
            yield "its ones begin one place too late", partial(shorter, by=1)
            yield "ones and zeros are exchanged", lambda values: 1 - values
        yield "one too large", lambda values: values + 1
        yield "one too small", lambda values: values - 1
    for axis in range(1, want.ndim):
        counted = f"axis {axis} of {want.ndim}, from 0"
        for step in STEPS:
            where = "later" if step > 0 else "earlier"
            yield f"one place {where} along {counted}", partial(shifted, axis=axis, by=step)
        yield f"mirrored along {counted}", partial(np.flip, axis=axis)
    if want.ndim > 2 and want.shape[1] == want.shape[2]:
        yield "with its first two axes swapped", partial(np.swapaxes, axis1=1, axis2=2)


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


def is_misplaced(field: FaultyField) -> bool:
    """Whether the field's values are right, within the tolerance, but belong to other elements.

    The search covers the batch. It also covers the whole dataset, if the reference can compute
    single elements and the dataset has at most `POOL` of them.
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
    """Whether every row is within the tolerance of a row of the pool, and farther from its own.

    Args:
        field: field with the tolerance.
        rows: delivered values, ``[B, values]``.
        own: the reference of the rows' elements, ``[B, values]``.
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
