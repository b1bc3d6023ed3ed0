"""skymark's own cost per batch, and the utilisation that a loader doing nothing reaches.

Run with ``nox -s microbench``. The table at the end gives the figures of ``docs/accuracy.md``.
"""

from skymark.measure.loop import timed_pass
from skymark.suites.loading.oracle.arrival import Arrivals
from skymark.suites.loading.self_test import null_loader, null_utilisation, own_cost_ns

BATCHES = 10_000


def test_bare_loop_over_the_null_loader(benchmark):
    benchmark(lambda: [None for _ in null_loader(BATCHES)])


def test_timed_loop_over_the_null_loader(benchmark):
    receiver = Arrivals()
    done = benchmark(lambda: timed_pass(lambda: null_loader(BATCHES), keep=1, receiver=receiver))
    assert len(done.wait_ns) == BATCHES


def test_own_cost_per_batch(benchmark):
    costs = [own_cost_ns() for _ in range(9)]
    benchmark.extra_info["own_cost_ns_per_batch"] = round(sorted(costs)[4], 1)
    benchmark.pedantic(own_cost_ns, rounds=3)


def test_null_loader_utilisation(benchmark):
    for think_ms in (0.2, 1.0, 5.0):
        benchmark.extra_info[f"utilisation_at_{think_ms}_ms"] = round(null_utilisation(think_ms), 5)
    benchmark.pedantic(null_utilisation, args=(1.0,), rounds=3)
