"""Hypotheses of a loader's mistakes: the reference's batch with one change at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

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
