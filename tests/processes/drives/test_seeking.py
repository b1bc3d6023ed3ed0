"""PR-5: a start in mid-epoch that is exact, and ones that are wrong in one way each."""

from __future__ import annotations

import dataclasses
import re
import time

import numpy as np
import pytest

from skymark.suites.loading.drives import seeking
from skymark.suites.loading.scenarios.pr_production import Seeking
from skymark.suites.loading.work import Size

BATCHES = 40
"""Enough for the order to be judged, of each stretch."""

SCENARIO = Seeking(Size(elements=200_000, batch_size=64, values={"features": 3}), seed=3)


@pytest.fixture
def drive(make_bench, monkeypatch):
    """Drive a loader for short stretches, however fast it is; returns outcome and verdict."""
    stretch = seeking.stretch
    monkeypatch.setattr(seeking, "LEAST_S", 120.0)
    monkeypatch.setattr(
        seeking,
        "stretch",
        lambda bench, fresh, place, most, **named: stretch(bench, fresh, place, BATCHES, **named),
    )

    def driven(name="Seeks", **fields):
        bench = make_bench(SCENARIO, name, format="computed")
        bench = dataclasses.replace(bench, **fields)
        return seeking.drive(bench), bench.oracle.verdict()

    return driven


def test_a_start_in_mid_epoch_is_measured_beside_one_at_its_beginning(drive):
    begin_s = time.perf_counter()
    outcome, verdict = drive()
    whole_s = time.perf_counter() - begin_s
    assert verdict.passed, verdict.cause
    assert verdict.compared_elements >= 2 * 64
    assert verdict.verified_elements > outcome.elements >= 2 * 64
    assert 0 < outcome.extra["seek_s"] < whole_s
    assert 0 < outcome.extra["open_to_first_batch_s"] < whole_s
    # The list of all elements, and the permutation that it was made from.
    assert outcome.extra["seek_memory_bytes"] > 200_000 * 16
    assert outcome.extra["start_memory_bytes"] > 200_000 * 16
    assert outcome.restart_ns == []
    assert set(outcome.epoch) == {1}


def test_the_middle_comes_first_in_every_other_round(drive, monkeypatch):
    places = []
    stretch = seeking.stretch
    monkeypatch.setattr(
        seeking,
        "stretch",
        lambda *given, **named: places.append(given[2]) or stretch(*given, **named),
    )
    for round in range(2):
        outcome, verdict = drive(round=round)
        assert verdict.passed
        assert outcome.elements > 0
    middle = 200_000 // 64 // 2
    assert places == [0, middle, middle, 0]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("SeeksNowhere", "repeated-element", "more than once"),
        ("ShufflesAnewFromThere", "resume", "element 99968 of epoch 1"),
        ("ShufflesNearby", "hardly-shuffled", "between 0 and 12500 "),
        ("SeeksByNoSeed", "ignored-seed", "seeds 3 and 4 "),
        ("SeeksInOneOrder", "same-order", "epoch 2 .*epoch 1"),
        ("SeeksWithReplacement", "repeated-element", "more than once"),
        ("SeeksOthersFeatures", "misplaced", "'features'"),
        ("SeeksNothing", "no-batches", "epoch 1 "),
    ],
)
def test_a_start_that_is_wrong_is_refused_and_named(drive, name, kind, words):
    _, verdict = drive(name)
    assert not verdict.passed
    assert verdict.cause.kind == kind, verdict.cause
    assert re.search(words, verdict.cause.message)


def test_few_elements_may_be_absent_from_a_part_of_storage(make_bench):
    bench = make_bench(SCENARIO, "Seeks", format="computed")
    few, enough = np.arange(1000), np.arange(1024)
    assert seeking.absent_part(bench, [few]) is None
    assert re.search(r"\b12500\b.*\b25000\b", seeking.absent_part(bench, [enough]))
    assert seeking.absent_part(bench, [enough * 195]) is None
