"""From names to cells: variants, axes, processes, venvs, and the reasons against a cell."""

from __future__ import annotations

import dataclasses
import os
import py_compile
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from skymark.model.errors import ChangedSincePlanError, UnknownNameError, UsageError
from skymark.model.machine import platform_of
from skymark.model.plan import Selection
from skymark.resources import REQUIREMENTS, requirement_text
from skymark.suite.registry import suites
from skymark.suites.loading.adapter import ABILITIES, ADAPTERS, Abilities, Adapter, LoadingJob
from skymark.suites.loading.adapters.dali import DaliLoader
from skymark.suites.loading.bench import AdapterBench
from skymark.suites.loading.cells import (
    axis_points,
    check_axes,
    refusals_of_abilities,
    scenario_variants,
)
from skymark.suites.loading.options import LoadingSettings
from skymark.suites.loading.registry import adapters, bind_scenario, scenario_class, scenarios
from skymark.suites.loading.specification import reference_of
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.suite import LoadingSuite, venv_of
from skymark.suites.loading.tuning import EFFORTS

QUICK = EFFORTS["quick"]


def plan(*scenarios_, adapters=("numpy",), settings=None, effort=QUICK, **options):
    selection = Selection(
        scenarios=scenarios_, adapters=adapters, settings=settings or {}, options=options
    )
    return LoadingSuite().plan(selection, effort)


@pytest.fixture(autouse=True)
def forgotten_adapters():
    """Forget the adapters that a test wrote into files of its own."""
    known = set(ADAPTERS)
    yield
    for slug in set(ADAPTERS) - known:
        del ADAPTERS[slug]


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


def test_a_name_without_a_variant_gets_the_profile_s():
    found = scenario_variants("TAB-1", "medium"), scenario_variants("TAB-1:small", "medium")
    assert [[variant for _, variant in pairs] for pairs in found] == [["medium"], ["small"]]


def test_a_tiny_set_has_ten_batches_of_the_smallest_and_its_short_last_one():
    sizes = {cls: cls.sizes() for cls, _ in scenario_variants("all:tiny")}
    for cls, by_name in sizes.items():
        tiny, smallest = by_name["tiny"], cls.variants["small"]
        assert tiny.elements // tiny.batch_size == 10
        assert tiny.elements % tiny.batch_size == smallest.elements % smallest.batch_size
        assert tiny == smallest.model_copy(update={"elements": tiny.elements})
        assert list(by_name) == ["tiny", *cls.variants, "long"]


def test_all_adapters_can_be_named_beside_one_of_ones_own():
    planned = plan("TAB-1", adapters=("all", "grain@0.2.17"))
    assert {one.cell.adapter for one in planned} == {*adapters(), "grain@0.2.17"}


def test_tier_1_has_one_scenario_of_each_kind_of_question():
    expected = {"CV-1", "NLP-1", "TAB-1", "PC-1", "IO-1", "PR-2"}
    assert {cls.id for cls, _ in scenario_variants("tier-1")} == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TAB-1:smal", "'small'"),
        ("tier-9", "unknown scenario tier 'tier-9'"),
        ("TAB1", "'TAB-1'"),
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
    assert ids(planned) == ["loading.TAB-1.small.numpy"]
    assert ids(plan("PC-1", axis=["depth=1,1"])) == ["loading.PC-1.small.depth-1.numpy"]


def test_all_cells_of_everything_have_names_of_their_own():
    names = ids(plan("all", "all:medium", adapters=()))
    assert len(set(names)) == len(names)


# Axes


def test_axes_make_one_cell_per_combination_in_order():
    assert ids(plan("PC-1")) == [
        f"loading.PC-1.small.depth-{depth}.numpy" for depth in (1, 5, 10, 50)
    ]
    cls = scenario_class("PC-1")
    assert axis_points(cls, {}) == [{"depth": depth} for depth in (1, 5, 10, 50)]
    assert axis_points(cls, {"depth": (3, 2)}) == [{"depth": 3}, {"depth": 2}]
    assert axis_points(scenario_class("TAB-1"), {"depth": (3,)}) == [{}]


