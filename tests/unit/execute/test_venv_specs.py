"""Venvs of adapters and of plans."""

from __future__ import annotations

import pytest

from skymark.execute.planner import load_profile, make_plan
from skymark.execute.venv_specs import venvs_named, venvs_of_plan
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.requests import Work
from skymark.model.venv import VenvSpec
from skymark.suite.registry import suite_named, suites

LOADING = suite_named("loading")


class Sorts(type(LOADING)):
    """Another suite, which has one venv; its other adapter needs none."""

    name = "sorts"

    def adapters(self):
        return [{"slug": "heap"}, {"slug": "quick"}]

    def venvs(self, adapters=()):
        for name in adapters:
            if name not in {"heap", "quick"}:
                raise UnknownNameError("adapter", name, ["heap", "quick"])
        return {name: VenvSpec(name=name) for name in adapters or ["heap"] if name == "heap"}


def test_a_plan_needs_the_venvs_of_the_cells_that_will_run():
    work = Work(scenarios=("TAB-1", "DIST-1"), adapters=("numpy", "webdataset", "grain@0.2.17"))
    plan = make_plan(load_profile("ci_cpu"), work)
    found = venvs_of_plan(plan, "cpu")
    assert list(found) == ["numpy", "webdataset", "grain@0.2.17"]
    assert found["grain@0.2.17"].packages == ("grain==0.2.17",)
    on_gpu = venvs_of_plan(plan, "cuda13")
    assert list(on_gpu) == list(found)
    assert on_gpu["webdataset"] == found["webdataset"]
    assert on_gpu["numpy"].locked == "adapters/numpy.gpu-cuda13.txt"
    assert on_gpu["grain@0.2.17"].similar == "adapters/grain.gpu-cuda13.txt"


def test_a_library_that_no_package_installs_has_no_venv_to_build():
    work = Work(scenarios=("TAB-1", "CV-1"), adapters=("ffcv", "numpy"))
    plan = make_plan(load_profile("ci_cpu"), work)
    assert "ffcv" in {planned.cell.adapter for planned in plan.runnable}
    assert list(venvs_of_plan(plan, "cpu")) == ["numpy"]


def test_adapters_are_named_whatever_suite_has_them():
    suites = [LOADING, Sorts()]
    assert list(venvs_named(["Google Grain", "heap"], suites)) == ["grain", "heap"]
    everything = venvs_named([], suites)
    assert {"numpy", "grain", "heap"} <= set(everything)
    assert "ffcv" not in everything
    on_tpu = venvs_named(["grain", "heap"], suites, "tpu")
    assert [one.locked for one in on_tpu.values()] == ["adapters/grain.tpu.txt", None]


def test_a_name_that_no_suite_has_is_an_error_with_the_nearest_of_all():
    with pytest.raises(UnknownNameError, match="'numpy'"):
        venvs_named(["numyp"], [LOADING])
    with pytest.raises(UnknownNameError, match="'heap'"):
        venvs_named(["haep"], [LOADING, Sorts()])


@pytest.mark.parametrize("name", ["numpy", "ViT-B-32:laion2b_s34b_b79k"])
def test_an_installed_suite_that_has_no_such_adapter_leaves_it_to_the_others(name):
    assert list(venvs_named([name], suites())) == [name]


def test_a_name_that_no_installed_suite_has_is_told_its_nearest_among_hundreds():
    with pytest.raises(UnknownNameError, match="'numpy'") as raised:
        venvs_named(["numyp"], suites())
    assert "`skymark list adapters`" in str(raised.value)


def test_an_adapter_that_needs_no_venv_is_an_error_that_says_so():
    with pytest.raises(UsageError, match=r"'quick'.*\bbuild"):
        venvs_named(["quick"], [Sorts()])
