"""Which cells can be trained on, by which adapters, said before anything is measured."""

from __future__ import annotations

import re

import pytest

from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.registry import adapters, scenarios
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

ABLE = {slug for slug, cls in adapters().items() if not cls.native_only or "CV-1" in cls.native}
"""Adapters that do CV-1: all but those for other media."""
TRAINED = {slug for slug in ABLE if adapters()[slug].framework_on("cpu") in {"torch", "jax"}}


def planned(step, scenario="CV-1", slugs=tuple(ABLE), platform="cpu", given=None):
    selection = Selection(
        scenarios=(scenario,),
        adapters=slugs,
        settings={"step": step, **(given or {})},
        platform=platform,
    )
    return LoadingSuite().plan(selection, EFFORTS["check"])


def refusals(step, scenario="CV-1", platform="cpu"):
    found = planned(step, scenario, platform=platform)
    return {one.cell.adapter: one.refusal for one in found if one.refusal}


def test_adapters_with_torch_or_jax_can_train_and_no_others():
    found = refusals("mlp:5")
    assert ABLE - set(found) == TRAINED
    assert "pytorch" in TRAINED
    assert "grain" in TRAINED
    for status, cause in found.values():
        assert (status, cause.kind) == (Status.UNSUPPORTED, "lacks-framework")
        assert "--think-time-ms" in cause.action
    assert re.search("torch .* gpu", found["numpy"][1].message)
    assert "tensorflow, " in found["tfdata"][1].message


def test_only_jax_trains_on_a_tpu():
    found = refusals("mlp:5", platform="tpu")
    kept = ABLE - set(found)
    assert {adapters()[slug].framework for slug in kept} == {"jax"}
    assert re.search("torch, .* tpu", found["pytorch"][1].message)


@pytest.mark.parametrize("network", ["resnet50", "vit_b16"])
def test_a_network_of_images_is_trained_on_scenarios_that_deliver_images(network):
    with_images = {id for id, cls in scenarios().items() if cls.images}
    assert with_images == {"CV-1", "CV-3", "CV-4", "CV-6", "MM-1", "PC-2"}
    for scenario in ("CV-1", "TAB-1"):
        (one,) = planned(network, scenario, ("grain",))
        if scenario in with_images:
            assert one.refusal is None
        else:
            _, cause = one.refusal
            assert cause.kind == "lacks-step"
            assert re.search(f"{network} .*images, .*TAB-1", cause.message)


def test_a_mesh_of_devices_has_no_step():
    (one,) = planned("mlp:5", "DIST-2", ("grain",))
    assert one.refusal[1].kind == "lacks-step"


@pytest.mark.parametrize(
    ("step", "scenario", "platform", "given", "size"),
    [
        ("resnet50", "CV-1", "gpu", {}, 256),
        ("vit_b16", "MM-1", "tpu", {}, 256),
        ("resnet50", "CV-1", "gpu", {"batch_size": 32}, 32),
        ("resnet50", "CV-1", "cpu", {}, None),
        ("mlp:5", "CV-1", "gpu", {}, None),
        ("resnet50", "TAB-1", "gpu", {}, None),
    ],
)
def test_a_network_of_images_gets_256_of_them_on_an_accelerator(
    step, scenario, platform, given, size
):
    (one,) = planned(step, scenario, ("grain",), platform, given)
    assert one.cell.settings.get("batch_size") == size


def test_numpy_trains_where_its_venv_has_torch():
    (one,) = planned("resnet50", slugs=("numpy",), platform="gpu")
    assert one.refusal is None


def test_a_step_makes_another_cell():
    ((with_step,), (other,)) = (planned(step, slugs=("grain",)) for step in ("mlp:5", "mlp:6"))
    assert with_step.cell.id == other.cell.id
    assert with_step.cell.hash != other.cell.hash