def test_an_axis_that_no_chosen_scenario_has_is_refused():
    with pytest.raises(UnknownNameError, match="'depth'"):
        check_axes({"dept": (1,)}, [scenario_class("PC-1")])
    with pytest.raises(UnknownNameError, match=r"axis 'depth'.*no axis"):
        check_axes({"depth": (1,)}, [scenario_class("TAB-1")])
    check_axes({"depth": (1,)}, [scenario_class("TAB-1"), scenario_class("PC-1")])


@pytest.mark.parametrize("value", ["deep", 1.0, True])
def test_an_axis_value_of_another_type_is_refused(value):
    with pytest.raises(UsageError, match="must be int"):
        check_axes({"depth": (value,)}, [scenario_class("PC-1")])


def test_an_axis_value_that_no_scenario_has_is_refused():
    with pytest.raises(UnknownNameError, match="'eager'"):
        check_axes({"mode": ("egaer",)}, [scenario_class("IO-2")])
    with pytest.raises(UsageError, match=r"depth=0 .*least 1"):
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
    assert first.cell.id == "loading.TAB-1.small.own-of-suite-tests"
    assert reference_of(first.cell) == LoadingSuite().adapter_reference(first.cell) == name
    path.write_text(source + "# another version\n")
    (second,) = plan("TAB-1", adapters=(name,))
    assert second.cell.hash != first.cell.hash


# Reasons against


class Poor(Adapter):
    slug = "poor"
    name = "Poor"
    formats = ("tar",)
    abilities: ClassVar = Abilities({"map"}, {"shard": "it knows one process only"})

    def open(self, job):
        raise NotImplementedError


def refused(cls, adapter, axes=MappingProxyType({}), **settings):
    return next(refusals_of_abilities(cls, adapter, axes, LoadingSettings(**settings)), None)


def test_a_lacking_ability_is_refused_with_the_adapters_reason():
    dist = scenario_class("DIST-1")
    axes = {name: values[-1] for name, values in dist.axis_values.items()}
    cause = refused(dist, Poor, axes)
    assert cause.kind == "lacks-ability"
    assert Poor.abilities.reasons["shard"] in cause.message


def test_a_lacking_ability_without_a_reason_is_told_in_words():
    nlp = scenario_class("NLP-2")
    cause = refused(nlp, Poor)
    lacking = nlp.requirements({}) - Poor.abilities
    assert lacking
    for ability in lacking:
        assert f"Poor does not {ABILITIES[ability]}" in cause.message


def test_an_adapter_of_operators_alone_does_no_other_scenario():
    class Native(Poor):
        abilities: ClassVar = frozenset(ABILITIES)
        native: ClassVar = frozenset({"CV-1"})
        native_only: ClassVar = "it has operators for images only"

    assert refused(scenario_class("CV-1"), Native) is None
    cause = refused(scenario_class("TAB-1"), Native)
    assert (cause.kind, cause.message) == ("lacks-ability", Native.native_only)


def test_an_adapter_of_media_alone_reads_no_rows_of_numbers():
    class Media(Poor):
        abilities: ClassVar = frozenset(ABILITIES)
        media_only: ClassVar = "it reads images only"

    assert refused(scenario_class("CV-1"), Media) is None
    cause = refused(scenario_class("TAB-1"), Media)
    assert (cause.kind, cause.message) == ("lacks-ability", Media.media_only)


def test_a_format_that_the_adapter_does_not_read_is_unsupported():
    class Able(Poor):
        abilities: ClassVar = frozenset(ABILITIES)

    tab = scenario_class("TAB-1")
    assert refused(tab, Able, format="tar") is None
    cause = refused(tab, Able, format="parquet")
    assert "'parquet'" in cause.message
    assert cause.action == "choose from tar"


