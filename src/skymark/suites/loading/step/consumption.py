"""Consumption of batches: the settings of it, and the consumer that they make in a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from skymark.measure.consumer import Consumer, Sleeper
from skymark.model.errors import UsageError
from skymark.suites.loading.devices import is_for_model
from skymark.suites.loading.step.kind import StepKind

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import Adapter, LoadingJob
    from skymark.suites.loading.delivery.framework import FrameworkName
    from skymark.suites.loading.step.step import Step


@dataclass(frozen=True)
class Consumption:
    """The use of each batch between two waits. Picklable, for fresh processes."""

    think_ns: int = 0
    """Time to sleep; 0 for none."""
    step: StepKind | None = None
    """The training step to make; None for none."""

    def consumer(self, adapter: Adapter, job: LoadingJob) -> Consumer | None:
        """Return the consumer of a job's batches; None where they are not consumed.

        Raises:
            UsageError: a step is asked for, and the adapter has no framework that has one.
        """
        if self.step is not None:
            if adapter.framework is None:
                raise UsageError(
                    f"{adapter.slug} names no framework for the step {self.step.network}; measure "
                    "it with --think-time-ms"
                )
            return Trainer(partial(step_of, self.step, adapter.framework, job))
        return Sleeper(self.think_ns) if self.think_ns else None


class Trainer(Consumer):
    """A consumer that makes a training step with each batch.

    `start` makes the step when the first batch is there: worker processes are forked before that.
    """

    def __init__(self, start: Callable[[], Step]) -> None:
        self._start = start
        self._made: Step | None = None
        self._seen: set[tuple[tuple[int, ...], ...]] = set()

    def prepare(self, batch: Mapping[str, Any]) -> None:
        """Make the step, and make it twice with each new shape of batches: JAX compiles for it."""
        step, fields = self._step(), fields_of(batch)
        shapes = tuple(tuple(value.shape) for value in fields.values())
        if shapes not in self._seen:
            self._seen.add(shapes)
            for _ in range(2):
                step.train(step.inputs(fields))

    def consume(self, batch: Mapping[str, Any]) -> int:
        """Make a step and return how long the device computed; copying the batch is not in it."""
        step = self._step()
        return step.train(step.inputs(fields_of(batch)))

    def _step(self) -> Step:
        if self._made is None:
            self._made = self._start()
        return self._made


def fields_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's fields of a batch."""
    return {name: value for name, value in batch.items() if is_for_model(name, value)}


def step_of(kind: StepKind, framework: FrameworkName, job: LoadingJob) -> Step:
    """Make a step on the device of a job's rank.

    Raises:
        UsageError: the framework has no steps.
    """
    if framework == "torch":
        from skymark.suites.loading.step.on_torch import torch_step as make
    elif framework == "jax":
        from skymark.suites.loading.step.on_jax import jax_step as make
    else:
        raise UsageError(f"{framework} has no training step; measure with --think-time-ms")
    return make(kind, job.platform, job.rank, job.scenario.images)
