"""Orders of known displacement: global, buffered, by shards, hardly shuffled, repeated."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.oracle.ordering import (
    Orders,
    displacement,
    expected_displacement,
    neighbours,
)

ELEMENTS = 1000


def permutation(seed):
    return np.random.default_rng(seed).permutation(ELEMENTS)


def buffered(size, seed=0):
    """Deliver random elements of a buffer that is filled in storage order."""
    random, held, stream = np.random.default_rng(seed), [], []
    for element in range(ELEMENTS):
        held.append(element)
        if len(held) > size:
            stream.append(held.pop(random.integers(len(held))))
    return np.array(stream + random.permutation(held).tolist())


def test_a_global_shuffle_moves_elements_by_a_third_of_them():
    assert displacement(permutation(1)) == pytest.approx(1.0, abs=0.1)
    assert displacement(np.arange(ELEMENTS)) == 0.0
    assert displacement(permutation(1)[::2] + 7) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("size", [10, 100, 300, 700, 1000, 10_000])
def test_an_honest_buffer_passes_for_what_it_is(size):
    orders = Orders(f"buffer {size}")
    for epoch in range(3):
        assert orders.fault(epoch, buffered(size, epoch)) is None
    assert orders.displacement > 0.5 * expected_displacement(f"buffer {size}", ELEMENTS)


@pytest.mark.parametrize("declared", ["global", "buffer 500"])
def test_a_smaller_buffer_than_declared_is_named(declared):
    fault = Orders(declared).fault(0, buffered(20))
    assert fault.kind == "hardly-shuffled"
    assert repr(declared) in fault.message


def test_shards_in_random_order_pass_for_shards_and_not_for_a_global_shuffle():
    def sharded(epoch):
        shards = np.random.default_rng(epoch).permutation(10)
        return (shards[:, None] * 100 + np.arange(100)).reshape(-1)

    shards, declared_global = Orders("shards"), Orders("global")
    assert [shards.fault(epoch, sharded(epoch)) for epoch in range(3)] == [None] * 3
    found = [declared_global.fault(epoch, sharded(epoch)) for epoch in range(3)]
    assert "same-order" in {fault.kind for fault in found if fault}


@pytest.mark.parametrize("kind", ["global", "shards", "buffer 1000"])
def test_the_same_order_in_each_epoch_is_named(kind):
    orders = Orders(kind)
    assert orders.fault(0, permutation(1)) is None
    fault = orders.fault(1, permutation(1))
    assert fault.kind == "same-order"
    assert "epoch 1 came in the order of epoch 0" in fault.message


def test_the_same_order_begun_elsewhere_is_named():
    orders = Orders()
    assert orders.fault(0, permutation(1)) is None
    assert orders.fault(1, np.roll(permutation(1), 333)).kind == "same-order"


def test_ranks_have_orders_of_their_own():
    orders = Orders()
    assert orders.fault(0, permutation(1), rank=0) is None
    assert orders.fault(0, permutation(1), rank=1) is None
    assert orders.fault(1, permutation(2), rank=0) is None
    assert orders.fault(1, permutation(1), rank=1).kind == "same-order"


def test_few_elements_prove_nothing():
    assert Orders().fault(0, np.arange(20)) is None
    assert Orders().displacement is None


def test_neighbours_are_counted_in_their_direction():
    assert neighbours(np.arange(11), np.arange(11)) == 1.0
    assert neighbours(np.arange(11), np.arange(11)[::-1]) == 0.0
    assert neighbours(np.array([0, 1, 5, 2, 3]), np.arange(6)) == 0.5
