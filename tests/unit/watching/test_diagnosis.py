"""Facts about a loop lead to the cause of its waits: a table, and what holds for any facts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.watching.costs import StageCost
from skymark.watching.diagnosis import NONE_BELOW, WaitCause, diagnose
from skymark.watching.facts import Facts
from skymark.watching.verdict import REASONS, STAGE_WORDS, LoopVerdict, advice_of, lines_of

STEP_S = 0.02


def loop(stage: str, feed_s: float, *, workers: int, cpu: float = 1.0, **changes: object) -> Facts:
    """A loop of 200 batches on 8 quiet cores whose loader has one stage."""
    per_batch_s = max(STEP_S, feed_s / workers) if workers else STEP_S + feed_s
    elapsed_s = 200 * per_batch_s
    facts = Facts(
        library="torch",
        name="Photos at train.py:1",
        settings={
            "num_workers": workers,
            "persistent_workers": False,
            "pin_memory": True,
            "prefetch_factor": 2,
            "in_order": True,
        },
        batches=200,
        elapsed_s=elapsed_s,
        wait_s=elapsed_s - 200 * STEP_S,
        wait_cpu_s=0.0 if workers else 200 * feed_s * cpu,
        workers=workers,
        feed_s=feed_s,
        feed_cpu_s=feed_s * cpu,
        busy=min(feed_s / max(workers, 1) / per_batch_s, 1.0),
        stages={stage: StageCost(feed_s, feed_s * cpu)},
        cores=8,
        busy_cores=feed_s * cpu / per_batch_s,
    )
    return replace(facts, **changes)


TABLE = {
    "a loader that keeps up": (loop("decode", 0.01, workers=2), ("", "none")),
    "a single long wait": (
        loop("decode", 0.01, workers=2, elapsed_s=5.0, wait_s=1.0, longest_s=0.9),
        ("", "none"),
    ),
    "a loop that exhausts the cores by itself": (
        loop("decode", 0.05, workers=0, busy_cores=7.5),
        ("decode", "cores"),
    ),
    "no workers": (loop("decode", 0.05, workers=0), ("decode", "main-process")),
    "too few workers": (loop("transform", 0.1, workers=2), ("transform", "too-few-workers")),
    "exhausted cores": (
        loop("decode", 0.4, workers=8, busy_cores=7.9),
        ("decode", "cores"),
    ),
    "cores that other programs take": (
        loop("decode", 0.4, workers=8, busy_cores=4.0, cores_busy=8.0, run_delay=0.5),
        ("decode", "other-programs"),
    ),
    "other programs beside workers that sleep": (
        loop("decode", 0.1, workers=2, cpu=0.02, cores_busy=8.0, run_delay=0.25),
        ("decode", "too-few-workers"),
    ),
    "other programs that nobody waits for": (
        loop("decode", 0.1, workers=2, cores_busy=8.0, run_delay=0.05),
        ("decode", "too-few-workers"),
    ),
    "a slow disk": (
        loop("read", 0.1, workers=2, cpu=0.1, disk_bytes_per_s=9e7, io_pressure=0.9),
        ("read", "disk"),
    ),
    "a slow network": (
        loop("read", 0.1, workers=2, cpu=0.1, network_bytes_per_s=9e6),
        ("read", "network"),
    ),
    "storage of another kind": (loop("read", 0.1, workers=2, cpu=0.1), ("read", "slow-storage")),
    "batches that are costly to unpack": (
        loop("collate", 0.03, workers=4, wait_s=3.0, wait_cpu_s=2.8, elapsed_s=7.0),
        ("hand-over", "pickling"),
    ),
    "batches that are costly to pack": (
        loop("hand-over", 0.1, workers=2),
        ("hand-over", "pickling"),
    ),
    "a few slow samples": (
        loop(
            "decode",
            0.03,
            workers=2,
            wait_s=2.0,
            elapsed_s=6.0,
            sample_p50_s=0.001,
            sample_p99_s=0.05,
            tail_share=0.6,
            worst_share=0.9,
        ),
        ("decode", "heavy-tail"),
    ),
    "threads at Python's lock": (
        replace(
            loop("transform", 0.03, workers=0, in_threads=True, active_threads=3.0, late_s=0.004),
            library="plain",
            settings={},
        ),
        ("transform", "gil"),
    ),
    "threads at Python's lock, one of which stands in line for a core": (
        replace(
            loop("transform", 0.03, workers=0, in_threads=True, active_threads=3.0, late_s=0.004),
            library="plain",
            settings={},
            cores_busy=8.0,
        ),
        ("transform", "other-programs"),
    ),
    "workers in a line of their own, beside idle cores of the machine": (
        loop("decode", 0.1, workers=2, cores_busy=30.0, idle_share=0.5, run_delay=0.3),
        ("decode", "too-few-workers"),
    ),
    "short epochs whose first batch is made as slowly as any": (
        loop("decode", 0.03, workers=2, epochs=10, start_s=0.4, elapsed_s=4.4),
        ("start", "short-epochs"),
    ),
    "workers that start anew": (
        loop("decode", 0.03, workers=2, epochs=10, start_s=4.0, elapsed_s=8.0),
        ("start", "workers-restart"),
    ),
    "more workers than cores": (
        loop(
            "decode",
            0.03,
            workers=20,
            epochs=10,
            start_s=4.0,
            elapsed_s=8.0,
            run_delay=0.8,
            feed_cpu_s=0.006,
        ),
        ("start", "too-many-workers"),
    ),
    "a slow start": (
        replace(
            loop("decode", 0.01, workers=0, epochs=9, start_s=4.0, elapsed_s=10.0),
            library="plain",
            settings={},
        ),
        ("start", "slow-start"),
    ),
    "copies from pageable memory": (
        loop("decode", 0.01, workers=2, copy_s=2.0, elapsed_s=6.0, settings={"pin_memory": False}),
        ("copy", "pageable-memory"),
    ),
    "copies that the loop waits for": (
        loop("decode", 0.01, workers=2, copy_s=2.0, elapsed_s=6.0),
        ("copy", "copy"),
    ),
    "a full /dev/shm": (
        loop("decode", 0.01, workers=2, shm_bytes=64 << 20, shm_free_bytes=1 << 20),
        ("hand-over", "shared-memory"),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_first_cause_is_the_limit(case):
    facts, expected = TABLE[case]
    cause = diagnose(facts).causes[0]
    assert (cause.stage, cause.cause) == expected


@pytest.mark.parametrize("case", TABLE)
def test_each_cause_has_words_advice_and_a_verdict_that_fits_json(case):
    verdict = LoopVerdict([TABLE[case][0]])
    assert verdict.to_json()["causes"]
    for cause in verdict.diagnosis.causes:
        if cause.cause == "none":
            continue
        assert cause.cause in REASONS
        assert cause.stage in STAGE_WORDS
        assert advice_of(cause).endswith(".")
        for name in cause.settings:
            assert any(name in line for line in lines_of(cause, "torch"))


@pytest.mark.parametrize(
    ("library", "cause", "settings", "lines"),
    [
        ("keras", "too-few-workers", {"num_workers": 3}, "workers=3, use_multiprocessing=True"),
        ("keras", "gil", {}, "workers=os.cpu_count(), use_multiprocessing=True"),
        ("grain", "too-few-workers", {"num_workers": 3}, "num_threads=3"),
        ("grain", "gil", {}, "mp_prefetch"),
        ("tf.data", "cores", {}, "num_parallel_calls"),
        ("tf.data", "gil", {}, ""),  # parallel calls of Python wait for each other
    ],
)
def test_the_lines_to_paste_are_those_of_the_library(library, cause, settings, lines):
    pasted = "\n".join(lines_of(WaitCause("decode", cause, 0.5, settings=settings), library))
    assert lines in pasted if lines else not pasted


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("feed_s", [0.1, 0.13, 0.07])
def test_the_advised_workers_make_a_batch_in_each_step_and_one_fewer_would_not(workers, feed_s):
    facts = loop("decode", feed_s, workers=1)
    advised = diagnose(facts).causes[0].settings["num_workers"]
    after = diagnose(loop("decode", feed_s, workers=advised))
    assert after.causes[0].cause == "none"
    assert diagnose(facts).causes[0].rate == pytest.approx(after.rate, rel=0.01)
    assert feed_s / (advised - 1) > 0.9 * STEP_S
    del workers


def test_the_gpu_s_empty_time_counts_in_place_of_the_host_s():
    facts = loop("decode", 0.1, workers=2)
    busy = replace(facts, empty_s=0.0)
    assert diagnose(facts).waiting > NONE_BELOW
    assert diagnose(busy).causes[0].cause == "none"
    assert LoopVerdict([busy]).clock != LoopVerdict([facts]).clock


def test_the_start_of_the_only_epoch_is_told_and_not_blamed():
    facts = loop("decode", 0.01, workers=2)
    slow = replace(facts, start_s=60.0, elapsed_s=facts.elapsed_s + 60.0)
    assert diagnose(slow).causes == diagnose(facts).causes
    assert diagnose(slow).starting > 0.5


def test_the_slowest_rank_is_named():
    fast = loop("decode", 0.01, workers=2, ranks=2)
    slow = replace(loop("decode", 0.1, workers=2, ranks=2), rank=1)
    verdict = LoopVerdict([fast, slow])
    assert verdict.facts.rank == 1
    assert "rank 1" in verdict.sentence
    assert [rank["rank"] for rank in verdict.to_json()["ranks"]] == [0, 1]


@given(
    stage=st.sampled_from(["read", "decode", "transform", "collate", "hand-over"]),
    feed_s=st.floats(1e-6, 10),
    workers=st.integers(0, 64),
    cpu=st.floats(0, 1),
    start_s=st.floats(0, 100),
    run_delay=st.floats(0, 1),
    epochs=st.integers(1, 200),
)
def test_any_facts_have_shares_of_the_time_and_rates_no_greater_than_free_data(
    stage, feed_s, workers, cpu, start_s, run_delay, epochs
):
    facts = loop(stage, feed_s, workers=workers, cpu=cpu, run_delay=run_delay, epochs=epochs)
    facts = replace(facts, start_s=start_s, elapsed_s=facts.elapsed_s + start_s)
    diagnosis = diagnose(facts)
    shares = [cause.share for cause in diagnosis.causes]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1.000001 for share in shares)
    assert 0 <= diagnosis.waiting <= 1
    assert 0 <= diagnosis.starting <= 1
    for cause in diagnosis.causes:
        assert cause.rate is None or 0 < cause.rate <= 1.001 / STEP_S
