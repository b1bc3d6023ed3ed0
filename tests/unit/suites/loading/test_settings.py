"""Settings are checked when a run is planned, not when a cell is measured."""

from __future__ import annotations

import math

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.loading.options import check_settings, read_settings


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
        ("http_latency_tail", 0.5),
        ("http_latency_tail", math.inf),
        ("http_concurrency", 0),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_name(name, value):
    with pytest.raises(UsageError) as caught:
        check_settings({name: value}, ())
    assert f"setting {name}={value!r}: give " in str(caught.value)


@pytest.mark.parametrize(
    ("value", "network", "ms"),
    [("resnet50", "resnet50", None), ("vit_b16", "vit_b16", None), ("mlp:2.5", "mlp", 2.5)],
)
def test_a_step_is_a_network_by_name_or_a_calibrated_one(value, network, ms):
    check_settings({"step": value}, ())
    kind = read_settings({"step": value})[0].step_kind
    assert (kind.network, kind.ms) == (network, ms)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("resnet18", "resnet50, vit_b16 .*mlp:MS"),
        ("resnet50:3", "resnet50, vit_b16 .*mlp:MS"),
        ("", "resnet50, vit_b16 .*mlp:MS"),
        *((f"mlp:{ms}", r"mlp:MS .* 0\.1 to 1000") for ms in ("0", "-1", "x", "")),
        *((f"mlp:{ms}", r"mlp:MS .* 0\.1 to 1000") for ms in ("nan", "inf", "1e9")),
    ],
)
def test_a_step_that_does_not_exist_is_refused_with_those_that_do(value, advice):
    with pytest.raises(UsageError, match=advice):
        check_settings({"step": value}, ())


def test_a_batch_is_consumed_by_a_step_or_by_a_think_time():
    check_settings({"step": "mlp:5", "think_time_ms": 0}, ())
    with pytest.raises(UsageError, match=r"step .*think_time_ms"):
        check_settings({"step": "mlp:5", "think_time_ms": 2}, ())


def test_a_setting_that_nothing_reads_is_refused():
    check_settings({"threads": 4, "workers": 2}, {"threads"})
    with pytest.raises(UnknownNameError, match="'threads'"):
        check_settings({"thread": 4}, {"threads"})
    with pytest.raises(UnknownNameError, match="unknown setting 'threads'"):
        check_settings({"threads": 4}, ())
