"""From names to cells: variants, axes, environments, and the reasons why a cell cannot be run."""

from __future__ import annotations

from typing import ClassVar

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.adapter import ABILITIES, Adapter
from skymark.suites.loading.registry import adapters, scenario_class, scenarios
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.suite import (
    LoadingSuite,
    axis_points,
    check_axes,
    refusal,
    scenario_variants,
)


def plan(*scenarios_, adapters=("numpy",), **fields):
    selection = Selection(scenarios=scenarios_, adapters=adapters, **fields)
    return LoadingSuite().plan(selection)


def ids(planned):
    return [one.cell.id for one in planned]


# Names


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("TAB-1", [("TAB-1", "small")]),
        ("tab-1:medium", [("TAB-1", "medium")]),
        ("tier-1:large", [(id, "large") for id, cls in scenarios().items() if cls.tier == 1]),
        ("all", [(id, "small") for id in scenarios()]),
    ],
)
def test_scenarios_are_named_by_id_tier_or_all_with_a_variant(name, found):
    assert [(cls.id, variant) for cls, variant in scenario_variants(name)] == found


def test_tier_1_is_what_the_profile_for_continuous_integration_runs():
    expected = {"CV-1", "NLP-1", "TAB-1", "PC-1", "IO-1", "PR-2"}
    assert {cls.id for cls, _ in scenario_variants("tier-1")} == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TAB-1:smal", "unknown variant of TAB-1 'smal'. Did you mean 'small'?"),
        ("tier-9", "unknown scenario tier 'tier-9'"),
        ("TAB1", "Did you mean 'TAB-1'?"),
    ],
)
def test_wrong_names_are_refused_with_the_nearest(name, words):
    with pytest.raises(UnknownNameError) as caught:
        plan(name)
    assert words in str(caught.value)


def test_nothing_chosen_is_all_of_tier_1_on_all_adapters():
    planned = plan(adapters=())
    assert {one.cell.adapter for one in planned} == set(adapters())
    assert {one.cell.scenario for one in planned} == {
        cls.id for cls, _ in scenario_variants("tier-1")
    }


def test_a_cell_is_planned_once_however_often_it_is_named():
    planned = plan("TAB-1", "tab-1:small", adapters=("numpy", "NumPy reference", "numpy"))
    assert ids(planned) == ["TAB-1.small.numpy"]
    assert ids(plan("PC-1", axes={"depth": (1, 1)})) == ["PC-1.small.depth-1.numpy"]


def test_all_cells_of_everything_have_names_of_their_own():
    names = ids(plan("all", "all:medium", adapters=()))
    assert len(set(names)) == len(names)


# Axes


def test_axes_make_one_cell_per_combination_in_order():
    assert ids(plan("PC-1")) == [f"PC-1.small.depth-{depth}.numpy" for depth in (1, 5, 10, 50)]
    cls = scenario_class("PC-1")
    assert axis_points(cls, {}) == [{"depth": depth} for depth in (1, 5, 10, 50)]
    assert axis_points(cls, {"depth": (3, 2)}) == [{"depth": 3}, {"depth": 2}]
    assert axis_points(scenario_class("TAB-1"), {"depth": (3,)}) == [{}]


def test_an_axis_that_no_chosen_scenario_has_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'depth'"):
        check_axes({"dept": (1,)}, [scenario_class("PC-1")])
    with pytest.raises(UnknownNameError, match="these scenarios have no axis"):
        check_axes({"depth": (1,)}, [scenario_class("TAB-1")])
    check_axes({"depth": (1,)}, [scenario_class("TAB-1"), scenario_class("PC-1")])


@pytest.mark.parametrize("value", ["deep", 1.0, True])
def test_an_axis_value_of_another_type_is_refused(value):
    with pytest.raises(UsageError, match="must be int"):
        check_axes({"depth": (value,)}, [scenario_class("PC-1")])


def test_an_axis_value_that_no_scenario_has_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'eager'"):
        check_axes({"mode": ("egaer",)}, [scenario_class("IO-2")])
    with pytest.raises(UsageError, match="depth=0 must be at least 1"):
        check_axes({"depth": (1, 0)}, [scenario_class("PC-1")])
    check_axes(
        {"depth": (3,), "source": ("tar",)}, [scenario_class("PC-1"), scenario_class("IO-1")]
    )


# What a cell holds


def test_a_cell_holds_all_that_decides_the_measurement():
    (planned,) = plan("TAB-1:medium", settings={"workers": 0}, seed=3)
    cell = planned.cell
    assert cell.settings == {"workers": 0}
    assert cell.specification["seed"] == 3
    assert cell.specification["size"] == scenario_class("TAB-1").variants["medium"].model_dump()
    assert {"scenario_version", "adapter_version"} <= set(cell.specification)
    assert plan("TAB-1:medium", settings={"workers": 0}, seed=4)[0].cell.hash != cell.hash