HINT = "build it from source"


def by_hand(tmp_path, imports):
    """Write an adapter of a library that no package installs; returns its reference."""
    path = tmp_path / f"own_{imports.replace('.', '_')}.py"
    path.write_text(
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        f"class ByHand(NumpyReference):\n    slug = 'by-hand-{path.stem}'\n"
        f"    install_hint = {HINT!r}\n    imports = {imports!r}\n"
    )
    return f"{path}:ByHand"


def test_a_library_without_a_package_is_absent_with_the_command_unless_it_is_there(tmp_path):
    for imports in ("no_such_library_xyz.loader", "no_such_library_xyz"):
        (planned,) = plan("TAB-1", adapters=(by_hand(tmp_path, imports),))
        cause = LoadingSuite().absence(planned.cell)
        assert cause.kind == "library-absent"
        assert cause.action == HINT
    (planned,) = plan("TAB-1", adapters=(by_hand(tmp_path, "json.decoder"),))
    assert LoadingSuite().absence(planned.cell) is None


def test_what_this_machine_lacks_is_no_part_of_the_plan(tmp_path):
    """A plan is made where nothing is installed, for a machine that has it."""
    (planned,) = plan("TAB-1", adapters=(by_hand(tmp_path, "no_such_library_xyz"),))
    assert planned.refusal is None


def test_what_installs_by_itself_is_never_absent():
    (planned,) = plan("TAB-1", adapters=("grain",))
    assert LoadingSuite().absence(planned.cell) is None


# Processes, machines and times


def test_an_adapters_cells_share_a_process():
    planned = plan("TAB-1", "NLP-1", adapters=("numpy", "pytorch", "grain@0.2.17"))
    assert {one.group for one in planned} == {"numpy", "pytorch", "grain@0.2.17"}
    assert all(one.group == one.cell.adapter for one in planned)


def test_cells_of_a_users_file_are_grouped_by_the_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Grouped(NumpyReference):\n    slug = 'grouped-of-suite-tests'\n"
    )
    planned = plan("TAB-1", "NLP-1", adapters=(f"{path}:Grouped",))
    assert {one.group for one in planned} == {reference_of(planned[0].cell)}


def test_scenarios_that_measure_memory_or_start_up_have_processes_of_their_own():
    planned = plan("all", adapters=("numpy",))
    alone = [one for one in planned if scenario_class(one.cell.scenario).own_process]
    assert {one.cell.scenario for one in alone} == {
        cls.id for cls in scenarios().values() if cls.own_process
    }
    groups = [one.group for one in alone]
    assert len(set(groups)) == len(groups) > 0
    shared = [one.group for one in planned if one not in alone]
    assert set(shared) == {"numpy"}


def test_cells_that_are_compared_stay_on_one_machine():
    planned = plan("TAB-1", "PC-1", adapters=("numpy", "pytorch"))
    labels = {one.cell.label: one.shard_key for one in planned}
    assert len(set(labels.values())) == len(labels) == 5
    assert all(labels[one.cell.label] == one.shard_key for one in planned)


@pytest.mark.parametrize("effort", EFFORTS.values(), ids=EFFORTS)
def test_a_round_is_guessed_between_its_least_time_and_its_limit(effort):
    for one in plan("all", adapters=("numpy",), effort=effort):
        times = scenario_class(one.cell.scenario).times_as_long
        assert one.guess.low_s == times * effort.limits["min_seconds"]
        assert one.guess.low_s <= one.guess.expected_s <= one.guess.high_s
        assert one.guess.high_s == effort.cell_timeout_s


def test_another_machine_needs_the_users_own_files(tmp_path):
    (synthetic,) = plan("TAB-1")
    assert synthetic.local_files == ()
    path = by_hand(tmp_path, "json")
    (own,) = plan("TAB-1", adapters=(path,))
    (file,) = own.local_files
    assert (Path.cwd() / file).resolve() == (tmp_path / "own_json.py").resolve()


