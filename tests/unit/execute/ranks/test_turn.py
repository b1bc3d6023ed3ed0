"""A job's turn among those that start at once."""

from __future__ import annotations

import pytest

from skymark.execute.rank import turn_of


def task(number: int, *, first: int, last: int, count: int, step: int = 1) -> dict[str, str]:
    """Return the variables of a task of an array of Slurm."""
    told = {"ID": number, "MIN": first, "MAX": last, "COUNT": count, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in told.items()}


@pytest.mark.parametrize(
    ("variables", "turn"),
    [
        ({}, 0),
        (task(1002, first=1000, last=1063, count=64), 2),
        (task(30, first=10, last=40, count=4, step=10), 2),
        (task(9, first=1, last=12, count=5) | {"SKYMARK_ARRAY": "1,5,9-11"}, 2),
        (task(1009, first=1001, last=1012, count=5), 8),
        ({"SLURM_ARRAY_TASK_ID": "3"}, 3),
        (
            task(1001, first=1000, last=1001, count=2)
            | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"},
            5,
        ),
        ({"SLURM_PROCID": "2"}, 2),
        ({"JOB_COMPLETION_INDEX": "4", "JOB_INDEX": "1"}, 4),
        ({"SGE_TASK_ID": "undefined"}, 0),
    ],
)
def test_a_job_s_turn_is_the_number_of_those_before_it(variables, turn):
    assert turn_of(variables) == turn
