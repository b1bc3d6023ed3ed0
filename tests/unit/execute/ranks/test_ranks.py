"""A process knows its rank by its variables, and refuses what can be read in two ways."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.execute.rank import ALONE, ReplicaRank, array_tasks, rank_here, read_rank
from skymark.model.errors import UsageError


def rank(**variables):
    found = rank_here({name: str(value) for name, value in variables.items()})
    return found.index, found.count


def array(task, tasks, step=None, **more):
    """The variables of a task as Slurm 22.05 sets them: an uneven array has step 1."""
    gaps = {after - before for before, after in pairwise(tasks)}
    return {
        "SLURM_ARRAY_TASK_ID": task,
        "SLURM_ARRAY_TASK_MIN": tasks[0],
        "SLURM_ARRAY_TASK_MAX": tasks[-1],
        "SLURM_ARRAY_TASK_STEP": step or (gaps.pop() if len(gaps) == 1 else 1),
        "SLURM_ARRAY_TASK_COUNT": len(tasks),
        **more,
    }


def pod(type, job, over_all, completion=0, replicas=2, all_replicas=4):
    return {
        "REPLICATED_JOB_NAME": type,
        "JOB_INDEX": job,
        "JOB_GLOBAL_INDEX": over_all,
        "JOB_COMPLETION_INDEX": completion,
        "REPLICATED_JOB_REPLICAS": replicas,
        "GLOBAL_REPLICAS": all_replicas,
    }


def test_without_any_variable_a_process_is_the_only_one():
    assert rank_here({}) is ALONE
    assert rank_here({"SLURM_ARRAY_TASK_ID": "", "RANK": ""}) is ALONE


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SKYPILOT_NODE_RANK": 1, "SKYPILOT_NUM_NODES": 4}, (1, 4)),
        (
            {"SKYPILOT_JOB_RANK": 2, "SKYPILOT_NUM_JOBS": 3}
            | {"SKYPILOT_NODE_RANK": 0, "SKYPILOT_NUM_NODES": 1},
            (2, 3),
        ),
        (
            {"SKYPILOT_JOB_RANK": 2, "SKYPILOT_NUM_JOBS": 3}
            | {"SKYPILOT_NODE_RANK": 1, "SKYPILOT_NUM_NODES": 2},
            (5, 6),
        ),
        # Every managed job has a rank; alone it has no count.
        ({"SKYPILOT_JOB_RANK": 0, "SKYPILOT_NODE_RANK": 1, "SKYPILOT_NUM_NODES": 2}, (1, 2)),
        (array(3, range(10)), (3, 10)),
        (array(12, range(5, 15)), (7, 10)),
        (array(6, (2, 6, 10)), (1, 3)),
        (array(7, (7,)), (0, 1)),
        ({"SLURM_PROCID": 2, "SLURM_STEP_NUM_TASKS": 3}, (2, 3)),
        (array(6, (2, 6, 10), SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4), (5, 12)),
        ({"JOB_COMPLETION_INDEX": 3}, (3, None)),
        ({"TPU_WORKER_ID": 1, "TPU_WORKER_HOSTNAMES": "a,b,c,d"}, (1, 4)),
        (
            {"TPU_WORKER_ID": 1, "TPU_WORKER_HOSTNAMES": "a,b"}
            | {"MEGASCALE_SLICE_ID": 2, "MEGASCALE_NUM_SLICES": 3},
            (5, 6),
        ),
        ({"RANK": 5, "WORLD_SIZE": 8}, (5, 8)),
        ({"RANK": 5}, (0, 1)),
    ],
)
def test_a_rank_is_read_where_it_is_told(variables, expected):
    assert rank(**variables) == expected


def test_a_batch_script_is_no_process_of_a_step():
    """It has a number and the processes that `srun` may start, and is alone all the same."""
    assert rank(SLURM_PROCID=0, SLURM_NTASKS=4, SLURM_JOB_ID=13) == (0, 1)


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 40))
def test_every_task_of_an_even_array_has_its_place(first, step, count):
    tasks = range(first, first + step * count, step)
    found = [rank(**array(task, tasks, step)) for task in tasks]
    assert found == [(place, count) for place in range(count)]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True).map(sorted))
def test_no_two_tasks_of_any_array_take_one_place(tasks):
    """Without the whole array they have the right place, or none."""
    for place, task in enumerate(tasks):
        with suppress(UsageError):
            assert rank(**array(task, tasks)) == (place, len(tasks))


GAPS = (1, 5, 9, 10, 11, 12)


def test_a_task_of_an_array_with_gaps_has_no_place_that_slurm_tells():
    with pytest.raises(UsageError, match="numbers have gaps") as refused:
        rank(**array(9, GAPS))
    for name in ("SLURM_ARRAY_TASK_ID=9", "SLURM_ARRAY_TASK_COUNT=6", "SKYMARK_ARRAY", "--rank"):
        assert name in str(refused.value)


@pytest.mark.parametrize(("task", "place"), list(zip(GAPS, range(6), strict=True)))
def test_with_the_whole_array_it_has_its_place(task, place):
    assert rank(**array(task, GAPS), SKYMARK_ARRAY="1,5,9-12%3") == (place, 6)


def test_a_task_that_is_submitted_again_alone_keeps_its_place():
    variables = array(7, (7,), SKYMARK_ARRAY="0-9")
    found = rank_here({name: str(value) for name, value in variables.items()})
    assert (found.index, found.count) == (7, 10)
    assert " 10 tasks" in found.note


def test_a_task_that_the_whole_array_has_not_is_a_contradiction():
    with pytest.raises(UsageError, match="contradict") as refused:
        rank(**array(12, range(5, 15)), SKYMARK_ARRAY="0-9")
    assert "SLURM_ARRAY_TASK_ID=12" in str(refused.value)
    assert "SKYMARK_ARRAY=0-9" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("0-3", [0, 1, 2, 3]), ("7,3", [3, 7]), ("0-10:5%2", [0, 5, 10]), ("4", [4])],
)
def test_an_array_is_read_as_sbatch_reads_it(text, tasks):
    assert array_tasks(text) == tasks


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-5:0", "1,,2", "-1", "1-2-3", "0-99999999"])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(UsageError, match="no array"):
        array_tasks(text)


def test_a_pod_of_a_jobset_has_a_type_and_two_numbers():
    variables = pod("worker", 1, 2, completion=3)
    found = rank_here({name: str(value) for name, value in variables.items()})
    assert isinstance(found, ReplicaRank)
    assert (found.type, found.job, found.index, found.completion) == ("worker", 1, 2, 3)
    assert (found.replicas, found.count) == (2, 4)


@pytest.mark.parametrize(
    ("variables", "both"),
    [
        (
            {"SKYPILOT_NODE_RANK": 1, "SKYPILOT_NUM_NODES": 2, "RANK": 3, "WORLD_SIZE": 16},
            ("SKYPILOT_NODE_RANK=1", "RANK=3"),
        ),
        (array(3, range(10), RANK=2, WORLD_SIZE=10), ("SLURM_ARRAY_TASK_ID=3", "RANK=2")),
        (
            {"JOB_COMPLETION_INDEX": 1, "RANK": 1, "WORLD_SIZE": 2},
            ("JOB_COMPLETION_INDEX=1", "RANK=1"),
        ),
        (
            pod("worker", 1, 1) | {"SKYPILOT_NODE_RANK": 0, "SKYPILOT_NUM_NODES": 2},
            ("JOB_INDEX=1", "SKYPILOT_NODE_RANK=0"),
        ),
        ({"SKYPILOT_NODE_RANK": 2, "SKYPILOT_NUM_NODES": 2}, ("NODE_RANK=2", "NUM_NODES=2")),
        (pod("worker", 2, 2), ("JOB_INDEX=2", "REPLICATED_JOB_REPLICAS=2")),
        (pod("worker", 0, 4), ("JOB_GLOBAL_INDEX=4", "GLOBAL_REPLICAS=4")),
        (pod("worker", 1, 0), ("JOB_INDEX=1", "JOB_GLOBAL_INDEX=0")),
        (
            {"TPU_WORKER_ID": 2, "TPU_WORKER_HOSTNAMES": "a,b"},
            ("TPU_WORKER_ID=2", "TPU_WORKER_HOSTNAMES=a,b"),
        ),
    ],
)  # fmt: skip
def test_a_contradiction_names_both_variables(variables, both):
    with pytest.raises(UsageError, match="contradict") as refused:
        rank(**variables)
    for one in (*both, "--rank"):
        assert one in str(refused.value)


def test_two_that_agree_are_no_contradiction():
    same = {"RANK": 1, "WORLD_SIZE": 2, "SKYPILOT_NODE_RANK": 1, "SKYPILOT_NUM_NODES": 2}
    assert rank(**same) == (1, 2)


def test_a_machine_of_its_own_may_start_several_processes():
    variables = {"SKYPILOT_NODE_RANK": 0, "SKYPILOT_NUM_NODES": 1, "RANK": 3, "WORLD_SIZE": 8}
    assert rank(**variables) == (3, 8)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"SKYPILOT_NODE_RANK": 1}, "SKYPILOT_NUM_NODES"),
        ({"RANK": "one", "WORLD_SIZE": 2}, "RANK=one"),
        ({"SLURM_ARRAY_TASK_ID": 3}, "SLURM_ARRAY_TASK_COUNT"),
        ({"JOB_COMPLETION_INDEX": -1}, "JOB_COMPLETION_INDEX=-1"),
        ({"JOB_INDEX": 1}, "JOB_GLOBAL_INDEX"),
        ({"JOB_GLOBAL_INDEX": 1}, "JOB_INDEX"),
        ({"TPU_WORKER_ID": 1}, "TPU_WORKER_HOSTNAMES"),
        ({"RANK": 1, "WORLD_SIZE": "٣"}, "WORLD_SIZE=٣"),
    ],
)
def test_a_variable_that_is_missing_or_no_number_is_named(variables, name):
    with pytest.raises(UsageError) as refused:
        rank(**variables)
    assert name in str(refused.value)


def test_a_rank_may_be_given():
    assert (read_rank("3/10").index, read_rank("3/10").count) == (3, 10)


@pytest.mark.parametrize("text", ["10/10", "-1/2", "1", "a/b", "0/0", "", "1/9999999"])
def test_what_names_no_rank_is_refused(text):
    with pytest.raises(UsageError, match="INDEX/COUNT"):
        read_rank(text)
