"""Warnings of waits and warm-up appear when they should, beside those of any suite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from skymark.model.record import RoundResult, Verification
from skymark.suites.loading.drives.stream import NO_STREAM
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

STANDARD = EFFORTS["standard"]
SLOW_FIRST_EPOCH = (300,) * 50 + (130,) * 50 + (100,) * 150


def rounds_at(
    rates: Sequence[float],
    wait_ns: tuple[int, ...] = (1,) * 250,
    elements: tuple[int, ...] = (10,) * 250,
    epoch: tuple[int, ...] = tuple(k // 50 for k in range(250)),
    lead: int = 1,
    whole: float = 0.9,
) -> list[RoundResult]:
    """Rounds with these rates, of 200 measured batches each; `whole` is of epochs over stream."""
    starts = {one: epoch.index(one) for one in set(epoch)}
    in_stream = (k >= starts[one] + lead and one > 0 for k, one in enumerate(epoch))
    stream = tuple(map(int, in_stream))
    return [
        RoundResult(
            round=k,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            setup_s=0.1,
            timed_ns=round(1e15 / rate),
            metrics={"samples_per_s": rate, "epoch_samples_per_s": whole * rate},
            samples={
                "epoch": epoch,
                "wait_ns": wait_ns,
                "elements": elements,
                "warm_up": tuple(int(one == 0) for one in epoch),
                "stream": stream,
            },
            verification=Verification(passed=True),
        )
        for k, rate in enumerate(rates)
    ]


def kinds(rounds: Sequence[RoundResult]) -> set[str]:
    return {warning.kind for warning in LoadingSuite().warnings(rounds, STANDARD)}


def test_steady_rounds_get_no_warning() -> None:
    assert kinds(rounds_at([1000, 1001, 1002, 999, 1000, 1001, 998])) == set()


def test_no_rounds_get_no_warning() -> None:
    assert LoadingSuite().warnings([], STANDARD) == ()


def test_the_rate_is_looked_at_as_in_any_suite() -> None:
    assert kinds(rounds_at([1000])) == {"no-interval"}
    assert kinds(rounds_at([1000, 1200, 900])) == {"wide-interval"}
    assert "drift" in kinds(rounds_at([1000, 980, 961, 939, 920, 900]))
    assert "short-region" in kinds(rounds_at([1e8, 1.001e8, 1e8, 1e8, 1e8]))


def test_percentiles_of_few_batches_are_warned_of() -> None:
    few = rounds_at([1000, 1001, 1000], (1,) * 21, (10,) * 21, (0,) * 10 + (1,) * 11)
    (warning,) = LoadingSuite().warnings(few, STANDARD)
    assert warning.kind == "few-waits"
    assert " 30 batches" in warning.message


def test_a_scenario_without_timed_batches_is_not_warned_of_few_waits() -> None:
    assert kinds(rounds_at([1000, 1001, 1000], (), (), ())) == set()


def test_a_first_measured_epoch_that_is_always_slower_means_the_warm_up_was_too_short() -> None:
    assert kinds(rounds_at([1000, 1001, 1000], SLOW_FIRST_EPOCH)) == {"warm-up"}


def test_one_slow_first_epoch_is_no_unfinished_warm_up() -> None:
    rounds = rounds_at([1000, 1001, 1000], SLOW_FIRST_EPOCH)
    assert kinds([*rounds[:2], *rounds_at([1000, 1001, 1000])[2:]]) == set()


def test_epochs_without_a_stream_are_named_with_the_size_that_has_one() -> None:
    advice = "CV-1:long has one"
    rounds = [
        one.model_copy(
            update={
                "conditions": {"stream": f"{NO_STREAM}; {advice}"},
                "metrics": {
                    name: value for name, value in one.metrics.items() if name != "samples_per_s"
                },
                "samples": {**one.samples, "stream": (0,) * len(one.samples["stream"])},
            }
        )
        for one in rounds_at([1000, 1001, 1000], lead=0)
    ]
    (warning,) = LoadingSuite().warnings(rounds, STANDARD)
    assert warning.kind == "no-stream"
    assert " 50 batches" in warning.message
    assert warning.action == advice


def test_a_library_that_works_ahead_is_said_to_where_its_restarts_are_included() -> None:
    rounds = [
        one.model_copy(update={"conditions": {"works_ahead": "epoch"}})
        for one in rounds_at([1000, 1001, 1000], lead=0)
    ]
    assert kinds(rounds) == {"restarts-included"}


def test_a_stream_that_is_much_faster_than_whole_epochs_is_warned_of() -> None:
    rounds = rounds_at([1000, 1001, 1000], whole=0.4)
    assert kinds(rounds) == {"costly-restarts"}
    (warning,) = LoadingSuite().warnings(rounds, STANDARD)
    assert " 40 % " in warning.message
    assert kinds(rounds_at([1000, 1001, 1000], whole=0.81)) == set()


def test_every_warning_says_what_to_do() -> None:
    cases = [
        rounds_at([1e8, 1e8], (1, 1), (1, 1), (1, 1)),
        rounds_at([1000] * 3, SLOW_FIRST_EPOCH),
        rounds_at([1000] * 3, whole=0.5),
    ]
    found = [one for case in cases for one in LoadingSuite().warnings(case, STANDARD)]
    expected = {"short-region", "few-waits", "warm-up", "costly-restarts"}
    assert {one.kind for one in found} >= expected
    assert all(len(one.action) > 20 for one in found)


def trained(step: str, step_ns: float, **more: float) -> list[RoundResult]:
    return [
        one.model_copy(
            update={
                "conditions": {"step": step},
                "metrics": {**one.metrics, "step_ns": step_ns, **more},
            }
        )
        for one in rounds_at([100.0] * 5)
    ]


def test_a_calibrated_step_that_takes_another_time_is_warned_of() -> None:
    assert kinds(trained("mlp:5", 6.1e6)) == kinds(trained("mlp:5", 4.1e6)) == set()
    assert kinds(trained("mlp:5", 6.5e6)) == kinds(trained("mlp:5", 3.9e6)) == {"step-time"}
    assert kinds(trained("resnet50", 6.5e6)) == set()


def test_a_step_that_takes_as_long_as_its_launches_is_warned_of() -> None:
    bound = trained("resnet50", 25e6, step_launch_ns=24e6)
    assert kinds(bound) == {"launch-bound"}
    (warning,) = LoadingSuite().warnings(bound, STANDARD)
    assert " 96 % " in warning.message
    assert "choose larger batches" in warning.action
    assert kinds(trained("resnet50", 25e6, step_launch_ns=2e6)) == set()


def loaded(
    execution: str, used: float, idle: float, consumer: float, **more: object
) -> list[RoundResult]:
    """Steady rounds of workers that kept so many cores busy; `waited` is of the time."""
    wait_ns = int(1e9 * float(more.get("waited", 1)) / 200)
    cores = {"cores_used": used, "cores_idle": idle, "cores_of_consumer": consumer}
    return [
        one.model_copy(
            update={
                "timed_ns": 10**9,
                "metrics": {**one.metrics, **cores},
                "conditions": {"execution": execution, "operators": more.get("operators", "")},
            }
        )
        for one in rounds_at([1000, 1001, 1000], (wait_ns,) * 250)
    ]


def cause_of_unused(rounds: Sequence[RoundResult]) -> str | None:
    found = [one for one in LoadingSuite().warnings(rounds, STANDARD) if one.kind == "unused-cores"]
    return found[0].message if found else None


def test_threads_that_share_one_core_are_said_to_be_held_by_pythons_lock() -> None:
    cause = cause_of_unused(loaded("8 threads", 2.4, 13.0, 2.4))
    assert cause is not None
    assert re.search(r"^8 threads\b.*\b2\.4\D+8\b.*\b13\.0\b.*Python's lock", cause)
    native = cause_of_unused(loaded("8 threads", 2.4, 13.0, 2.4, operators="native"))
    assert native is not None
    assert "lock" not in native


def test_processes_that_make_more_than_one_process_receives_are_said_to() -> None:
    cause = cause_of_unused(loaded("8 processes", 3.1, 12.0, 0.97))
    assert cause is not None
    assert re.search(r"\breceives\b.* 97 %", cause)


def test_workers_that_wait_for_storage_are_said_to_wait() -> None:
    cause = cause_of_unused(loaded("8 processes", 1.1, 14.0, 0.2))
    assert cause is not None
    assert re.search(r"\bwaited\b.* 0\.2 ", cause)


def test_workers_with_all_cores_or_a_busy_machine_or_a_slow_consumer_are_not_warned_of() -> None:
    assert cause_of_unused(loaded("8 processes", 7.1, 8.0, 0.2)) is None
    assert cause_of_unused(loaded("8 processes", 1.9, 0.1, 0.2)) is None
    assert cause_of_unused(loaded("8 processes", 1.0, 15.0, 0.2, waited=0.5)) is None
    assert cause_of_unused(loaded("the calling thread", 1.0, 15.0, 1.0)) is None
