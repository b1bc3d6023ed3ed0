"""Whether an adapter can run, as `skymark list adapters` says it, and rows of several suites."""

from __future__ import annotations

import json

import pytest

from skymark.cli.listing import adapter_rows, scenario_rows, suite_rows, venv_state
from skymark.cli.main import main
from skymark.execute.venvs import MARKER, Venvs
from skymark.suite.registry import suite_named

LOADING = suite_named("loading")


def build(venvs, spec):
    """Make what looks like a finished venv."""
    place = venvs.path_of(spec)
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch()
    (place / MARKER).touch()


def test_a_venv_is_built_or_made_on_first_use(tmp_path):
    venvs = Venvs(tmp_path)
    assert "first use" in venv_state(LOADING, "numpy", None, venvs)
    build(venvs, LOADING.venvs(["numpy"])["numpy"])
    assert venv_state(LOADING, "numpy", None, venvs) == "built"


def test_a_library_without_a_package_says_what_to_run(tmp_path):
    state = venv_state(LOADING, "numpy", "make install", Venvs(tmp_path))
    assert state.endswith(": make install")


def test_an_adapter_without_pins_is_listed_with_what_writes_them(tmp_path):
    class Unpinned(type(LOADING)):
        def venvs(self, adapters=()):
            found = super().venvs(adapters).items()
            return {name: one.model_copy(update={"locked": "none.txt"}) for name, one in found}

    rows = adapter_rows([Unpinned()], Venvs(tmp_path))
    assert "`make pins`" in next(row["venv"] for row in rows if row["slug"] == "numpy")


def test_rows_say_what_each_scenario_and_adapter_can_do(tmp_path):
    scenarios = {row["id"]: row for row in scenario_rows([LOADING])}
    assert scenarios["PC-1"]["axes"] == {"depth": [1, 5, 10, 50]}
    assert scenarios["PC-1"]["variants"] == ["tiny", "small", "medium", "large", "long"]
    adapters = {row["slug"]: row for row in adapter_rows([LOADING], Venvs(tmp_path))}
    assert adapters["grain"]["name"] == "Google Grain"
    assert adapters["numpy"]["native"] == []
    assert adapters["tfdata"]["guide"] == "https://www.tensorflow.org/guide/data_performance"
    assert "; run: " in adapters["ffcv"]["venv"]
    assert "install" not in adapters["ffcv"]


def listed(capsys, *words):
    assert main(["list", *words]) == 0
    told = capsys.readouterr()
    heading, *lines = told.out.splitlines()
    assert heading.split()[:2] == [words[0], "title"]
    return {line.split()[0] for line in lines}, told.err


def test_a_list_has_two_columns_of_the_suite_of_the_profile(capsys):
    scenarios, said = listed(capsys, "scenarios")
    assert "CV-1" in scenarios
    assert not any(name.startswith("wds/") for name in scenarios)
    assert "--suite clip" in said
    of_clip, _ = listed(capsys, "scenarios", "--suite", "clip")
    assert of_clip == listed(capsys, "scenarios", "--profile", "clip")[0]
    assert "wds/vtab/cifar10" in of_clip


@pytest.mark.parametrize("kind", ["scenarios", "adapters", "profiles", "suites"])
def test_each_name_of_a_list_is_shown_with_its_details(capsys, kind):
    names, _ = listed(capsys, kind)
    for name in sorted(names)[:3]:
        assert main(["show", name]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [kind.removesuffix("s"), name] in lines
        assert len(lines) > 1


def test_a_suite_is_refused_where_it_chooses_nothing(capsys):
    assert main(["list", "profiles", "--suite", "clip"]) == 2
    assert "--suite clip" in capsys.readouterr().err


def test_json_has_all_details(capsys):
    assert main(["list", "scenarios", "--json"]) == 0
    assert all(row["needs"] for row in json.loads(capsys.readouterr().out))
    assert main(["show", "CV-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == "CV-1"


def test_an_unknown_name_is_refused_with_the_nearest(capsys):
    assert main(["show", "PC-9"]) == 2
    assert "'PC-" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("several", [True, False])
def test_rows_have_a_suite_where_there_are_several(tmp_path, sorting, several):
    chosen = [LOADING, sorting] if several else [sorting]
    scenarios, adapters = scenario_rows(chosen), adapter_rows(chosen, Venvs(tmp_path))
    assert ("suite" in scenarios[0]) == several
    assert {row.get("suite") for row in adapters} == ({"loading", "sorting"} if several else {None})
    states = {row["slug"]: row["venv"] for row in adapters}
    assert states["quick"] == "not needed"
    assert "first use" in states["heap"]
    row = suite_rows(chosen)[-1]
    assert (row["name"], row["adapters"], row["compares"]) == ("sorting", 2, ["elements_per_s"])
