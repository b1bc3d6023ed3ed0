"""Hypotheses of a loader's mistakes: the reference's batch with one change at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from skymark.suites.loading.dataset.canonical import Array
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

    Args:
        reference: what is changed.
        epoch: the epoch asked for.
        indices: the batch's elements, int64 ``[B]``.
    """
    yield from _other_stages(reference, epoch, indices)
    for description, mistake in reference.scenario.collate_mistakes.items():
        yield Hypothesis(
            "wrong-stage",
            f"the batch is put together wrongly: {description}",
            partial(reference.batch, epoch, indices, collate=mistake),
        )
    if reference.scenario.mixes:
        yield Hypothesis(
            "skipped-stage",
            "the batch-level work (mix) was skipped",
            partial(reference.batch, epoch, indices, mixed=False),
        )


def other_draws(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    """Yield the mistakes in seed and epoch, which decide the random parameters."""
    yield from _other_seeds(reference, epoch, indices)
    yield from _other_epochs(reference, epoch, indices)


def _other_stages(reference: Reference, epoch: int, indices: Array) -> Iterator[Hypothesis]:
    stages = reference.scenario.stages()
    for place, stage in enumerate(stages):
        before, after = stages[:place], stages[place + 1 :]
        yield Hypothesis(
            "skipped-stage",
            f"the stage {stage.name!r} was skipped",
            partial(reference.batch, epoch, indices, stages=(*before, *after)),
        )
        for description, mistake in stage.mistakes.items():
            wrong = (*before, Stage(stage.name, mistake), *after)
            yield Hypothesis(
                "wrong-stage",
                f"the stage {stage.name!r} is wrong: {description}",
                partial(reference.batch, epoch, indices, stages=wrong),
            )


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
