"""The consumer that trains, with a step that notes what it is given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skymark.measure.consumer import Sleeper, StepTotals
from skymark.model.errors import UsageError
from skymark.suites.loading.adapters.numpy import NumpyReference
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.step.consumption import Consumption, StepConsumer
from skymark.suites.loading.step.step import Step, StepKind
from skymark.suites.loading.work import Size
from tests.processes.drives.conftest import make_bench

__all__ = ["make_bench"]

MLP = StepKind.parse("mlp:5")


class Noting(Step):
    """A step of 7 ns by the device's clock, of which 2 pass until it is launched."""

    launch_ns = 2
    peak_flops_per_s = 1e12

    def __init__(self):
        self.shapes, self.trained = [], 0

    def inputs(self, batch):
        self.shapes.append({name: value.shape for name, value in batch.items()})
        return batch

    def train(self, inputs):
        self.trained += 1
        return 7

    def flops(self, inputs):
        return 100 * len(next(iter(inputs.values())))


def batch_of(size):
    return {"index": np.arange(size), "x": np.ones((size, 3)), "name": np.array(["a"] * size)}


def test_the_step_is_made_with_the_first_batch_and_tried_with_each_shape():
    made = []

    def start():
        made.append(Noting())
        return made[-1]

    trainer = StepConsumer(start)
    assert not made
    for size in (4, 2, 2, 4):
        trainer.prepare(batch_of(size))
    (step,) = made
    assert step.shapes == [{"x": (4, 3)}, {"x": (2, 3)}]
    assert step.trained == 2 * 2


def test_a_batch_is_trained_on_once_and_the_devices_time_is_returned():
    step = Noting()
    trainer = StepConsumer(lambda: step)
    trainer.prepare(batch_of(4))
    before = step.trained
    assert trainer.consume(batch_of(4)) == 7
    assert step.trained == before + 1
    work = trainer.take_work()
    assert work == StepTotals(steps=1, busy_ns=7, launch_ns=2, flops=400, peak_flops_per_s=1e12)
    assert work.flop_share == pytest.approx(400 / 7e-9 / 1e12)
    assert trainer.take_work() == StepTotals()
    assert StepTotals().flop_share is None
    assert StepTotals().launch_ns_per_step is None


@dataclasses.dataclass(frozen=True)
class WithNoting(Consumption):
    """Trains with a given step."""

    given: Step | None = None

    def consumer(self, adapter, job):
        return StepConsumer(lambda: self.given)


SCENARIO = Determinism(Size(elements=203, batch_size=16, values={"features": 6}), seed=3)


def test_every_measured_batch_but_the_last_of_a_stopped_pass_is_trained_on(make_bench):
    step = Noting()
    bench = make_bench(SCENARIO, "Honest")
    outcome = epochs.drive(dataclasses.replace(bench, consumption=WithNoting(given=step)))
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    measured = [epoch for epoch in outcome.epoch if epoch >= outcome.measured_from]
    assert outcome.consumed == len(measured)
    assert outcome.busy_ns == outcome.work.busy_ns == 7 * len(measured)
    assert outcome.work.steps == len(measured)
    assert outcome.work.flops == 100 * outcome.elements
    assert outcome.work.launch_ns_per_step == 2
    tried = 2 * 2  # full batches, and the short last one
    assert step.trained == len(outcome.epoch) + tried


def test_an_adapter_without_a_framework_cannot_train(make_bench):
    with pytest.raises(UsageError, match=r"numpy .*\bmlp\b.*--think-time-ms"):
        Consumption(step=MLP).consumer(NumpyReference(), make_bench(SCENARIO, "Honest").job)


def test_batches_are_consumed_by_sleep_or_not_at_all_without_a_step():
    assert Consumption().consumer(NumpyReference(), None) is None
    assert isinstance(Consumption(5).consumer(NumpyReference(), None), Sleeper)
