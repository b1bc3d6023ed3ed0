"""Files of watched processes lead to facts: costs of threads and workers, and whose they are."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from skymark.watching.facts import Facts, facts_of

BATCHES = 100
STEP_S, WAIT_S = 0.1, 0.1
SPAN_S = BATCHES * (STEP_S + WAIT_S)
LOOKS = 1000


def write(
    folder: Path,
    pid: int,
    *,
    cpu_s: float = 0.0,
    main_cpu_s: float = 0.0,
    run_delay_s: float = 0.0,
    library: str | None = None,
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Write the file of a process; with a library, it has a loop over it."""
    loop = {
        "number": 0,
        "library": library,
        "name": "Photos at train.py:1",
        "settings": settings or ({"num_workers": 1} if library == "torch" else {}),
        "in_main_thread": True,
        "events": None,
    }
    zero = {"time_ns": 0, "cpu_ns": 0, "main_cpu_ns": 0, "main_run_delay_ns": 0}
    process = {
        "pid": pid,
        "parent": 1,
        "loop": None if library else 0,
        "seeks": False,
        "program": "train.py",
        "cores": 2.0,
        "rank": 0,
        "ranks": 1,
        "loops": [loop] if library else [],
        "stages": {},
        "slowest": [],
        "looks": LOOKS,
        "late_ns": 0,
        "active": 0,
        "stacks": [],
        "first": zero,
        "last": {
            "time_ns": int(SPAN_S * 1e9),
            "cpu_ns": int(cpu_s * 1e9),
            "main_cpu_ns": int(main_cpu_s * 1e9),
            "main_run_delay_ns": int(run_delay_s * 1e9),
        },
        **changes,
    }
    (folder / f"process-{pid}.json").write_text(json.dumps(process))
    if library:
        rows = array("q")
        for number in range(BATCHES):
            asked_s = number * (STEP_S + WAIT_S)
            rows.extend((0, int(asked_s * 1e9), int((asked_s + WAIT_S) * 1e9), 0))
        (folder / f"loop-{pid}-0.waits").write_bytes(rows.tobytes())


def facts(folder: Path) -> Facts:
    """The facts of the only rank."""
    (only,) = facts_of(str(folder))
    return only


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_that_make_batches_cost_their_own_time_and_not_that_of_the_waits(threads, tmp_path):
    stacks = [["work", "decode", "load (train.py)", threads * LOOKS], ["wait", "idle", "", 500]]
    write(tmp_path, 1, library="grain", stacks=stacks, cpu_s=5.0, main_cpu_s=1.0)
    made = facts(tmp_path)
    assert made.in_threads
    assert made.feed_s == pytest.approx(threads * SPAN_S / BATCHES)
    assert made.feed_cpu_s == pytest.approx(4.0 / BATCHES)
    assert made.stages["decode"].wall_s == pytest.approx(made.feed_s)


@pytest.mark.parametrize(
    ("looks", "stage"),
    [
        (LOOKS // 10, "decode"),  # a function of Python beside operations
        (LOOKS * 9 // 10, "transform"),  # the pipeline's own work is in Python
    ],
)
def test_a_pipeline_has_the_stages_of_its_operations_unless_it_runs_python(looks, stage, tmp_path):
    stacks = [["work", "transform", "augment (train.py)", looks]]
    told = {"stages": ["decode", "transform"]}
    write(tmp_path, 1, library="tf.data", settings=told, stacks=stacks, cpu_s=9.0)
    made = facts(tmp_path)
    assert list(made.stages) == [stage]
    assert made.in_threads == (stage == "transform")


@pytest.mark.parametrize(
    ("cpu_s", "run_delay_s", "stage"),
    [
        (9.0, 0.0, "transform"),  # it computes
        (1.0, 0.0, "read"),  # it sleeps
        (1.0, 8.9, "transform"),  # it stands in line for a core
    ],
)
def test_time_of_no_known_stage_is_a_transform_where_it_computes_else_reading(
    cpu_s, run_delay_s, stage, tmp_path
):
    fetch = {"calls": BATCHES, "wall_ns": 10**10, "cpu_ns": 0, "whole_ns": 10**10, "histogram": []}
    write(tmp_path, 1, library="torch")
    write(tmp_path, 2, stages={"fetch": fetch}, cpu_s=cpu_s, run_delay_s=run_delay_s)
    assert list(facts(tmp_path).stages) == [stage]


def test_a_process_that_trains_nothing_is_no_worker(tmp_path):
    write(tmp_path, 1, library="plain")
    write(tmp_path, 2, seeks=True, loop=None, cpu_s=9.0)
    assert facts(tmp_path).workers == 0