# Venvs


def test_an_adapter_of_skymark_has_its_pinned_venv():
    spec = venv_of("grain")
    assert (spec.name, spec.locked, spec.packages) == ("grain", "adapters/grain.txt", ())
    (planned,) = plan("TAB-1", adapters=("grain",))
    assert LoadingSuite().venv(planned.cell) == spec


def test_an_adapter_may_run_in_the_venv_of_another():
    own, other = venv_of("spdl-io"), venv_of("spdl")
    assert own == other.model_copy(
        update={
            "imports": "spdl.io",
            "variants": {
                target: spec.model_copy(update={"imports": "spdl.io"})
                for target, spec in other.variants.items()
            },
        }
    )
    assert venv_of("spdl-io@0.8.0").similar == "adapters/spdl.txt"


def test_a_version_is_resolved_beside_what_the_adapter_declares():
    spec = venv_of("grain@0.2.17")
    assert spec.name == "grain@0.2.17"
    assert spec.locked is None
    assert spec.declared == venv_of("grain").declared
    assert spec.packages == ("grain==0.2.17",)
    (planned,) = plan("TAB-1", adapters=("grain@0.2.17",))
    assert LoadingSuite().venv(planned.cell) == spec


def test_a_users_adapter_has_numpys_venv_with_its_own_requirements(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Plain(NumpyReference):\n    slug = 'plain-of-suite-tests'\n"
        "class Rich(NumpyReference):\n    slug = 'rich-of-suite-tests'\n"
        "    requirements = ('torch>=2.5',)\n"
    )
    plain = venv_of(f"{path}:Plain")
    assert (plain.locked, plain.packages) == (venv_of("numpy").locked, ())
    rich = venv_of(f"{path}:Rich")
    assert rich.name == "rich-of-suite-tests"
    assert rich.locked == "adapters/numpy.txt"
    assert rich.packages == ("torch>=2.5",)


def test_all_venvs_are_those_that_install_by_themselves():
    found = LoadingSuite().venvs()
    assert set(found) == {slug for slug, cls in adapters().items() if not cls.install_hint}
    assert LoadingSuite().venvs(["grain@0.2.17"]) == {"grain@0.2.17": venv_of("grain@0.2.17")}
    with pytest.raises(UnknownNameError, match="'grain'"):
        LoadingSuite().venvs(["grian"])


TARGETS = ("cuda12", "cuda13", "tpu")


def test_a_library_has_pins_of_its_own_where_its_builds_differ_and_the_usual_ones_elsewhere():
    grain, torch, numpy = venv_of("grain"), venv_of("pytorch"), venv_of("numpy")
    assert [grain.built_for(target).locked for target in TARGETS] == [
        "adapters/grain.gpu.txt",
        "adapters/grain.gpu-cuda13.txt",
        "adapters/grain.tpu.txt",
    ]
    # The newest torch is built for CUDA 13, and knows no TPU.
    assert torch.built_for("cuda12").locked == "adapters/pytorch.gpu.txt"
    assert torch.built_for("cuda13") == torch.built_for("tpu") == torch
    # NumPy has torch for a GPU only.
    assert [numpy.built_for(target).locked for target in (*TARGETS, "cpu")] == [
        "adapters/numpy.gpu.txt",
        "adapters/numpy.gpu-cuda13.txt",
        "adapters/numpy.txt",
        "adapters/numpy.txt",
    ]
    assert venv_of("tfdata").built_for("cuda13").locked == "adapters/tfdata.gpu.txt"
    assert all(venv_of("grain").built_for("cpu") == venv_of("grain") for _ in TARGETS)


def test_every_variant_is_pinned_by_hash_and_no_pins_are_there_twice():
    pins = REQUIREMENTS / "adapters"
    specs = [spec for suite in suites() for spec in suite.venvs().values()]
    named = {one.locked for spec in specs for one in (spec, *spec.variants.values())}
    assert {f"adapters/{path.name}" for path in pins.glob("*.txt")} == named
    texts = [(pins.parent / name).read_text() for name in named]
    assert len(set(texts)) == len(named)
    assert all("--hash=sha256:" in text and "://" not in text for text in texts)


