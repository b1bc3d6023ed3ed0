"""Streams of mixed sources: shares within what draws or a schedule leave, and their passes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skymark.suites.loading.oracle import Declared, Elements, Oracle
from skymark.suites.loading.oracle.elements import allowed, early_repeat, uneven
from skymark.suites.loading.scenarios.mix1_weighted_mixing import WeightedMixing
from skymark.suites.loading.work import Mixture

MIXTURE = Mixture(sizes=(600, 300, 100), weights=(0.2, 0.3, 0.5), elements=4000)


class OfMixture(WeightedMixing):
    """Three sources of 1000 elements, and a stream four times as long."""

    mixture = MIXTURE


def passes(size, count, seed=0, begin=0):
    """Return so many draws of a source in passes, from a place in the first one on."""
    random = np.random.default_rng(seed)
    rounds = [random.permutation(size) for _ in range(count // size + 2)]
    return np.concatenate(rounds)[begin:][:count]


def stream_of(source, seed=0):
    """Return a stream whose source at each place is given, each source in passes."""
    stream = np.empty(len(source), np.int64)
    for number, (begin, end) in enumerate(MIXTURE.bounds):
        places = np.flatnonzero(source == number)
        stream[places] = begin + passes(end - begin, len(places), seed + number, begin=11)
    return stream


def drawn(seed=0):
    return np.random.default_rng(seed).choice(3, MIXTURE.elements, p=MIXTURE.weights)


def scheduled():
    """Give each place to the source that is most behind."""
    count, source = np.zeros(3), []
    for place in range(1, MIXTURE.elements + 1):
        behind = np.array(MIXTURE.weights) * place - count
        source.append(int(np.argmax(behind)))
        count[source[-1]] += 1
    return np.array(source)


def fault(stream, mixing="draws", *, complete=True):
    scenario = OfMixture(OfMixture.variants["small"])
    oracle = Oracle(scenario, range(1000), Declared(mixing=mixing))
    return Elements(1, [stream], complete=complete).fault(oracle)


def test_sources_follow_one_another():
    assert MIXTURE.bounds == [(0, 600), (600, 900), (900, 1000)]


@pytest.mark.parametrize("seed", range(20))
def test_honest_draws_pass(seed):
    assert fault(stream_of(drawn(seed), seed)) is None


def test_an_exact_schedule_passes_for_what_it_is():
    assert fault(stream_of(scheduled()), "schedule") is None


def test_draws_are_no_schedule():
    found = fault(stream_of(drawn()), "schedule")
    assert found.kind == "ignored-weights"
    assert "epoch 1 " in found.message


def test_sources_of_equal_share_ignore_the_weights():
    found = fault(stream_of(np.random.default_rng(1).integers(0, 3, 4000)))
    assert found.kind == "ignored-weights"
    assert re.search(r"source 2 .*\b0\.5", found.message)


def test_one_source_after_another_is_unmixed():
    found = fault(stream_of(np.repeat([0, 1, 2], [800, 1200, 2000])))
    assert found.kind == "unmixed"
    assert re.search(r" 500 .*epoch 1\b", found.message)


@pytest.mark.parametrize(
    ("length", "kind"), [(3990, "missing-element"), (4001, "repeated-element")]
)
def test_a_stream_of_another_length_is_no_epoch(length, kind):
    stream = np.resize(stream_of(drawn()), length)
    found = fault(stream)
    assert found.kind == kind
    assert re.search(f" {length} elements .* 4000 ", found.message)
    assert fault(stream[:3990], complete=False) is None


def test_draws_with_replacement_are_named_wherever_they_are():
    random = np.random.default_rng(2)
    for number, (begin, end) in enumerate(MIXTURE.bounds):
        source = drawn()
        stream = stream_of(source)
        places = np.flatnonzero(source == number)
        stream[places] = random.integers(begin, end, len(places))
        for mixing in ("draws", "worker draws"):
            found = fault(stream, mixing)
            assert found.kind == "repeated-element"
            assert f"of source {number} again before" in found.message


def test_passes_are_found_wherever_they_begin():
    random = np.random.default_rng(3)
    rounds = np.concatenate([random.permutation(50) for _ in range(6)])
    for begin in range(50):
        assert early_repeat(rounds[begin:], 50) is None
        assert early_repeat(rounds[begin : begin + 20], 50) is None
    assert early_repeat(rounds[:0], 50) is None


@pytest.mark.parametrize("place", [3, 55, 149, 290])
def test_one_element_that_comes_too_early_is_named(place):
    random = np.random.default_rng(4)
    rounds = np.concatenate([random.permutation(50) for _ in range(6)])
    pass_ = place // 50
    within = rounds[pass_ * 50 : (pass_ + 1) * 50]
    other = (place + 20) % 50
    within[other] = rounds[place]
    assert early_repeat(rounds, 50) == rounds[place]


def test_an_element_twice_in_a_row_is_early_in_every_pass():
    assert early_repeat(np.repeat(np.arange(50), 2), 50) is not None
    assert early_repeat(np.array([7, 7]), 50) is None  # the end of a pass, and the next one's begin


def test_workers_may_be_in_different_passes():
    first, second = 2 * passes(50, 400, 1), 2 * passes(50, 400, 2) + 1
    ahead = np.concatenate([first[:30], np.stack([first[30:], second[:-30]], axis=1).reshape(-1)])
    assert early_repeat(ahead, 100) is not None
    assert uneven(ahead, 100) is None
    far_ahead = np.concatenate([first[:200], ahead])
    assert uneven(far_ahead, 100) is not None


def test_what_is_allowed_is_what_chance_leaves():
    assert allowed(10_240, "draws") / 10_240 == pytest.approx(0.0323, abs=0.0003)
    assert allowed(1_280, "draws") / 1_280 == pytest.approx(0.0915, abs=0.0003)
    counts = np.random.default_rng(5).binomial(1000, 0.5, 100_000)
    assert np.abs(counts - 500).max() < allowed(1000, "draws")
    assert allowed(10**9, "schedule") == 2
