"""Settings are checked when a run is planned, not when a cell is measured."""

from __future__ import annotations

import math

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.loading.settings import check_settings, read_settings


def test_general_settings_and_a_librarys_options_are_told_apart():
    settings, options = read_settings({"workers": 0, "think_time_ms": 2, "threads": 4})
    assert (settings.workers, settings.think_time_ms, settings.prefetch) == (0, 2.0, 2)
    assert options == {"threads": 4}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", -1),
        ("workers", 1.5),
        ("workers", "many"),
        ("prefetch", 0),
        ("batch_size", 0),
        ("format", 7),
        ("page_cache", "lukewarm"),
        ("deliver", "gpu"),
        ("think_time_ms", -0.1),
        ("think_time_ms", math.inf),
        ("http_latency_ms", math.nan),
        ("http_bandwidth_mb_s", 0),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_name(name, value):
    with pytest.raises(UsageError) as caught:
        check_settings({name: value}, ())
    assert f"setting {name}={value!r}: Input should be" in str(caught.value)


def test_a_setting_that_nothing_reads_is_refused():
    check_settings({"threads": 4, "workers": 2}, {"threads"})
    with pytest.raises(UnknownNameError, match="Did you mean 'threads'"):
        check_settings({"thread": 4}, {"threads"})
    with pytest.raises(UnknownNameError, match="unknown setting 'threads'"):
        check_settings({"threads": 4}, ())
