"""Batches that go to a device: what is timed, verified and refused of them."""

from __future__ import annotations

import dataclasses

import pytest

from skymark.model.errors import UsageError
from skymark.suites.loading.drives import epochs, ranks, resuming
from skymark.suites.loading.scenarios.dist_ranks_and_mesh import Ranks
from skymark.suites.loading.scenarios.pr_production import Determinism, Resuming
from skymark.suites.loading.work import Size

SIZE = Size(elements=203, batch_size=16, values={"features": 6})
SCENARIO = Determinism(SIZE, seed=3)
FIELDS = 6 * 4 + 8
"""Bytes of an element without its index."""


@pytest.mark.parametrize("ahead", [True, False])
def test_delivered_batches_are_verified_and_the_copies_of_measured_epochs_counted(
    make_bench, ahead
):
    bench = make_bench(SCENARIO, "Delivers", deliver="device", copies_ahead=ahead)
    outcome = epochs.drive(bench)
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    assert outcome.transfer.moved_bytes == outcome.elements * FIELDS
    assert outcome.transfer.moving_ns > 0
    assert outcome.transfer.copied_bytes_per_s > 0


def test_nothing_is_copied_where_batches_are_to_stay_on_the_host(make_bench):
    bench = make_bench(SCENARIO, "Delivers")
    outcome = epochs.drive(bench)
    assert bench.oracle.verdict().passed
    assert outcome.transfer.moved_bytes_per_s is None
    assert outcome.transfer.copied_bytes_per_s is None


def test_an_adapter_without_a_framework_is_refused_before_it_is_opened(make_bench):
    with pytest.raises(UsageError, match=r"`framework`.* a cpu"):
        epochs.drive(make_bench(SCENARIO, "Honest", deliver="device"))


def test_what_the_copy_to_the_device_changed_is_found(make_bench):
    bench = make_bench(SCENARIO, "DeliversHalfPrecision", deliver="device")
    epochs.drive(bench)
    assert not bench.oracle.verdict().passed
    assert bench.oracle.verdict().cause.kind in {"precision", "content"}


def test_a_batch_on_the_host_is_refused_where_it_was_to_be_on_a_gpu(make_bench):
    bench = make_bench(SCENARIO, "Delivers", deliver="device", platform="gpu")
    epochs.drive(bench)
    cause = bench.oracle.verdict().cause
    assert cause.kind == "not-delivered"
    assert " the gpu" in cause.message


def test_each_rank_copies_its_own_batches(make_bench):
    scenario = Ranks(SIZE, seed=3, axes={"ranks": 2})
    bench = make_bench(scenario, "Delivers", deliver="device")
    outcome = ranks.drive(bench)
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    assert outcome.transfer.moved_bytes == outcome.elements * FIELDS
    assert outcome.transfer.copied_bytes_per_s > 0


@pytest.mark.parametrize("ahead", [True, False])
def test_an_epoch_whose_batches_go_to_a_device_can_be_resumed(make_bench, ahead):
    bench = make_bench(Resuming(SIZE, seed=3), "Delivers", deliver="device", copies_ahead=ahead)
    outcome = resuming.drive(dataclasses.replace(bench, round=1))
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    assert outcome.extra["state_bytes"] > 0
