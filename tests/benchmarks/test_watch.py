"""The cost of a watch: per batch in the loop's thread, and of its looks at stacks.

Run with ``nox -s microbench``. The limits are those that `docs/start/is-my-loader-the-limit.md`
tells.
"""

from time import perf_counter_ns, thread_time_ns

import pytest

from skymark.watching.recorder import Recorder

BATCHES = 10_000


@pytest.fixture
def watch(tmp_path):
    recorder = Recorder(str(tmp_path))
    yield recorder
    recorder.finish()


def test_cost_per_batch(benchmark, watch):
    """Least difference of ten passes to those without a watch."""
    epoch = watch.begin("plain", [], {})

    def passes() -> float:
        costs = []
        for _ in range(10):
            batches = iter(range(2 * BATCHES))
            begun = perf_counter_ns()
            for _ in range(BATCHES):
                watch.next(epoch, next, batches)
            between = perf_counter_ns()
            for _ in range(BATCHES):
                next(batches)
            costs.append(2 * between - begun - perf_counter_ns())
        return min(costs) / BATCHES

    benchmark.extra_info["watch_ns_per_batch"] = round(benchmark.pedantic(passes, rounds=3))


def test_cost_of_looks_and_writing(benchmark, watch):
    """Part of a core that the thread beside the loop takes in half a second."""

    def beside() -> float:
        watch.wake()
        sampler = watch._sampler
        begun, before = thread_time_ns(), sampler.looks
        for _ in range(200):
            sampler._look(0)
        looking_ns = (thread_time_ns() - begun) / 200
        begun = thread_time_ns()
        watch.changed()
        watch.flush()
        assert sampler.looks > before
        return (looking_ns / 19e6 + (thread_time_ns() - begun) / 500e6) * 100

    benchmark.extra_info["watch_percent_of_a_core"] = round(benchmark(beside), 2)
