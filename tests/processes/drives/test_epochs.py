"""Whole epochs: what is timed, what is kept, and what is checked of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skymark.measure.loop import Pass
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Outcome
from skymark.suites.loading.drives.stream import FEWEST_EPOCHS
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.tuning import EVERY_ELEMENT
from skymark.suites.loading.work import Size

SCENARIO = Determinism(Size(elements=203, batch_size=16, values={"features": 6}), seed=3)


def test_every_epoch_is_recorded_and_only_the_measured_ones_are_timed(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    outcome = epochs.drive(bench)
    assert bench.oracle.verdict().passed
    measured = max(outcome.epoch)
    assert outcome.epoch.count(0) == 13
    assert len(outcome.wait_ns) == len(outcome.batch_elements) == 13 * (measured + 1)
    assert outcome.elements == 203 * measured
    assert outcome.first_batch_ns == outcome.wait_ns[0]
    assert outcome.timed_ns >= 0.01e9
    assert outcome.bytes == outcome.elements * (8 + 6 * 4 + 8)


def test_epochs_go_on_until_there_are_batches_enough(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    many = bench.limits.model_copy(update={"min_seconds": 0.0, "min_batches": 27})
    outcome = epochs.drive(dataclasses.replace(bench, limits=many))
    assert max(outcome.epoch) == 3


def test_one_epoch_is_measured_where_the_effort_asks_for_nothing(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    none = bench.limits.model_copy(update={"min_seconds": 0.0})
    assert max(epochs.drive(dataclasses.replace(bench, limits=none)).epoch) == 1


def test_the_measured_epochs_share_the_longest_time(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    limits = bench.limits.model_copy(update={"min_seconds": 9.0, "max_seconds": 5.0})
    given = []

    def run(epoch, kept, seconds):
        given.append(seconds)
        return Pass([1], [np.arange(4)], {}, int(2e9), complete=seconds > 2)

    epochs.measured_epochs(dataclasses.replace(bench, limits=limits), run)
    assert given == pytest.approx([5, 3, 1])


def test_an_epoch_over_its_time_is_stopped_and_still_verified(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    hurried = bench.limits.model_copy(update={"max_seconds": 0.0})
    outcome = epochs.drive(dataclasses.replace(bench, limits=hurried))
    assert bench.oracle.verdict().passed
    assert outcome.batch_elements == [16, 16]


def test_a_kept_batch_does_not_change_with_the_buffer_it_was_made_from():
    buffer = np.zeros(3)
    kept = epochs.own_copy({"index": buffer})
    buffer += 1
    assert kept["index"].tolist() == [0, 0, 0]


def test_without_a_stream_the_first_epoch_after_the_pause_is_not_measured(make_bench):
    bench = make_bench(SCENARIO)  # 13 batches, and queues of 2 × 2
    none = bench.limits.model_copy(update={"min_seconds": 0.0})
    outcome = epochs.drive(dataclasses.replace(bench, limits=none))
    assert bench.oracle.verdict().passed
    assert max(outcome.epoch) == 1 + FEWEST_EPOCHS
    assert (outcome.elements, outcome.drained_elements) == (FEWEST_EPOCHS * 203, 203)
    measured = [epoch > 1 for epoch in outcome.epoch]
    assert outcome.samples["warm_up"] == tuple(int(not one) for one in measured)
    assert not any(outcome.samples["stream"])
    assert outcome.samples_per_s is None
    assert outcome.epoch_samples_per_s == outcome.elements / outcome.timed_ns * 1e9


def test_without_a_stream_what_was_made_in_the_pause_is_in_no_rate(make_bench):
    bench = make_bench(SCENARIO)
    bench.limits = bench.limits.model_copy(update={"min_seconds": 0.0})
    waits = iter([1, 900, 900, 900, 900])

    def run(epoch, kept, seconds):
        return Pass([wait := next(waits)], [np.arange(4)], {}, wait)

    outcome = bench.outcome()
    for epoch, done in enumerate(passes := epochs.measured_epochs(bench, run), 1):
        measured = epoch >= epochs.first_measured(bench, passes)
        outcome.add(done, epoch=epoch, measured=measured)
    assert outcome.epoch_samples_per_s == pytest.approx(4 / 900e-9)


def test_without_a_stream_few_epochs_keep_batches(make_bench):
    kept = [epochs.kept_batches(make_bench(SCENARIO), []) for _ in range(400)]
    assert set(kept) == {0, epochs.KEPT_PER_EPOCH}
    assert kept.count(0) > 300


@pytest.mark.parametrize(("workers", "batches"), [(0, 2 + 8), (2, 13)])
def test_a_round_gets_its_least_batches_though_its_time_is_over(make_bench, workers, batches):
    bench = make_bench(SCENARIO, "Slow", workers=workers)
    limits = bench.limits.model_copy(
        update={"min_seconds": 0.02, "max_seconds": 0.02, "least_batches": 8}
    )
    outcome = epochs.drive(dataclasses.replace(bench, limits=limits))
    measured = [epoch for epoch in outcome.epoch if epoch >= outcome.measured_from]
    assert len(measured) == batches


def test_a_few_batches_of_a_measured_epoch_are_kept_and_all_by_an_effort_that_verifies_all(
    make_bench,
):
    bench = make_bench(SCENARIO, workers=0)
    assert epochs.kept_batches(bench, []) == 2
    thorough = bench.limits.model_copy(update={"verified_elements": EVERY_ELEMENT})
    bench = dataclasses.replace(bench, limits=thorough)
    assert epochs.kept_batches(bench, []) == 2
    bench.batch_bytes = epochs.KEPT_BYTES // 20
    assert epochs.kept_batches(bench, []) == 20
    assert epochs.kept_batches(bench, [Pass(kept=dict.fromkeys(range(13)))]) == 7
    assert epochs.kept_batches(bench, [Pass(kept=dict.fromkeys(range(30)))]) == 2


def test_an_effort_that_verifies_all_compares_every_element_of_every_epoch(make_bench):
    bench = make_bench(SCENARIO, workers=0)
    thorough = bench.limits.model_copy(update={"verified_elements": EVERY_ELEMENT})
    epochs.drive(dataclasses.replace(bench, limits=thorough))
    verified = bench.oracle.verdict()
    assert verified.compared_elements == verified.verified_elements > 203


def test_so_many_batches_hold_the_elements_to_verify(make_bench):
    assert epochs.batches_holding(make_bench(SCENARIO, workers=0).job, 40) == 3
    assert epochs.batches_holding(make_bench(SCENARIO, workers=0).job, 0) == 1


def test_throughput_is_of_the_measured_epochs():
    outcome = Outcome()
    batch = {"index": np.arange(4)}
    outcome.add(Pass([9], [batch["index"]], {0: batch}, 10), epoch=0, measured=False)
    outcome.add(Pass([1, 2], [batch["index"]] * 2, {0: batch}, 1000), epoch=1, measured=True)
    assert outcome.samples_per_s == pytest.approx(8e6)
    assert outcome.bytes == 64


def test_bytes_are_known_although_no_batch_was_kept_of_the_last_epoch():
    outcome = Outcome()
    batch = {"index": np.arange(4)}
    outcome.add(Pass([9], [batch["index"]], {0: batch}, 10), epoch=0, measured=False)
    outcome.add(Pass([1], [batch["index"]], {}, 1000), epoch=1, measured=True)
    assert outcome.bytes == 32
