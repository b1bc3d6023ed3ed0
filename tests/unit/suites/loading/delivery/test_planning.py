"""Which adapters can deliver to which platform's device, said before anything is measured."""

from __future__ import annotations

import pytest

from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.delivery.framework import REACHED
from skymark.suites.loading.efforts import EFFORTS
from skymark.suites.loading.registry import adapters
from skymark.suites.loading.suite import LoadingSuite

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


WITHOUT = {slug for slug in ABLE if adapters()[slug].framework is None}


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_an_adapter_without_a_framework_cannot_deliver_to_a_device(platform):
    found = refusals(platform)
    assert set(found) == WITHOUT
    status, cause = found["numpy"]
    assert status is Status.UNSUPPORTED
    assert cause.kind == "lacks-framework"
    assert "no framework of an accelerator in its venv" in cause.message
    assert cause.action == "measure it with --deliver host"


def test_only_jax_reaches_a_tpu():
    found = refusals("tpu")
    kept = ABLE - set(found)
    assert {adapters()[slug].framework for slug in kept} == {"jax"}
    assert "is torch, which reaches no tpu" in found["pytorch"][1].message


def test_every_adapter_delivers_to_the_host():
    assert refusals("gpu", "host") == {}


def test_a_framework_is_one_that_can_see_the_accelerator_of_its_platform():
    for cls in adapters().values():
        if cls.framework is not None:
            for platform, seen_by in cls.acceleration.seen_by.items():
                assert seen_by == cls.framework
                assert platform in REACHED[cls.framework]


def test_where_batches_are_delivered_makes_another_cell():
    def cells(deliver):
        selection = Selection(
            scenarios=("TAB-1",), adapters=("grain",), settings={"deliver": deliver}
        )
        return LoadingSuite().plan(selection, EFFORTS["check"])[0].cell

    assert cells("host").id == cells("device").id
    assert cells("host").hash != cells("device").hash
