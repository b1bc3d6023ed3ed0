"""Calibration against devices whose every time is known."""

from __future__ import annotations

import pytest

from skymark.suites.loading.step.calibration import (
    LEAST_WIDTH,
    MOST_WIDTH,
    UPDATES,
    Calibrated,
    calibrated,
)


class Device:
    """A device that takes so many ns per multiplication and as many to start an update."""

    def __init__(self, ns_per_product, start_ns=0):
        self.ns_per_product, self.start_ns = ns_per_product, start_ns
        self.tried = []

    def time_ns(self, width, updates):
        self.tried.append((width, updates))
        return round(updates * (width**3 * self.ns_per_product + self.start_ns))


@pytest.mark.parametrize("ms", [1, 2.5, 5, 30, 200])
@pytest.mark.parametrize("ns_per_product", [1e-4, 1e-2, 0.1])
def test_a_step_takes_the_time_that_is_asked_for(ms, ns_per_product):
    device = Device(ns_per_product, start_ns=20_000)
    found = calibrated(ms, device.time_ns)
    assert device.time_ns(found.width, found.updates) / 1e6 == pytest.approx(ms, rel=1 / 16)


def test_the_widest_network_is_taken_that_leaves_the_updates_to_count():
    found = calibrated(5, Device(1e-2).time_ns)
    assert found == Calibrated(256, 30)
    assert calibrated(1000, Device(1e-9).time_ns).width == MOST_WIDTH


def test_a_device_too_slow_for_the_time_makes_one_update_of_the_narrowest_network():
    found = calibrated(0.1, Device(100).time_ns)
    assert found == Calibrated(LEAST_WIDTH, 1)


def test_a_long_step_is_tried_only_a_few_times():
    device = Device(1e-2)
    calibrated(1000, device.time_ns)
    assert sum(device.time_ns(*one) for one in tuple(device.tried)) < 20e9


def test_other_work_meanwhile_does_not_make_the_step_shorter():
    device, tries = Device(1e-2), []

    def disturbed(width, updates):
        tries.append(width)
        return device.time_ns(width, updates) * (3 if len(tries) % 3 else 1)

    assert calibrated(5, disturbed) == calibrated(5, device.time_ns)
    assert calibrated(5, disturbed).updates >= UPDATES
