"""The least CPU time that delivered elements can have taken."""

import pytest

from skymark.suites.loading.oracle.claims import kept_objects, kept_work, worked_ahead


@pytest.mark.parametrize(
    ("cpu_s", "native", "kept"),
    [(1.0, False, False), (0.51, False, False), (0.49, False, True), (0.49, True, False),
     (0.24, True, True), (0.0, True, True)],
)  # fmt: skip
def test_less_than_half_of_the_reference_s_time_is_kept_work_or_a_quarter_for_native(
    cpu_s, native, kept
):
    cause = kept_work(cpu_s, 1000, 0.001, native=native)
    assert (cause is not None) == kept


def test_the_cause_says_how_much_was_used_and_what_the_least_is():
    cause = kept_work(0.02, 1000, 0.001, native=False)
    assert cause.kind == "kept-work"
    assert "took 2% of" in cause.message
    assert "is 50%" in cause.message
    assert "`caches`" in cause.message


def test_nothing_is_said_of_no_elements_and_of_work_that_takes_next_to_no_time():
    assert kept_work(0.0, 0, 0.001, native=False) is None
    assert kept_work(0.0, 10, 0.00002, native=False) is None


@pytest.mark.parametrize(
    ("stream_s", "cores", "native", "ahead"),
    [(1.0, 1, False, False), (0.26, 2, False, False), (0.24, 2, False, True),
     (0.24, 2, True, False), (0.12, 2, True, True), (0.04, 16, False, False)],
)  # fmt: skip
def test_a_stream_takes_the_time_in_which_all_processors_can_make_it(
    stream_s, cores, native, ahead
):
    cause = worked_ahead(stream_s, 1000, 0.001, cores, native=native)
    assert (cause is not None) == ahead
    if cause:
        assert cause.kind == "worked-ahead"
        assert "1,000 elements" in cause.message
        assert "`works_ahead`" in cause.message


def test_nothing_is_said_of_a_stream_without_work():
    assert worked_ahead(0.0, 0, 0.001, 2, native=False) is None
    assert worked_ahead(0.0, 10, 0.00002, 2, native=False) is None


@pytest.mark.parametrize(("sent", "kept"), [(1000, False), (500, False), (499, True), (0, True)])
def test_half_of_the_bytes_at_least_are_fetched_while_they_are_delivered(sent, kept):
    assert (kept_objects(sent, 1000.0) is not None) == kept
    assert kept_objects(sent, 0.0) is None
