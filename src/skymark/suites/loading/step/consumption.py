"""Consumption of batches: its settings, and the consumer in a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from skymark.measure.consumer import Consumer, Sleeper, StepTotals
from skymark.model.errors import UsageError
from skymark.suites.loading.devices import fields_for_model
from skymark.suites.loading.step.step import StepKind

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
    as_graph: bool = True
    """Whether PyTorch launches a step of an image network on a GPU as one CUDA graph."""

    @property
    def takes_time(self) -> bool:
        """Whether there is a step or a time to sleep."""
        return self.step is not None or self.think_ns > 0

    def consumer(self, adapter: Adapter, job: LoadingJob) -> Consumer | None:
        """Return the consumer of a job's batches; None without consumption.

        Raises:
            UsageError: there is a step, and the adapter has no framework for it.
        """
        if self.step is not None:
            if (framework := adapter.framework_on(job.platform)) is None:
                raise UsageError(
                    f"{adapter.slug} has no framework for the step {self.step.network}; measure "
                    "it with --think-time-ms"
                )
            return StepConsumer(partial(self._step_of, self.step, framework, job))
        return Sleeper(self.think_ns) if self.think_ns else None

    def _step_of(self, kind: StepKind, framework: FrameworkName, job: LoadingJob) -> Step:
        """Make a step on the device of a job's rank.

        Raises:
            UsageError: the framework has no steps.
        """
        device, images = (job.platform, job.rank), job.scenario.images
        if framework == "torch":
            from skymark.suites.loading.step.on_torch import torch_step

            return torch_step(kind, *device, images, as_graph=self.as_graph)
        if framework == "jax":
            from skymark.suites.loading.step.on_jax import jax_step

            return jax_step(kind, *device, images)
        raise UsageError(f"{framework} has no training step; measure with --think-time-ms")


class StepConsumer(Consumer):
    """A consumer that makes a training step with each batch.

    `start` makes the step when the first batch is there: worker processes are forked before that.
    """

    def __init__(self, start: Callable[[], Step]) -> None:
        self._start = start
        self._made: Step | None = None
        self._seen: set[tuple[tuple[int, ...], ...]] = set()
        self._work = StepTotals()

    def prepare(self, batch: Mapping[str, Any]) -> None:
        """Make the step, and let it prepare for each new shape of batches; JAX compiles then."""
        step, fields = self._step(), fields_for_model(batch)
        shapes = tuple(tuple(value.shape) for value in fields.values())
        if shapes not in self._seen:
            self._seen.add(shapes)
            step.prepare(step.inputs(fields))

    def consume(self, batch: Mapping[str, Any]) -> int:
        """Make a step and return the time of the device's computation, without the batch's copy."""
        step = self._step()
        inputs = step.inputs(fields_for_model(batch))
        busy_ns = step.train(inputs)
        self._work = self._work.plus(
            StepTotals(1, busy_ns, step.launch_ns or 0, step.flops(inputs), step.peak_flops_per_s)
        )
        return busy_ns

    def take_work(self) -> StepTotals:
        """Return the steps since the last call, without the steps of `prepare`."""
        work, self._work = self._work, StepTotals()
        return work

    def _step(self) -> Step:
        if self._made is None:
            self._made = self._start()
        return self._made