@pytest.mark.parametrize("slug", sorted(LoadingSuite().venvs()))
def test_a_library_that_is_asked_for_an_accelerator_is_among_the_pins(slug):
    """JAX's plug-ins and TensorFlow's CUDA are packages of their own."""
    wanted = {
        ("torch", "cuda12"): ("torch==2.10",),
        ("torch", "cuda13"): ("torch==", "nvidia-cudnn-cu13=="),
        ("jax", "cuda12"): ("jax-cuda12-plugin==",),
        ("jax", "cuda13"): ("jax-cuda13-plugin==",),
        ("jax", "tpu"): ("libtpu==",),
        ("tensorflow", "cuda12"): ("tensorflow==", "nvidia-cudnn-cu12=="),
        ("tensorflow", "cuda13"): ("tensorflow==", "nvidia-cudnn-cu12=="),
        ("dali", "cuda12"): ("nvidia-dali-cuda120==", "nvidia-nvjpeg-cu12=="),
        ("dali", "cuda13"): ("nvidia-dali-cuda130==", "nvidia-nvjpeg=="),
    }
    (planned,) = plan("TAB-1", adapters=(slug,), settings={"deliver": "device"})
    for target in TARGETS:
        library = LoadingSuite().device_library(planned.cell, platform_of(target))
        locked = venv_of(slug).built_for(target).locked
        text = requirement_text(locked)
        if library is None:
            assert venv_of(slug).built_for(target) == venv_of(slug)
            continue
        for package in wanted[library.name, target]:
            assert f"\n{package}" in f"\n{text}", (slug, target, package)
        if target == "cuda12":  # in one venv they would write into the same files
            assert "-cu13==" not in text


def test_another_version_of_a_library_is_built_for_the_accelerator_too():
    spec = venv_of("tfdata@2.20.0")
    assert "tensorflow-cpu" in spec.declared
    assert spec.packages == ("tensorflow-cpu==2.20.0",)
    on_gpu = spec.built_for("cuda13")
    assert "tensorflow[and-cuda]" in on_gpu.declared
    assert "tensorflow-cpu" not in on_gpu.declared
    assert on_gpu.packages == ("tensorflow==2.20.0",)
    assert on_gpu.name == spec.name


def test_libraries_that_would_hide_an_accelerator_do_so_on_a_cpu_only():
    (planned,) = plan("TAB-1", adapters=("tfdata",))
    asked = LoadingSuite().device_library(planned.cell, "gpu")
    assert (asked.name, asked.measured) == ("tensorflow", "tensorflow")
    assert "CUDA_VISIBLE_DEVICES" not in asked.variables
    assert adapters()["tfdata"].variables_on("cpu")["CUDA_VISIBLE_DEVICES"] == "-1"
    assert adapters()["jax-dataloader"].variables_on("cpu")["JAX_PLATFORMS"] == "cpu"
    assert "JAX_PLATFORMS" not in adapters()["jax-dataloader"].variables_on("gpu")


@pytest.mark.parametrize(("platform", "expected"), [("gpu", "gpu:0"), ("cpu", None), ("tpu", None)])
def test_dali_works_on_the_gpu_of_a_platform_that_has_one(platform, expected):
    (planned,) = plan("CV-1", adapters=("dali",))
    job = LoadingJob(
        scenario=bind_scenario(planned.cell),
        dataset=None,
        storage=Path(),
        format="files",
        batch_size=8,
        platform=platform,
    )
    assert DaliLoader(job, native=True).worked_on == expected
    assert DaliLoader(job, native=False).worked_on is None
    kept_off = dataclasses.replace(job, options={"dali_device": "cpu"})
    assert DaliLoader(kept_off, native=True).worked_on is None


