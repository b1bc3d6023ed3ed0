"""The reference's batches: a scenario's own stages, run in NumPy on a dataset's elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.work import Batch, Parameters, Stage

HostBatch = dict[str, Array]

Collate = Callable[[list[Element]], Batch]
"""Makes a batch of transformed elements."""


def to_host(batch: Batch) -> HostBatch:
    """Return a batch of any array library as NumPy arrays."""
    return {name: np.asarray(value) for name, value in batch.items()}


def widened(element: Element, parameters: Parameters) -> Element:
    """Return an element whose float32 arrays are float64."""
    del parameters
    return {
        name: value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
        for name, value in element.items()
    }


@dataclass(frozen=True)
class Reference:
    """The NumPy reference of one scenario on one dataset."""

    scenario: Scenario
    dataset: Dataset

    def batch(self, epoch: int, indices: Array, stages: Sequence[Stage] | None = None) -> HostBatch:
        """Return the batch of these elements, in this order.

        Args:
            epoch: decides the random parameters.
            indices: int64 ``[B]``.
            stages: what to do with each element, None for the scenario's own stages.
        """
        return self.batch_of(epoch, self.elements(epoch, indices, stages))

    def elements(
        self, epoch: int, indices: Array, stages: Sequence[Stage] | None = None
    ) -> list[Element]:
        """Return the transformed elements, in this order."""
        raw = self.raw(indices)
        if stages is None:
            return [self.scenario.transform(element, epoch) for element in raw]
        return self.after(stages, raw, epoch, indices)

    def raw(self, indices: Array) -> Iterator[Element]:
        """Yield the dataset's raw elements, in this order."""
        return (self.dataset[index] for index in indices.tolist())

    def after(
        self, stages: Sequence[Stage], elements: Iterable[Element], epoch: int, indices: Array
    ) -> list[Element]:
        """Return elements after some stages, each with its random parameters of this epoch.

        They are made one at a time, because data between stages may be large.

        Args:
            stages: stages to apply; a stage may write into its element.
            elements: elements of these indices, in this order.
            epoch: decides the random parameters.
            indices: int64 ``[B]``.
        """
        return [
            _after(stages, element, self.scenario.parameters(epoch, index))
            for index, element in zip(indices.tolist(), elements, strict=True)
        ]

    def in_double(self, epoch: int, indices: Array) -> HostBatch:
        """Return the batch of these elements with every stage in double precision."""
        widen = Stage("widen", widened)
        stages = [step for stage in self.scenario.stages() for step in (widen, stage)]
        return self.batch_of(epoch, self.elements(epoch, indices, stages))

    def batch_of(
        self,
        epoch: int,
        elements: list[Element],
        *,
        collate: Collate | None = None,
        mixed: bool = True,
    ) -> HostBatch:
        """Make a batch of transformed elements.

        Args:
            epoch: decides the random parameters.
            elements: in their order in the batch.
            collate: function that makes a batch of elements, None for the scenario's own.
            mixed: whether to do the scenario's work on whole batches, if any.
        """
        batch = (collate or self.scenario.collate)(elements)
        return to_host(self.scenario.mix(batch, epoch) if mixed else batch)


def _after(stages: Sequence[Stage], element: Element, parameters: Parameters) -> Element:
    for stage in stages:
        element = stage.apply(element, parameters)
    return element
