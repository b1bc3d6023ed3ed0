"""A rank takes one worker's part of a split, or a contradiction of the two is said."""

from __future__ import annotations

import re

import pytest

from skymark.execute.partition.shard import shard_of
from skymark.execute.partition.split import WorkerPlace
from skymark.execute.rank import ALONE, Rank, rank_here, read_rank
from skymark.model.errors import UsageError
from tests.unit.execute.ranks.test_ranks import array, pod


def place(text, rank):
    shard = shard_of(text, rank)
    return shard.split.places[shard.number]


def pod_rank(*given, **named):
    return rank_here({name: str(value) for name, value in pod(*given, **named).items()})


def test_a_flat_rank_counts_through_all_workers():
    assert place("even:10", read_rank("3/10")) == WorkerPlace(index=3)
    assert place("even", read_rank("3/10")) == WorkerPlace(index=3)
    assert place("weighted:heavy=1x60,worker=7x20", read_rank("0/8")) == WorkerPlace(
        type="heavy", index=0
    )
    assert place("two-level:5x10", read_rank("23/50")) == WorkerPlace(index=2, completion=3)


def test_a_completion_index_needs_the_count_from_the_split():
    rank = rank_here({"JOB_COMPLETION_INDEX": "3"})
    assert place("even:10", rank) == WorkerPlace(index=3)
    with pytest.raises(UsageError, match=r"--split even .*number"):
        shard_of("even", rank)


def test_with_several_types_the_type_and_its_number_decide():
    text = "weighted:heavy=1x60,worker=7x20"
    heavy = pod_rank("heavy", 0, 0, replicas=1, all_replicas=8)
    assert place(text, heavy) == WorkerPlace(type="heavy", index=0)
    first = pod_rank("worker", 0, 1, replicas=7, all_replicas=8)
    assert place(text, first) == WorkerPlace(type="worker", index=0)


def test_the_type_decides_whatever_order_a_cluster_counts_types_in():
    """Types may be numbered by name there: `worker` before `x-heavy`."""
    text = "weighted:x-heavy=1x60,worker=7x20"
    heavy = pod_rank("x-heavy", 0, 7, replicas=1, all_replicas=8)
    assert place(text, heavy) == WorkerPlace(type="x-heavy", index=0)


def test_completions_share_their_replica_s_number():
    rank = pod_rank("worker", 1, 1, completion=4, replicas=5, all_replicas=5)
    assert place("two-level:5x10", rank) == WorkerPlace(index=1, completion=4)
    assert place("waves:5x10/4", rank) == WorkerPlace(index=1, completion=4)


def test_the_completions_of_a_single_replica_are_workers():
    rank = pod_rank("worker", 0, 0, completion=4, replicas=1, all_replicas=1)
    assert place("even:10", rank) == WorkerPlace(index=4)
    assert place("longest:10", rank) == WorkerPlace(index=4)


def test_alone_takes_the_whole():
    assert len(shard_of("even", ALONE).split.places) == 1


@pytest.mark.parametrize(
    ("text", "rank", "said"),
    [
        ("even:10", read_rank("3/9"), "--rank 3/9"),
        ("even:10", Rank(index=10, told_by="JOB_COMPLETION_INDEX=10"), "JOB_COMPLETION_INDEX=10"),
        ("weighted:a=1x1,b=1x1", pod_rank("c", 0, 0), "REPLICATED_JOB_NAME=c"),
        ("weighted:a=1x1,b=3x1", pod_rank("b", 0, 1), "3 .*type b,.* 2 "),
        ("even:5", pod_rank("worker", 1, 1), "5 .*type worker,.* 4 "),
        ("even:4", pod_rank("worker", 1, 1, completion=1), "share its number"),
        ("two-level:4x3", pod_rank("worker", 1, 1, completion=3), "3 completions"),
        ("even:3", pod_rank("w", 0, 0, completion=3, replicas=1, all_replicas=1), "has 3 workers"),
    ],
)
def test_a_split_and_a_rank_that_contradict_each_other_are_both_named(text, rank, said):
    with pytest.raises(UsageError, match="contradict") as refused:
        shard_of(text, rank)
    assert f"--split {text}" in str(refused.value)
    assert re.search(said, str(refused.value))


def test_without_a_rank_a_split_of_several_has_no_worker_here():
    with pytest.raises(UsageError, match=f"{ALONE.told_by}.*--rank I/10"):
        shard_of("even:10", ALONE)


def test_tasks_of_an_array_take_every_worker_once():
    variables = [array(task, (1, 5, 9), SKYMARK_ARRAY="1,5,9") for task in (1, 5, 9)]
    ranks = [rank_here({name: str(value) for name, value in one.items()}) for one in variables]
    assert [shard_of("longest", rank).number for rank in ranks] == [0, 1, 2]
