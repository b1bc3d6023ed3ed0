"""Permutations of known statistics: uniform, through a buffer, by shards, by batches, none."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from skymark.suites.loading.oracle.order import (
    batch_neighbourhoods,
    batch_neighbours,
    displacement,
    neighbours,
    rank_correlation,
    ranks,
    stream_neighbours,
    uniform_neighbourhoods,
)

ELEMENTS = 6400
BATCH = 64


def uniform(seed=0):
    return np.random.default_rng(seed).permutation(ELEMENTS)


def through_buffer(size):
    """Deliver random elements of a buffer that is filled in storage order."""
    random, held, stream = np.random.default_rng(1), list(range(size)), []
    for element in range(size, ELEMENTS):
        place = random.integers(size)
        stream.append(held[place])
        held[place] = element
    return np.array(stream + random.permutation(held).tolist())


def by_shards(count):
    return np.random.default_rng(2).permutation(np.arange(ELEMENTS).reshape(count, -1)).reshape(-1)


def in_batches(stream):
    return np.split(stream, range(BATCH, len(stream), BATCH))


def test_the_displacement_of_all_permutations_is_one_on_average():
    for elements in (2, 3, 6):
        every = [displacement(np.array(one)) for one in permutations(range(elements))]
        assert np.mean(every) == pytest.approx(1.0, rel=1e-12)


def test_the_displacement_of_known_orders():
    assert displacement(np.arange(ELEMENTS)) == 0.0
    assert displacement(np.arange(ELEMENTS)[::-1]) == pytest.approx(1.5, rel=1e-6)
    assert displacement(uniform()) == pytest.approx(1.0, abs=0.02)
    assert displacement(uniform()[::2] + 7) == pytest.approx(1.0, abs=0.03)
    half_turned = np.roll(np.arange(ELEMENTS), ELEMENTS // 2)
    assert displacement(half_turned) == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("size", [64, 640])
def test_a_buffer_moves_elements_by_about_its_size(size):
    # That of place i leaves at i - K + wait, the wait geometric of mean K: E|wait - K| = 2K / e.
    expected = 2 * size / np.e / (ELEMENTS / 3)
    assert displacement(through_buffer(size)) == pytest.approx(expected, rel=0.15)


def test_shards_in_random_order_are_displaced_like_a_uniform_shuffle_but_stay_together():
    stream = by_shards(100)
    assert displacement(stream) == pytest.approx(1.0, abs=0.15)
    assert stream_neighbours(stream) >= 63 / 64
    batches = in_batches(stream)
    assert batch_neighbours(batches) == pytest.approx(63 / 64, abs=1e-3)
    assert batch_neighbourhoods(batches, BATCH) == pytest.approx(
        1 / uniform_neighbourhoods(ELEMENTS, BATCH, BATCH)
    )


def test_neighbours_of_a_uniform_shuffle_are_as_few_as_by_chance():
    shuffles = [uniform(seed) for seed in range(20)]
    together = np.mean([batch_neighbours(in_batches(one)) for one in shuffles])
    assert together == pytest.approx((BATCH - 1) / (ELEMENTS - 1), rel=0.1)
    successive = np.mean([stream_neighbours(one) for one in shuffles])
    assert successive == pytest.approx(2 / ELEMENTS, rel=0.4)


def test_every_element_of_storage_order_is_next_to_its_neighbour():
    assert stream_neighbours(np.arange(ELEMENTS)) == 1.0
    assert stream_neighbours(np.arange(ELEMENTS)[::-1]) == 1.0
    assert stream_neighbours(np.arange(0, ELEMENTS, 2)) == 1.0
    assert stream_neighbours(np.array([0, 2, 4, 1, 3, 5])) == 0.0


def test_neighbours_are_counted_in_their_direction():
    assert neighbours(np.arange(11), np.arange(11)) == 1.0
    assert neighbours(np.arange(11), np.arange(11)[::-1]) == 0.0
    assert neighbours(np.array([0, 1, 5, 2, 3]), np.arange(6)) == 0.5


def test_a_batch_of_a_uniform_shuffle_draws_from_as_many_places_as_a_uniform_draw():
    found = [batch_neighbourhoods(in_batches(uniform(seed)), BATCH) for seed in range(10)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.005)
    few = in_batches(uniform()[: 10 * BATCH + 5])
    assert batch_neighbourhoods(few, BATCH) == pytest.approx(1.0, abs=0.08)


def test_elements_shuffled_within_a_neighbourhood_only_show_in_their_batches():
    random = np.random.default_rng(3)
    stream = random.permuted(by_shards(100).reshape(100, -1), axis=1).reshape(-1)
    assert displacement(stream) == pytest.approx(1.0, abs=0.15)
    assert stream_neighbours(stream) < 0.1
    assert batch_neighbourhoods(in_batches(stream), BATCH) < 0.03


def test_the_places_of_a_uniform_draw_are_exact_for_small_numbers():
    assert uniform_neighbourhoods(4, 2, 2) == pytest.approx(10 / 6)  # 4 of 6 pairs are apart
    assert uniform_neighbourhoods(5, 2, 2) == pytest.approx(2 * 0.7 + 0.4)
    assert uniform_neighbourhoods(5, 2, 4) == pytest.approx(2 + 0.8)
    assert uniform_neighbourhoods(6, 6, 3) == pytest.approx(1.0)


def test_the_correlation_of_two_orders():
    assert rank_correlation(uniform(1), uniform(1)) == pytest.approx(1.0)
    assert rank_correlation(uniform(1)[::-1], uniform(1)) == pytest.approx(-1.0)
    assert abs(rank_correlation(uniform(1), uniform(2))) < 4 / np.sqrt(ELEMENTS)
    swapped = np.arange(ELEMENTS).reshape(-1, 2)[:, ::-1].reshape(-1)
    expected = 1 - 6 * ELEMENTS / (ELEMENTS * (ELEMENTS**2 - 1))  # every place differs by 1
    assert rank_correlation(swapped, np.arange(ELEMENTS)) == pytest.approx(expected)


@pytest.mark.parametrize("far", [0, 10**12, -(10**12)])
def test_elements_of_any_numbers_have_the_statistics_of_those_from_0_on(far):
    random = np.random.default_rng(3)
    stream = random.permutation(ELEMENTS)
    stream[100:200] = np.arange(100)  # in storage order, and some of them twice
    before = np.concatenate([np.arange(300), random.permutation(np.arange(300, ELEMENTS))])
    assert neighbours(stream + far, before + far) == neighbours(stream, before) > 0
    assert np.array_equal(ranks(before[::2] + far), np.argsort(np.argsort(before[::2])))
