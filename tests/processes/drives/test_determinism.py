"""PR-2: a stream that does not depend on the seed, and on it alone, is found out."""

from __future__ import annotations

import pytest

from skymark.suites.loading.drives import determinism
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.work import Size

SCENARIO = Determinism(Size(elements=203, batch_size=16, values={"features": 6}), seed=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_stream_that_depends_on_the_seed_alone_passes(make_bench, workers):
    bench = make_bench(SCENARIO, workers=workers)
    outcome = determinism.drive(bench)
    assert bench.oracle.verdict().passed
    # Every epoch that was timed, two with other workers and one with another seed.
    assert bench.oracle.verdict().counts["epochs"] == max(outcome.epoch) + 1 + 3


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("IgnoresSeedOfOrder", "ignored-seed", "another seed"),
        ("IsNotReproducible", "not-reproducible", "same seed"),
        ("DependsOnWorkers", "worker-dependent", "worker count"),
        ("DropsWithoutWorkers", "dropped-tail", "and 0 workers: dropped tail"),
    ],
)
def test_what_else_a_stream_depends_on_is_named(make_bench, name, kind, words):
    bench = make_bench(SCENARIO, name, workers=2)
    determinism.drive(bench)
    assert not bench.oracle.verdict().passed
    assert bench.oracle.verdict().cause.kind == kind
    assert words in bench.oracle.verdict().cause.message
