"""PR-2: a stream that does not depend on the seed, and on it alone, is found out."""

from __future__ import annotations

import pytest

from skymark.suites.loading.drives import determinism
from skymark.suites.loading.scenario import Size
from skymark.suites.loading.scenarios.pr2_determinism import Determinism

SCENARIO = Determinism(Size(elements=203, batch_size=16, values={"features": 6}), seed=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_stream_that_depends_on_the_seed_alone_passes(make_bench, workers):
    outcome = determinism.drive(make_bench(SCENARIO, workers=workers))
    assert outcome.verification.passed
    # Every epoch that was timed, two with other workers and one with another seed.
    assert outcome.verification.counts["epochs"] == max(outcome.epoch) + 1 + 3


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("IgnoresSeedOfOrder", "ignored-seed", "another seed gave the same stream"),
        ("IsNotReproducible", "not-reproducible", "same seed gave another stream"),
        ("DependsOnWorkers", "worker-dependent", "order depends on worker count"),
        ("DropsWithoutWorkers", "dropped-tail", "and 0 workers: dropped tail"),
    ],
)
def test_what_else_a_stream_depends_on_is_named(make_bench, name, kind, words):
    outcome = determinism.drive(make_bench(SCENARIO, name, workers=2))
    assert not outcome.verification.passed
    assert outcome.verification.cause.kind == kind
    assert words in outcome.verification.cause.message