def test_a_users_adapter_is_hashed_with_its_source(tmp_path):
    path = tmp_path / "own.py"
    source = (
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Own(NumpyReference):\n    slug = 'own-of-suite-tests'\n"
    )
    path.write_text(source)
    name = f"{path}:Own"
    (first,) = plan("TAB-1", adapters=(name,))
    assert first.cell.id == "TAB-1.small.own-of-suite-tests"
    assert first.cell.reference == name
    path.write_text(source + "# another version\n")
    (second,) = plan("TAB-1", adapters=(name,))
    assert second.cell.hash != first.cell.hash


# Reasons against


class Poor(Adapter):
    slug = "poor"
    name = "Poor"
    formats = ("tar",)
    abilities: ClassVar = frozenset({"map"})
    limits: ClassVar = {"shard": "it knows one process only"}

    def open(self, job):
        raise NotImplementedError


def test_a_lacking_ability_makes_the_cell_unsupported_with_the_adapters_reason():
    dist = scenario_class("DIST-1")
    axes = {name: values[-1] for name, values in dist.axis_values.items()}
    status, cause = refusal(dist, Poor, axes, {})
    assert status is Status.UNSUPPORTED
    assert "it knows one process only" in cause.message


def test_a_lacking_ability_without_a_reason_is_told_in_words():
    nlp = scenario_class("NLP-2")
    _, cause = refusal(nlp, Poor, {}, {})
    lacking = nlp.requirements({}) - Poor.abilities
    assert lacking
    for ability in lacking:
        assert f"the adapter does not {ABILITIES[ability]}" in cause.message


def test_a_format_that_the_adapter_does_not_read_is_unsupported():
    class Able(Poor):
        abilities: ClassVar = frozenset(ABILITIES)

    tab = scenario_class("TAB-1")
    assert refusal(tab, Able, {}, {"format": "tar"}) is None
    status, cause = refusal(tab, Able, {}, {"format": "parquet"})
    assert status is Status.UNSUPPORTED
    assert "'parquet'" in cause.message
    assert cause.action == "choose from tar"


def test_a_library_without_a_package_is_skipped_with_the_command_unless_it_is_there():
    class ByHand(Poor):
        abilities: ClassVar = frozenset(ABILITIES)
        install_hint = "build it from source"
        imports = "no_such_library_xyz.loader"

    tab = scenario_class("TAB-1")
    status, cause = refusal(tab, ByHand, {}, {})
    assert status is Status.SKIPPED
    assert cause.action == "build it from source"
    ByHand.imports = "json.decoder"
    assert refusal(tab, ByHand, {}, {}) is None


# Venvs


def test_an_adapter_of_skymark_has_its_pinned_environment():
    spec = LoadingSuite().venv("grain")
    assert (spec.name, spec.locked, spec.packages) == ("grain", "adapters/grain.txt", ())


def test_a_version_is_resolved_beside_what_the_adapter_declares():
    spec = LoadingSuite().venv("grain@0.2.17")
    assert spec.name == "grain@0.2.17"
    assert spec.locked is None
    assert spec.declared == "adapters/grain.in"
    assert spec.packages == ("grain==0.2.17",)


def test_a_users_adapter_has_numpys_environment_with_its_own_requirements(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Plain(NumpyReference):\n    slug = 'plain-of-suite-tests'\n"
        "class Rich(NumpyReference):\n    slug = 'rich-of-suite-tests'\n"
        "    requirements = ('torch>=2.5',)\n"
    )
    plain = LoadingSuite().venv(f"{path}:Plain")
    assert plain == LoadingSuite().venv("numpy")
    rich = LoadingSuite().venv(f"{path}:Rich")
    assert rich.name == "rich-of-suite-tests"
    assert rich.locked == "adapters/numpy.txt"
    assert rich.packages == ("torch>=2.5",)


# Data


def test_cells_are_unprepared_until_their_data_is_there_in_their_format(tmp_path):
    cells = [
        *(one.cell for one in plan("TAB-1", settings={"format": "parquet"})),
        *(one.cell for one in plan("TAB-1")),
    ]
    suite = LoadingSuite()
    assert suite.unprepared(cells, tmp_path) == cells
    Storage.of_cell(tmp_path, cells[1]).dataset()
    assert suite.unprepared(cells, tmp_path) == cells[:1]
    parquet, numpy = Storage.of_cell(tmp_path, cells[0]), adapters()["numpy"]
    parquet.prepare(numpy(), "parquet")
    assert suite.unprepared(cells, tmp_path) == []