# What a run declares


def test_a_run_declares_the_titles_and_names_of_its_own_cells():
    cells = [one.cell for one in plan("TAB-1", adapters=("numpy", "grain@0.2.17"))]
    found = LoadingSuite().declared(cells)
    assert found.scenario_titles == {"TAB-1": scenario_class("TAB-1").title}
    assert found.adapter_name("numpy") == adapters()["numpy"].name
    assert found.adapter_name("grain@0.2.17") == f"{adapters()['grain'].name}@0.2.17"
    assert found.adapter_name("a-strangers-own") == "a-strangers-own"
    assert found.metrics == LoadingSuite().declaration.metrics


def test_a_run_of_a_scenario_that_is_no_more_declares_all_else():
    (planned,) = plan("TAB-1")
    gone = planned.cell.model_copy(update={"scenario": "OLD-1"})
    assert LoadingSuite().declared([gone, planned.cell]).scenario_title("OLD-1") is None


def test_lists_name_every_scenario_and_adapter_first():
    suite = LoadingSuite()
    assert [row["id"] for row in suite.scenarios()] == list(scenarios())
    assert [row["slug"] for row in suite.adapters()] == list(adapters())
    assert all(next(iter(row)) == "id" for row in suite.scenarios())


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


OWN = """
from skymark.suites.loading.adapters.numpy import NumpyReference
class Own(NumpyReference):
    slug = {slug!r}
{then}
"""


def write_own(path, slug="own-of-plan-tests", then=""):
    path.write_text(OWN.format(slug=slug, then=then))
    return f"{path}:Own"


USES = {
    "venv": lambda suite, cell: suite.venv(cell),
    "absence": lambda suite, cell: suite.absence(cell),
    "device": lambda suite, cell: suite.device_library(cell, "cpu"),
    "need": lambda suite, cell: suite.need(cell),
    "unprepared": lambda suite, cell: suite.unprepared([cell], Path("/nowhere")),
    "worker": lambda _, cell: AdapterBench(cell, Path("/nowhere")),
}


@pytest.mark.parametrize("use", USES)
def test_a_file_that_changed_since_the_plan_is_refused_and_not_run(tmp_path, use):
    name = write_own(tmp_path / "own.py")
    (planned,) = plan("TAB-1", adapters=(name,))
    USES[use](LoadingSuite(), planned.cell)
    write_own(tmp_path / "own.py", then=f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ChangedSincePlanError, match=r"own\.py"):
        USES[use](LoadingSuite(), planned.cell)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("digest", ["right", "absent"])
def test_a_plan_that_calls_a_file_by_another_name_is_refused(tmp_path, use, digest):
    name = write_own(tmp_path / "own.py")
    (planned,) = plan("TAB-1", adapters=(name,))
    specification = dict(planned.cell.specification)
    if digest == "absent":
        del specification["adapter_digest"]
    told = {"adapter": "numpy", "specification": specification}
    with pytest.raises(UsageError, match="plan again"):
        USES[use](LoadingSuite(), planned.cell.model_copy(update=told))


def test_a_file_cannot_take_the_name_of_skymark_s_own_adapter(tmp_path):
    name = write_own(tmp_path / "own.py", slug="numpy")
    with pytest.raises(UsageError, match="'numpy' is taken"):
        plan("TAB-1", adapters=(name,))


def test_bytecode_beside_a_file_is_not_run_in_its_place(tmp_path):
    path = tmp_path / "own.py"
    write_own(path, then=f"open({str(tmp_path / 'ran')!r}, 'w')")
    made = Path(py_compile.compile(str(path), doraise=True))
    name = write_own(path, then="#" * len(f"open({str(tmp_path / 'ran')!r}, 'w')"))
    os.utime(path, (0, int.from_bytes(made.read_bytes()[8:12], "little")))
    plan("TAB-1", adapters=(name,))
    assert not (tmp_path / "ran").exists()
