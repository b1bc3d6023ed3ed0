"""What a worker claims is held against what the engine saw, and against itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skymark.model.record import RoundResult
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.oracle.claims import (
    ClaimedFigures,
    ClaimedTime,
    UnchangedData,
    claimed_stream,
)
from skymark.suites.loading.oracle.evidence import NOT_JUDGED


def quiet():
    """An oracle of a round that nobody disturbed."""
    return Oracle(None, None, is_quiet=True)


def fault_of(claim, handed_over, ranks=1):
    oracle = Oracle(scenario=None, dataset=None)
    oracle.indexed_elements = handed_over
    return ClaimedFigures(claim, ranks).fault(oracle)


def claim(timed_s=2.0, ranks=1, **metrics):
    """A round of 100 batches of 10 in each of two ranks' or one's stream, and a warm-up batch."""
    elements, wait_ns = 1000 * ranks, int(timed_s * 1e7)
    usual = {
        "elements": elements,
        "epoch_samples_per_s": elements / timed_s,
        "samples_per_s": elements / timed_s,
    }
    return RoundResult(
        round=0,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        setup_s=4.0,
        timed_ns=int(timed_s * 1e9),
        metrics=usual | metrics,
        samples={
            "elements": (10,) * (100 * ranks + 1),
            "wait_ns": (int(3e9 * ranks), *(wait_ns,) * 100 * ranks),
            "warm_up": (1, *(0,) * 100 * ranks),
            "stream": (0, *(1,) * 100 * ranks),
            "epoch": (0, *(1,) * 50 * ranks, *(2,) * 50 * ranks),
        },
        verification=NOT_JUDGED,
    )


@pytest.mark.parametrize(
    ("wall_s", "in_region", "is_fault"),
    [
        (None, False, False),
        (2.0, False, False),
        (2.2, False, False),
        (2.3, False, True),
        (9.0, True, False),
        (9.5, True, False),
        (9.7, True, True),
    ],
)
def test_a_timed_region_is_not_longer_than_is_claimed(wall_s, in_region, is_fault):
    cause = ClaimedTime(claim(), wall_s, in_region).fault(quiet())
    assert (cause is not None) == is_fault
    if cause is not None:
        assert cause.kind == "claimed-time"
        assert f"took {wall_s:.3g} s " in cause.message


@pytest.mark.parametrize(("wall_s", "is_fault"), [(5.0, False), (5.3, True)])
def test_a_region_of_a_disturbed_round_may_take_twice_as_long_and_a_second(wall_s, is_fault):
    cause = ClaimedTime(claim(), wall_s, in_region=False).fault(Oracle(None, None))
    assert (cause is not None) == is_fault


def test_skymark_itself_needs_time_to_copy_batches_and_to_stop_an_epoch():
    oracle = quiet()
    oracle.kept_bytes = 2**28
    assert ClaimedTime(claim(), 3.1, in_region=False).fault(oracle) is None
    oracle.was_stopped = True
    assert ClaimedTime(claim(), 5.1, in_region=False).fault(oracle) is None


@pytest.mark.parametrize("ranks", [1, 2])
def test_honest_figures_stand(ranks):
    assert fault_of(claim(ranks=ranks), 1000 * ranks + 10, ranks) is None
    slower = claim(ranks=ranks, samples_per_s=1.0, epoch_samples_per_s=2.0)
    assert fault_of(slower, 1000 * ranks + 10, ranks) is None


def test_elements_that_nobody_saw_do_not_count():
    cause = fault_of(claim(), 999)
    assert cause is not None
    assert cause.kind == "claimed-elements"
    assert "1000 elements" in cause.message


@pytest.mark.parametrize("name", ["samples_per_s", "epoch_samples_per_s"])
def test_a_rate_follows_from_elements_and_times(name):
    cause = fault_of(claim(**{name: 501.0}), 1010)
    assert cause is not None
    assert cause.kind == "claimed-rate"
    assert name in cause.message
    assert fault_of(claim(**{name: 500.0}), 1010) is None


def test_a_round_without_a_wait_has_any_rate():
    assert fault_of(claim(timed_s=1e-9, samples_per_s=5e13), 1010) is None


def test_batches_in_queues_were_made_before_an_epoch_without_a_lead():
    assert claimed_stream(claim(), queued=6) == (2.0, 1000 - 2 * 6 * 10)


def test_all_of_a_stream_after_a_lead_was_made_in_it():
    whole = claim()
    led = whole.samples | {"stream": (0, 0, *(1,) * 99)}
    assert claimed_stream(whole.model_copy(update={"samples": led}), queued=6) == (1.98, 990)


def test_an_epoch_that_is_not_measured_is_part_of_the_region_of_a_round_without_a_stream():
    usual = claim()
    drained = {"wait_ns": (int(3e9), int(2e9), *(int(2e7),) * 99), "warm_up": (1, 1, *(0,) * 99)}
    led = usual.model_copy(update={"samples": usual.samples | drained})
    rates = {name: value for name, value in usual.metrics.items() if name != "samples_per_s"}
    without = led.model_copy(update={"metrics": rates})
    oracle = quiet()
    assert ClaimedTime(without, 4.3, in_region=False).fault(oracle) is None
    cause = ClaimedTime(led, 4.3, in_region=False).fault(oracle)
    assert cause is not None
    assert cause.kind == "claimed-time"


def test_a_round_without_a_stream_claims_no_rate_of_one():
    usual = claim()
    rates = {name: value for name, value in usual.metrics.items() if name != "samples_per_s"}
    without = usual.model_copy(update={"metrics": rates})
    assert fault_of(without, 1010) is None
    assert claimed_stream(without, queued=6)[0] == float("inf")


@pytest.mark.parametrize(
    ("began", "kind"),
    [(-60, "changed-data"), (60, None)],  # s before or after the file was written
)
def test_a_file_written_since_the_round_began_is_a_fault(tmp_path, began, kind):
    (tmp_path / "data").touch()
    fault = UnchangedData(tmp_path, datetime.now(UTC) + timedelta(seconds=began)).fault(
        Oracle(None, None)
    )
    assert (None if fault is None else fault.kind) == kind


def test_a_file_whose_time_is_yet_to_come_is_of_a_clock_that_was_put_back(tmp_path, monkeypatch):
    (tmp_path / "data").touch()
    written = (tmp_path / "data").stat().st_ctime
    monkeypatch.setattr("time.time", lambda: written - 3600)
    began = datetime.fromtimestamp(written - 3610, UTC)
    assert UnchangedData(tmp_path, began).fault(Oracle(None, None)) is None
