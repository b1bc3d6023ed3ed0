"""Which adapters can deliver to which platform's device, said before anything is measured."""

from __future__ import annotations

import re

import pytest

from skymark.model.errors import UsageError
from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.delivery.framework import REACHED
from skymark.suites.loading.registry import adapters
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

ABLE = {slug for slug, cls in adapters().items() if not cls.native_only or "CV-1" in cls.native}
"""Adapters that do CV-1: all but those for other media."""


def refusals(platform, deliver="device"):
    """Return the cause by adapter of those that cannot run CV-1 so."""
    selection = Selection(
        scenarios=("CV-1",),
        adapters=tuple(ABLE),
        settings={"deliver": deliver},
        platform=platform,
    )
    planned = LoadingSuite().plan(selection, EFFORTS["check"])
    return {one.cell.adapter: one.refusal for one in planned if one.refusal}


def test_every_adapter_delivers_to_a_gpu_and_those_with_a_framework_there_to_the_cpus_device():
    assert refusals("gpu") == {}
    found = refusals("cpu")
    assert set(found) == {"numpy", "ray", "spdl", "spdl-io"}
    for status, cause in found.values():
        assert status is Status.UNSUPPORTED
        assert cause.kind == "lacks-framework"
        assert re.search(r"torch .* gpu", cause.message)
        assert "--deliver host" in cause.action


def test_copies_are_made_ahead_unless_they_are_to_be_plain():
    def cell(**settings):
        selection = Selection(scenarios=("TAB-1",), adapters=("grain",), settings=settings)
        return LoadingSuite().plan(selection, EFFORTS["check"])[0].cell

    assert "copies" not in cell(deliver="host").settings
    ahead, plain = cell(deliver="device"), cell(deliver="device", copies="plain")
    assert ahead.settings["copies"] == "ahead"
    assert ahead.hash == cell(deliver="device", copies="ahead").hash != plain.hash
    with pytest.raises(UsageError, match="add --deliver device"):
        cell(copies="plain")


@pytest.mark.parametrize(
    ("slug", "settings", "library"),
    [
        ("spdl", {}, None),
        ("spdl", {"deliver": "device"}, "torch"),
        ("numpy", {"step": "resnet50"}, "torch"),
        ("dali", {"deliver": "device"}, "dali"),
        ("pytorch", {}, "torch"),
    ],
)
def test_a_library_of_the_host_is_asked_for_the_gpu_where_its_batches_go_there(
    slug, settings, library
):
    selection = Selection(scenarios=("CV-1",), adapters=(slug,), settings=settings, platform="gpu")
    (one,) = LoadingSuite().plan(selection, EFFORTS["check"])
    found = LoadingSuite().device_library(one.cell, "gpu")
    assert (found and found.name) == library


def test_only_jax_reaches_a_tpu():
    found = refusals("tpu")
    kept = ABLE - set(found)
    assert {adapters()[slug].framework for slug in kept} == {"jax"}
    assert re.search(r"torch, .* tpu", found["pytorch"][1].message)


def test_every_adapter_delivers_to_the_host():
    assert refusals("gpu", "host") == {}


def test_a_framework_is_one_that_can_see_the_accelerator_of_its_platform():
    for cls in adapters().values():
        if cls.framework is not None:
            for platform, seen_by in cls.acceleration.seen_by.items():
                assert seen_by in {cls.framework, cls.slug}
                assert platform in REACHED[cls.framework]


def test_where_batches_are_delivered_makes_another_cell():
    def cells(deliver):
        selection = Selection(
            scenarios=("TAB-1",), adapters=("grain",), settings={"deliver": deliver}
        )
        return LoadingSuite().plan(selection, EFFORTS["check"])[0].cell

    assert cells("host").id == cells("device").id
    assert cells("host").hash != cells("device").hash
