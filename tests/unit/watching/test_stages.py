"""Time by stage: buckets of durations, time inside other stages, slow samples, stacks."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.watching.sampler import BY_FILE, BY_LINE, BY_NAME, Classifier, stage_of
from skymark.watching.stages import SLOWEST, StageClock, bucket_of, duration_of


@given(st.integers(0, 10**13))
def test_a_bucket_s_middle_is_near_each_of_its_durations(duration_ns):
    assert abs(duration_of(bucket_of(duration_ns)) - duration_ns) <= 0.07 * duration_ns + 1


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_longer_durations_have_no_lower_buckets(first, second):
    assert (bucket_of(first) <= bucket_of(second)) or first > second


def test_a_stage_s_own_time_is_without_the_stages_inside_it():
    clock = StageClock()
    inner = clock.timed("decode", lambda: sum(range(2000)))
    clock.timed("transform", lambda: [inner(), inner()])()
    outer, within = clock.stages["transform"], clock.stages["decode"]
    assert within.calls == 2
    assert outer.whole_ns == outer.wall_ns + within.whole_ns
    assert sum(within.histogram.values()) == 2


def test_a_stage_that_an_exception_ends_counts_and_leaves_no_trace_in_the_next():
    clock = StageClock()

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        clock.timed("decode", fail)()
    clock.timed("collate", lambda: None)()
    assert clock.stages["decode"].calls == clock.stages["collate"].calls == 1
    assert clock.stages["collate"].whole_ns == clock.stages["collate"].wall_ns


def test_the_slowest_samples_are_remembered():
    clock = StageClock()
    for wall in range(100):
        clock.remember(wall, f"sample {wall}")
    slowest = clock.to_json()["slowest"]
    assert [wall for wall, _ in slowest] == list(range(99, 99 - SLOWEST, -1))


FILES = {
    "/site-packages/PIL/JpegImagePlugin.py": "decode",
    "/site-packages/PIL/Image.py": "transform",
    "/site-packages/torchvision/transforms/functional.py": "transform",
    "/site-packages/torch/utils/data/_utils/collate.py": "collate",
    "/lib/python3.9/multiprocessing/queues.py": "hand-over",
    "/lib/python3.9/zipfile.py": "read",
    "/site-packages/flask/app.py": None,
}
NAMES = {"decode_jpeg": "decode", "augment": "transform", "my_collate": "collate", "main": None}
LINES = {
    "batch = batch.to(device)": "copy",
    "pixels = cv2.imdecode(raw)": "decode",
    "raw = file.read()": "read",
    "return torch.stack(images)": "collate",
    "loss = model(batch)": None,
}


@pytest.mark.parametrize(("rules", "table"), [(BY_FILE, FILES), (BY_NAME, NAMES), (BY_LINE, LINES)])
def test_files_names_and_lines_tell_their_stage(rules, table):
    assert {text: stage_of(text, rules) for text in table} == table


def augment(look):
    return look()


def test_a_stack_has_the_stage_and_place_of_its_innermost_function_that_tells():
    stage, place = augment(lambda: Classifier().classify(sys._getframe()))
    assert stage == "transform"
    assert "test_stages.py" in place
