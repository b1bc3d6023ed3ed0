"""Hypotheses of mistakes: one change of the work at a time, or of a field's values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skymark.suites.loading.dataset.canonical import Array, Element
from skymark.suites.loading.oracle.reference import HostBatch, Reference
from skymark.suites.loading.scenario import Stage

USUAL_SEEDS = frozenset({0, 1, 42})
"""Seeds that are a library's default, or that people type."""


class Hypothesis(NamedTuple):
    """One possible mistake: the kind and words of its cause, and the batch it would give."""

    kind: str
    description: str
    batch: Callable[[], HostBatch]


def other_work(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    """Yield the known mistakes of each stage and of the batch-level work.

    The work before a mistake is done once for all that come after it.

    Args:
        reference: what is changed.
        epoch: the epoch asked for.
        indices: the batch's elements, int64 ``[B]``.
    """
    scenario = reference.scenario
    stages = scenario.stages()
    elements = list(reference.raw(indices))
    batch_after = partial(_batch_after, reference, epoch, indices)
    for place, stage in enumerate(stages):
        for kind, description, instead in _mistakes_of(stage):
            changed = (*instead, *stages[place + 1 :])
            yield Hypothesis(kind, description, partial(batch_after, elements, changed))
        elements = reference.after([stage], map(deepcopy, elements), epoch, indices)
    for description, mistake in scenario.collate_mistakes.items():
        yield Hypothesis(
            "wrong-stage",
            f"the batch is put together wrongly: {description}",
            partial(batch_after, elements, collate=mistake),
        )
    if scenario.mixes:
        yield Hypothesis(
            "skipped-stage",
            "the batch-level work (mix) was skipped",
            partial(batch_after, elements, mixed=False),
        )


def other_draws(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    """Yield the mistakes in seed and epoch, which decide the random parameters."""
    yield from _other_seeds(reference, epoch, indices)
    yield from _other_epochs(reference, epoch, indices)


def _mistakes_of(stage: Stage) -> Iterator[tuple[str, str, tuple[Stage, ...]]]:
    """Yield each mistake of a stage: its kind, its words, and what is done instead."""
    yield "skipped-stage", f"the stage {stage.name!r} was skipped", ()
    for description, mistake in stage.mistakes.items():
        words = f"the stage {stage.name!r} is wrong: {description}"
        yield "wrong-stage", words, (Stage(stage.name, mistake),)


def _batch_after(
    reference: Reference,
    epoch: int,
    indices: Array,
    elements: Iterable[Element],
    stages: Sequence[Stage] = (),
    **batching: Any,
) -> HostBatch:
    """Return the batch of elements after some stages; the elements stay as they are."""
    done = reference.after(stages, map(deepcopy, elements), epoch, indices)
    return reference.batch_of(epoch, done, **batching)


def _other_seeds(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    scenario = reference.scenario
    asked = scenario.seed
    for seed in sorted((USUAL_SEEDS | {asked - 1, asked + 1}) - {asked, -1}):
        other = dataclasses.replace(reference, scenario=dataclasses.replace(scenario, seed=seed))
        yield Hypothesis(
            "ignored-seed",
            f"the seed was ignored: this is the content of seed {seed}, not {asked}",
            partial(other.batch, epoch, indices),
        )


def _other_epochs(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    for other in sorted({0, 1, epoch - 1, epoch + 1} - {epoch, -1}):
        yield Hypothesis(
            "ignored-epoch",
            f"the epoch was ignored: this is the content of epoch {other}, not {epoch}",
            partial(reference.batch, other, indices),
        )


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
