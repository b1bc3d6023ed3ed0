"""PR-1: a position saved in one process is gone on from in another, exactly or not."""

from __future__ import annotations

import time

import numpy as np
import pytest

from skymark.suites.loading.drives import resuming
from skymark.suites.loading.drives.fresh import FreshProcessError
from skymark.suites.loading.scenarios.pr_production import Resuming
from skymark.suites.loading.work import Size

SCENARIO = Resuming(Size(elements=203, batch_size=16, values={"features": 6}), seed=3)


def test_an_epoch_continued_exactly_in_a_new_process_passes(make_bench):
    bench = make_bench(SCENARIO)
    begin_s = time.perf_counter()
    outcome = resuming.drive(bench)
    whole_s = time.perf_counter() - begin_s
    assert bench.oracle.verdict().passed
    assert outcome.extra["state_bytes"] == 1
    assert 0 < outcome.extra["save_s"] < whole_s
    assert 0 < outcome.extra["resume_s"] < whole_s
    assert "resume_import_s" in outcome.extra


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("LosesOnResume", "resume", "16 elements were lost"),
        ("RepeatsOnResume", "resume", "16 elements came again"),
        ("ReordersOnResume", "resume", "order differs"),
        ("ResumesOnce", "resume", "96 elements came again"),
        ("ForgetsEpochOnResume", "ignored-epoch", "content of epoch 0"),
    ],
)
def test_what_went_wrong_when_resuming_is_named(make_bench, name, kind, words):
    bench = make_bench(SCENARIO, name)
    resuming.drive(bench)
    assert not bench.oracle.verdict().passed
    assert bench.oracle.verdict().cause.kind == kind
    assert words in bench.oracle.verdict().cause.message


def test_a_loader_that_cannot_resume_fails_with_its_own_words(make_bench):
    with pytest.raises(FreshProcessError, match="ValueError: the position"):
        resuming.drive(make_bench(SCENARIO, "RaisesOnResume"))


def test_the_place_where_streams_part_is_named():
    before, after = np.array([4, 1]), np.array([0, 3, 2])
    assert resuming.difference(before, after, after) is None
    assert "place 1 " in resuming.difference(before, after, np.array([0, 2, 3]))
    assert "element 3" in resuming.difference(before, after, np.array([0, 2]))
    assert "element 4 " in resuming.difference(before, after, np.array([4, 0, 3, 2])) + " "
