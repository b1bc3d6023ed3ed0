"""The steady stream of an epoch, from passes whose waits are known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skymark.measure.loop import Pass
from skymark.suites.loading.drives.outcome import Outcome
from skymark.suites.loading.drives.stream import (
    Stream,
    larger_set,
    stream_of_pass,
    stream_of_ranks,
)
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.work import Size


def a_pass(*wait_ns: int, think_ns: int = 0, busy_ns: int = 0, size: int = 4) -> Pass:
    """A pass with these waits, which took ten nanoseconds more to end."""
    indices = [np.arange(size)] * len(wait_ns)
    wall_ns = sum(wait_ns) + think_ns + 10
    return Pass(list(wait_ns), indices, {}, wall_ns, think_ns, busy_ns)


def test_what_was_made_during_the_restart_is_no_part_of_the_stream():
    assert stream_of_pass(a_pass(900, 1, 1, 1, 50, 50), lead=4) == Stream(8, 100)


def test_a_pass_that_ended_before_its_stream_has_none():
    assert stream_of_pass(a_pass(900, 1), lead=4) == Stream(0, 0)
    assert stream_of_pass(a_pass(), lead=4) == Stream(0, 0)


def test_the_streams_share_of_the_time_between_waits_belongs_to_it():
    done = a_pass(900, 50, 50, 50, think_ns=400, busy_ns=200)
    assert stream_of_pass(done, lead=1) == Stream(12, 450, 150)


def test_the_stream_of_ranks_lasts_as_long_as_that_of_the_slowest():
    both = [a_pass(900, 50, 50), a_pass(100, 70, 70, 70)]
    assert stream_of_ranks(both, lead=1) == Stream(20, 210)


def test_an_outcome_adds_the_streams_of_the_measured_epochs():
    outcome = Outcome(lead=2)
    outcome.add(a_pass(5000, 1, 1, 1), epoch=0, measured=False)
    outcome.add(a_pass(900, 1, 50, 50), epoch=1, measured=True)
    outcome.add(a_pass(700, 1, 70, 30), epoch=2, measured=True)
    assert outcome.stream == Stream(16, 200)
    assert outcome.samples["stream"] == (0,) * 4 + (0, 0, 1, 1) * 2
    assert outcome.restart_ns == [900, 700]
    assert outcome.first_batch_ns == 5000
    assert (outcome.elements, outcome.timed_ns) == (32, 1822)


def of_two_epochs(**fields) -> Outcome:
    outcome = Outcome(**fields)
    outcome.add(a_pass(5000, 1), epoch=0, measured=False)
    outcome.add(a_pass(900, 1), epoch=1, measured=True)
    assert outcome.restart_ns == [900]
    assert outcome.epoch_samples_per_s == pytest.approx(8 / 911e-9)
    return outcome


def test_of_a_library_that_works_ahead_whole_epochs_are_the_stream():
    outcome = of_two_epochs()
    assert outcome.stream == Stream(8, 911)
    assert outcome.samples["stream"] == (0, 0, 1, 1)


@pytest.mark.parametrize("fields", [{"has_stream": False}, {"lead": 2}])
def test_without_a_stream_there_is_no_rate_of_one_and_no_wait_counts(fields):
    outcome = of_two_epochs(**fields)
    assert (outcome.stream, outcome.samples_per_s) == (None, None)
    assert outcome.samples["stream"] == (0, 0, 0, 0)
    assert outcome.samples["warm_up"] == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("fields", "batch_size", "has_more", "words"),
    [
        # Of 64 elements a batch in tiny and small, 256 in medium and long, 1,024 in large.
        ({}, None, True, "PR-2:small .* 256 elements"),
        ({}, 16, True, "PR-2:tiny .* 256 elements"),
        ({}, None, False, "(?!PR-2).* 256 elements"),
        ({"world": 8}, None, True, "PR-2:medium .* 2,048 elements"),
        ({"workers": 16, "prefetch": 8}, None, True, "PR-2:large .* 8,192 elements"),
        ({"workers": 999, "prefetch": 999}, None, True, "(?!PR-2).* 63,872,064 elements"),
    ],
)
def test_the_size_that_has_a_stream_is_named(make_bench, fields, batch_size, has_more, words):
    size = Size(elements=203, batch_size=16, values={"features": 2})
    job = make_bench(Determinism(size), **fields).job
    assert re.match(words, larger_set(job, batch_size, has_more=has_more))


@pytest.mark.parametrize(
    ("elements", "fields", "lead"),
    [
        (16 * 16, {}, 4),
        (15 * 16, {}, 0),
        (16 * 16, {"workers": 0}, 2),
        (32 * 16, {"workers": 4}, 8),
        (32 * 16, {"world": 2}, 4),
        (30 * 16, {"world": 2}, 0),
    ],
)
def test_the_lead_is_what_queues_hold_if_epochs_fill_them_often(make_bench, elements, fields, lead):
    size = Size(elements=elements, batch_size=16, values={"features": 2})
    assert make_bench(Determinism(size), **fields).lead == lead


def test_what_works_ahead_through_an_epoch_has_no_stream_of_its_own(make_bench):
    size = Size(elements=16 * 16, batch_size=16, values={"features": 2})
    bench = make_bench(Determinism(size))
    bench.adapter.works_ahead = "epoch"
    assert bench.lead == 0


def test_a_training_s_rate_spreads_set_up_and_the_first_epoch_over_its_epochs():
    outcome = Outcome(setup_s=2e-6)
    assert outcome.samples_per_s_over(1) is None
    outcome.add(a_pass(*[1000] * 4), epoch=0, measured=False)  # 16 elements in 4,010 ns
    outcome.add(a_pass(*[100] * 4), epoch=1, measured=True)  # 16 in 410 ns
    outcome.add(a_pass(*[200] * 4), epoch=2, measured=True)  # 16 in 810 ns
    assert outcome.samples_per_s_over(1) == pytest.approx(16 / 6.01e-6)
    assert outcome.samples_per_s_over(10) == pytest.approx(160 / (6.01e-6 + 9 * 0.61e-6))
