"""The generator against known answers of its authors, and what the scenarios rely on."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.random import derived_seed, philox, uniforms

# From the `kat_vectors` file of the authors' library Random123, philox4x32 with 10 rounds.
KNOWN_ANSWERS = [
    (" ".join(["00000000"] * 4), "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (" ".join(["ffffffff"] * 4), "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers_of_its_authors(counter: str, key: str, answer: str) -> None:
    low, high = words(key)

    block = philox(np.array([words(counter)], np.uint32), (low, high))

    assert block.tolist() == [words(answer)]


def test_a_draw_depends_on_its_own_index_only() -> None:
    everything = uniforms(7, 3, np.arange(100), 6)
    shuffled = np.random.default_rng(0).permutation(100)

    assert np.array_equal(uniforms(7, 3, shuffled, 6), everything[shuffled])
    assert np.array_equal(uniforms(7, 3, np.array([42]), 6)[0], everything[42])


def test_more_draws_leave_the_first_ones_as_they_are() -> None:
    indices = np.arange(10)

    assert np.array_equal(uniforms(7, 3, indices, 9)[:, :2], uniforms(7, 3, indices, 2))


def test_seed_and_epoch_change_every_draw() -> None:
    indices = np.arange(1000)
    draws = [
        uniforms(seed, epoch, indices, 4) for seed, epoch in ((0, 0), (1, 0), (0, 1), (2**32, 0))
    ]

    for place, one in enumerate(draws):
        for other in draws[place + 1 :]:
            assert not np.any(one == other)


def test_draws_are_uniform_between_zero_and_one() -> None:
    draws = uniforms(5, 0, np.arange(100_000), 4)

    assert draws.min() >= 0
    assert draws.max() < 1
    # The deviation of the mean of n uniforms is sqrt(1 / 12 n); five of them.
    assert np.abs(draws.mean(axis=0) - 0.5).max() < 5 * np.sqrt(1 / 12 / 100_000)


def test_a_derived_seed_fits_31_bits_and_changes_with_the_epoch() -> None:
    seeds = [derived_seed(2**40 + 3, epoch) for epoch in range(50)]

    assert len(set(seeds)) == 50
    assert all(0 <= seed < 2**31 for seed in seeds)
