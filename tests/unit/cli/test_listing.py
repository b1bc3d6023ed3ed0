"""Whether an adapter can run, as `skymark list adapters` says it."""

from __future__ import annotations

from skymark.cli.listing import adapter_rows, scenario_rows, venv_state
from skymark.execute.venvs import MARKER, Venvs
from skymark.suites.loading.registry import adapter_class
from skymark.suites.loading.suite import LoadingSuite


def test_an_environment_is_built_or_made_on_first_use(tmp_path):
    venvs = Venvs(tmp_path)
    numpy = adapter_class("numpy")
    assert venv_state("numpy", numpy, venvs) == "made on first use"
    place = venvs.path_of(LoadingSuite().venv("numpy"))
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch()
    (place / MARKER).touch()
    assert venv_state("numpy", numpy, venvs) == "built"


def test_a_library_without_a_package_says_what_to_run(tmp_path):
    class ByHand(adapter_class("numpy")):
        install_hint = "build it from source"

    state = venv_state("numpy", ByHand, Venvs(tmp_path))
    assert state == "not by itself; run: build it from source"


def test_an_adapter_without_pins_is_listed_with_what_writes_them(tmp_path):
    class Unpinned(adapter_class("numpy")):
        pass

    spec = LoadingSuite().venv("numpy")
    assert spec.locked
    venvs = Venvs(tmp_path)
    venvs.is_built = lambda spec: venvs.path_of(
        spec.model_copy(update={"locked": "adapters/none.txt"})
    )
    assert "`make pins` writes it" in venv_state("numpy", Unpinned, venvs)


def test_rows_say_what_each_scenario_and_adapter_can_do():
    scenarios = {row["id"]: row for row in scenario_rows()}
    assert scenarios["PC-1"]["axes"] == {"depth": [1, 5, 10, 50]}
    assert scenarios["PC-1"]["variants"] == ["small", "medium", "large"]
    adapters = {row["slug"]: row for row in adapter_rows()}
    assert adapters["grain"]["name"] == "Google Grain"
    assert adapters["numpy"]["native"] == []
