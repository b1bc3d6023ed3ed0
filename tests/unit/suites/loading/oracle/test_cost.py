"""The least CPU time that delivered elements can have taken."""

import pytest

from skymark.suites.loading.oracle import CpuTime, Declared, FetchedBytes, Oracle
from skymark.suites.loading.oracle.cost import FirstCost, StreamTime
from skymark.suites.loading.scenarios.io_storage import Sources


def oracle_of(reference_s=0.001, is_quiet=True, **declared):
    """Return an oracle that has compared a batch of media, whose reference took so long."""
    scenario = Sources(Sources.variants["small"])
    oracle = Oracle(scenario, range(1000), Declared(**declared), is_quiet=is_quiet)
    oracle.content_elements, oracle.reference_s = 1, reference_s
    return oracle


@pytest.mark.parametrize(
    ("cpu_s", "native", "kept"),
    [(1.0, False, False), (0.81, False, False), (0.79, False, True), (0.49, True, False),
     (0.24, True, True), (0.0, True, True)],
)  # fmt: skip
def test_less_than_most_of_the_reference_s_time_is_kept_work_or_a_quarter_for_native(
    cpu_s, native, kept
):
    cause = CpuTime(cpu_s, 1000).fault(oracle_of(native=native))
    assert (cause is not None) == kept


@pytest.mark.parametrize(("cpu_s", "kept"), [(0.51, False), (0.49, True)])
def test_half_of_it_is_enough_where_others_took_processors(cpu_s, kept):
    assert (CpuTime(cpu_s, 1000).fault(oracle_of(is_quiet=False)) is not None) == kept


@pytest.mark.parametrize(
    ("cpu_s", "switches", "is_quiet", "kept"),
    [(0.61, 0, True, False), (0.59, 0, True, True), (0.0, 0, False, False),
     (0.31, 12_500, True, False), (0.29, 12_500, True, True), (0.0, 30_000, True, False)],
)  # fmt: skip
def test_the_first_epoch_s_cost_but_for_switches_holds_for_all_where_nobody_disturbed_it(
    cpu_s, switches, is_quiet, kept
):
    oracle = oracle_of(is_quiet=is_quiet)
    oracle.seen_cpu_s = cpu_s
    assert (FirstCost(0.5, 500, switches, 1000).fault(oracle) is not None) == kept


@pytest.mark.parametrize(
    ("least_s", "kept"), [(0.0011, True), (0.001, True), (0.0005, False)]
)  # fmt: skip
def test_the_least_cost_of_all_rounds_first_epochs_counts(least_s, kept):
    oracle = oracle_of()
    oracle.seen_cpu_s, oracle.least_first_s = 0.59, least_s
    assert (FirstCost(0.5, 500, 0, 1000).fault(oracle) is not None) == kept
    assert oracle.least_first_s == min(least_s, 0.001)


def test_the_cause_says_how_much_was_used_and_what_the_least_is():
    cause = CpuTime(0.02, 1000).fault(oracle_of())
    assert cause.kind == "kept-work"
    assert " 2 % " in cause.message
    assert " 80 %" in cause.message
    assert "`caches`" in cause.message


def test_nothing_is_said_of_no_elements_and_of_work_that_takes_next_to_no_time():
    assert CpuTime(0.0, 0).fault(oracle_of()) is None
    assert CpuTime(0.0, 10).fault(oracle_of(0.00002)) is None


@pytest.mark.parametrize(
    ("stream_s", "cores", "native", "ahead"),
    [(1.0, 1, False, False), (0.26, 2, False, False), (0.24, 2, False, True),
     (0.24, 2, True, False), (0.12, 2, True, True), (0.04, 16, False, False)],
)  # fmt: skip
def test_a_stream_takes_the_time_in_which_all_processors_can_make_it(
    stream_s, cores, native, ahead
):
    cause = StreamTime(stream_s, 1000, cores).fault(oracle_of(native=native))
    assert (cause is not None) == ahead
    if cause:
        assert cause.kind == "worked-ahead"
        assert "1,000 elements" in cause.message
        assert "`works_ahead`" in cause.message


def test_nothing_is_said_of_a_stream_without_work():
    assert StreamTime(0.0, 0, 2).fault(oracle_of()) is None
    assert StreamTime(0.0, 10, 2).fault(oracle_of(0.00002)) is None


@pytest.mark.parametrize(("sent", "kept"), [(1000, False), (500, False), (499, True), (0, True)])
def test_half_of_the_bytes_at_least_are_fetched_while_they_are_delivered(sent, kept):
    assert (FetchedBytes(sent, 1000, 1000).fault(oracle_of()) is not None) == kept
    assert FetchedBytes(sent, 0, 1000).fault(oracle_of()) is None


@pytest.mark.parametrize("caches", ["objects", "decoded", "finished"])
def test_what_an_adapter_declares_to_keep_is_no_fault(caches):
    oracle = oracle_of(caches=caches)
    assert FetchedBytes(0, 1000, 1000).fault(oracle) is None
    assert (CpuTime(0.0, 1000).fault(oracle) is None) == (caches != "objects")
    assert (StreamTime(0.0, 1000, 2).fault(oracle) is None) == (caches != "objects")


def test_the_cpu_time_that_the_engine_saw_counts_in_place_of_the_workers():
    oracle = oracle_of()
    oracle.seen_cpu_s = 0.02
    for claimed_s in (None, 9.0):
        assert CpuTime(claimed_s, 1000).fault(oracle).kind == "kept-work"
    assert CpuTime(None, 1000).fault(oracle_of()) is None
    assert oracle.fresh().seen_cpu_s is None
