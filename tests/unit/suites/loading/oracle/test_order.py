"""Orders of known displacement: global, buffered, by shards, hardly shuffled, repeated."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skymark.suites.loading.oracle import Declared, Oracle, Order
from skymark.suites.loading.oracle.order import expected_displacement
from skymark.suites.loading.scenarios.pr_production import Determinism

ELEMENTS = 1000


class Orders(Oracle):
    """An oracle that is shown orders, of a loader that declares a kind of shuffle."""

    def __init__(self, kind="global"):
        scenario = Determinism(Determinism.variants["small"])
        super().__init__(scenario, range(ELEMENTS), Declared(shuffle=kind))

    def fault(self, epoch, stream, rank=0):
        """Check the order of a stream in batches that are drawn from all over it."""
        return Order(epoch, [stream], rank).fault(self)

    def crowding(self, epoch, batches):
        return Order(epoch, batches).fault(self)


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


@pytest.mark.parametrize("size", [10, 100, 300, 700, 1000, 10_000])
def test_an_honest_buffer_passes_for_what_it_is(size):
    orders = Orders(f"buffer {size}")
    for epoch in range(3):
        assert orders.fault(epoch, buffered(size, epoch)) is None
    least = 0.5 * expected_displacement(f"buffer {size}", ELEMENTS)
    assert orders.moved_places > least * orders.uniform_places


@pytest.mark.parametrize("declared", ["global", "buffer 500"])
def test_a_smaller_buffer_than_declared_is_named(declared):
    fault = Orders(declared).fault(0, buffered(20))
    assert fault.kind == "hardly-shuffled"
    assert repr(declared) in fault.message


def sharded(epoch, count=10):
    shards = np.random.default_rng(epoch).permutation(count)
    return (shards[:, None] * (ELEMENTS // count) + np.arange(ELEMENTS // count)).reshape(-1)


def test_shards_in_random_order_pass_for_shards_and_not_for_a_global_shuffle():
    shards = Orders("shards")
    assert [shards.fault(epoch, sharded(epoch)) for epoch in range(3)] == [None] * 3
    fault = Orders("global").fault(3, sharded(3))
    assert fault.kind == "hardly-shuffled"
    assert "neighbour in storage" in fault.message


def test_batches_of_neighbours_pass_for_shards_and_not_for_a_global_shuffle():
    random = np.random.default_rng(5)
    batches = list(random.permuted(sharded(1, 50).reshape(50, 20), axis=1))
    assert Orders("global").fault(0, np.concatenate(batches)) is None
    assert Orders("shards").crowding(0, batches) is None
    fault = Orders("global").crowding(0, batches)
    assert fault.kind == "hardly-shuffled"
    assert "places in storage" in fault.message


@pytest.mark.parametrize("size", [1, 4, 20, 400, 1000])
def test_batches_of_a_global_shuffle_draw_from_places_enough(size):
    batches = np.split(permutation(1), range(size, ELEMENTS, size))
    assert Orders("global").crowding(0, batches) is None


@pytest.mark.parametrize("kind", ["global", "shards", "buffer 1000"])
def test_the_same_order_in_each_epoch_is_named(kind):
    orders = Orders(kind)
    assert orders.fault(0, permutation(1)) is None
    fault = orders.fault(1, permutation(1))
    assert fault.kind == "same-order"
    assert re.search("epoch 1 .*epoch 0;", fault.message)


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
    orders = Orders()
    assert orders.fault(0, np.roll(np.arange(20), 1)) is None
    assert orders.uniform_places == 0
