"""MIX-1: an honest mixture passes; what ignores weights, passes, mixing or seed is named."""

from __future__ import annotations

import re

import pytest

from skymark.suites.loading.drives import epochs
from skymark.suites.loading.oracle import Declared
from skymark.suites.loading.scenarios.mix1_weighted_mixing import WeightedMixing
from skymark.suites.loading.work import Size

SCENARIO = WeightedMixing(Size(elements=2560, batch_size=32, values={"features": 3}), seed=3)


def test_a_mixture_by_weight_passes(make_bench):
    assert SCENARIO.drive == "epochs"
    bench = make_bench(SCENARIO)
    outcome = epochs.drive(bench)
    verdict = bench.oracle.verdict()
    assert verdict.passed, verdict.cause
    assert outcome.elements == 2560 * max(outcome.epoch)
    counts = verdict.counts
    assert counts["moved_places"] == pytest.approx(counts["uniform_places"], rel=0.1)


def test_draws_that_are_declared_a_schedule_are_refused(make_bench):
    bench = make_bench(SCENARIO)
    bench.oracle.declared = Declared(mixing="schedule")
    epochs.drive(bench)
    assert bench.oracle.verdict().cause.kind == "ignored-weights"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("TakesOneSourceFirst", "unmixed", "source 0 has 100.0 %"),
        ("IgnoresWeights", "ignored-weights", "source 0 has 60.0 %"),
        ("MixesWithReplacement", "repeated-element", "before its source"),
        ("MixesTooFew", "missing-element", "2528 elements .*2560"),
        ("MixesByNoSeed", "ignored-seed", "seeds 3 and 4 "),
        ("MixesAlikeInEachEpoch", "same-order", "epoch 1 .*epoch 0"),
        ("MixesAtRandom", "not-reproducible", "same seed"),
        ("MixesOthersContent", "misplaced", "'features'"),
    ],
)
def test_a_mixture_that_is_wrong_is_refused_and_named(make_bench, name, kind, words):
    bench = make_bench(SCENARIO, name)
    epochs.drive(bench)
    cause = bench.oracle.verdict().cause
    assert cause is not None
    assert cause.kind == kind, cause
    assert re.search(words, cause.message)
