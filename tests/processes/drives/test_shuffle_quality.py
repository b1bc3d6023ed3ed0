"""PR-4: the figures of a round are of all its measured epochs, and of known orders."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.measure.loop import Pass
from skymark.suites.loading.drives import shuffle_quality
from skymark.suites.loading.drives.shuffle_quality import shuffle_figures
from skymark.suites.loading.metrics import SHUFFLE_METRICS
from skymark.suites.loading.oracle import Declared
from skymark.suites.loading.scenarios.pr_production import ShuffleQuality
from skymark.suites.loading.work import Size

SCENARIO = ShuffleQuality(Size(elements=2010, batch_size=32, values={"features": 3}), seed=3)
NAMES = {metric.name for metric in SHUFFLE_METRICS}


def epoch_of(stream, *, complete=True, size=8):
    batches = np.split(np.array(stream), range(size, len(stream), size))
    return Pass([1] * len(batches), batches, {}, wall_ns=1, complete=complete)


def test_a_uniform_shuffle_is_told_by_its_figures(make_bench):
    bench = make_bench(SCENARIO)
    outcome = shuffle_quality.drive(bench)
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    assert set(outcome.extra) == NAMES
    assert outcome.extra["shuffle_displacement"] == pytest.approx(1.0, abs=0.05)
    assert outcome.extra["batch_neighbourhoods"] == pytest.approx(1.0, abs=0.05)
    assert outcome.extra["batch_neighbours"] == pytest.approx(31 / 2009, rel=0.5)
    assert outcome.extra["stream_neighbours"] < 0.005
    assert outcome.extra["epoch_correlation"] < 0.1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ShufflesRuns", "neighbour in storage"),
        ("ShufflesWithinRuns", "places in storage"),
    ],
)
def test_a_shuffle_of_runs_that_is_declared_global_is_refused(make_bench, name, words):
    bench = make_bench(SCENARIO, name)
    outcome = shuffle_quality.drive(bench)
    cause = bench.oracle.verdict().cause
    assert (cause.kind, words in cause.message) == ("hardly-shuffled", True), cause
    assert outcome.extra["shuffle_displacement"] == pytest.approx(1.0, abs=0.3)
    assert outcome.extra["batch_neighbours"] > 0.9
    assert outcome.extra["batch_neighbourhoods"] < 0.1


def test_a_shuffle_of_runs_that_is_declared_so_passes(make_bench):
    bench = make_bench(SCENARIO, "ShufflesRuns")
    bench.oracle.declared = Declared(shuffle="shards")
    shuffle_quality.drive(bench)
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause


def test_an_order_that_depends_on_no_seed_is_refused(make_bench):
    bench = make_bench(SCENARIO, "IgnoresSeedOfOrder")
    shuffle_quality.drive(bench)
    assert bench.oracle.verdict().cause.kind == "ignored-seed"


def test_figures_are_means_over_the_measured_epochs_and_not_of_the_warm_up():
    stored, reverse = np.arange(40), np.arange(40)[::-1]
    shuffled = np.random.default_rng(1).permutation(40)
    figures = shuffle_figures(epoch_of(shuffled), [epoch_of(stored), epoch_of(reverse)], 8)
    assert figures["shuffle_displacement"] == pytest.approx((0 + 1.5) / 2, rel=0.01)
    assert figures["stream_neighbours"] == 1.0
    assert figures["batch_neighbours"] == pytest.approx(35 / 39)
    alone = shuffle_figures(epoch_of(shuffled), [epoch_of(stored)], 8)["epoch_correlation"]
    assert figures["epoch_correlation"] == pytest.approx((alone + 1) / 2)


def test_an_epoch_that_was_cut_short_counts_in_no_figure():
    whole, part = epoch_of(np.arange(40)), epoch_of(np.arange(20)[::-1], complete=False)
    assert shuffle_figures(whole, [part], 8) == {}
    figures = shuffle_figures(part, [whole, part], 8)
    assert set(figures) == NAMES - {"epoch_correlation"}
    assert figures["shuffle_displacement"] == 0.0
