"""DIST-1: ranks in processes of their own share the data, or are found out."""

from __future__ import annotations

import pytest

from skymark.measure.loop import Pass
from skymark.suites.loading.drives import ranks
from skymark.suites.loading.drives.fresh import FreshProcessError, RemotePass
from skymark.suites.loading.scenarios.dist_ranks_and_mesh import Ranks
from skymark.suites.loading.work import Size

SIZE = Size(elements=203, batch_size=16, values={"features": 6})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ranks_deliver_each_element_once_between_them(make_bench, count):
    bench = make_bench(Ranks(SIZE, axes={"ranks": count}), workers=0, prefetch=1)
    outcome = ranks.drive(bench)
    assert bench.oracle.verdict().passed
    epochs = max(outcome.epoch)
    assert outcome.elements == epochs * 203
    assert sum(outcome.batch_elements) == (epochs + 1) * 203
    assert outcome.bytes == outcome.elements * (8 + 6 * 4 + 8)
    assert {f"rank_{rank}_samples_per_s" for rank in range(count)} < set(outcome.extra)
    assert outcome.extra["scaling_efficiency"] == pytest.approx(
        outcome.samples_per_s / count / outcome.extra["single_rank_samples_per_s"]
    )


def test_the_rate_is_of_the_streams_of_all_ranks(make_bench):
    outcome = ranks.drive(make_bench(Ranks(SIZE, axes={"ranks": 2}), workers=0, prefetch=1))
    measured = max(outcome.epoch)
    assert outcome.streamed.elements == outcome.elements - measured * 2 * 16
    assert sum(outcome.samples["stream"]) == measured * (14 - 2)
    assert len(outcome.restart_ns) == measured
    assert outcome.samples_per_s == outcome.streamed.elements / outcome.streamed.ns * 1e9


def test_rates_of_whole_epochs_are_compared_where_only_a_single_rank_has_a_stream(make_bench):
    bench = make_bench(Ranks(SIZE, axes={"ranks": 4}), workers=0, prefetch=2)
    outcome = ranks.drive(bench)
    assert bench.oracle.verdict().passed
    assert outcome.samples_per_s is None
    assert outcome.extra["scaling_efficiency"] == pytest.approx(
        outcome.epoch_samples_per_s / 4 / outcome.extra["single_rank_samples_per_s"]
    )
    assert outcome.extra["rank_3_samples_per_s"] > 0


def test_elements_of_another_rank_are_named(make_bench):
    bench = make_bench(Ranks(SIZE, axes={"ranks": 2}), "IgnoresRank")
    ranks.drive(bench)
    assert bench.oracle.verdict().cause.kind == "another-rank"
    assert "rank 1 " in bench.oracle.verdict().cause.message


def test_a_rank_that_dies_is_reported_with_its_status(make_bench):
    with pytest.raises(FreshProcessError, match=r"\bstatus 7\b"):
        ranks.drive(make_bench(Ranks(SIZE, axes={"ranks": 1}), "DiesInEpoch"))


def test_each_rank_finds_what_torchrun_would_set(make_bench, capfd):
    bench = make_bench(Ranks(SIZE, axes={"ranks": 2}), "IsChatty")
    ranks.drive(bench)
    assert bench.oracle.verdict().passed
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "0 1 0 1", "0 2 0 2", "1 2 1 2"]


def test_ranks_last_from_the_first_start_to_the_last_end():
    slow = RemotePass(Pass([5, 6], [[0], [1]], {0: "a"}, 11, think_ns=4, busy_ns=2), 100, 111)
    late = RemotePass(Pass([7], [[2]], {0: "b"}, 7, think_ns=2, complete=False), 108, 115)
    done = ranks.together([slow, late])
    assert done.wall_ns == 15
    assert done.wait_ns == [5, 6, 7]
    assert done.indices == [[0], [1], [2]]
    assert done.kept == {0: "a", 1: "b"}
    assert (done.think_ns, done.busy_ns) == (3, 1)
    assert not done.complete
