"""Finding scenarios and adapters: built in, by name, in a user's file, in another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Selection
from skymark.suites.loading.adapter import ABILITIES, ADAPTERS, Adapter, adapter, all_but
from skymark.suites.loading.registry import (
    adapter_class,
    adapter_reference,
    adapters,
    bind_scenario,
    scenario_class,
    scenarios,
)
from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.suite import LoadingSuite, axis_points
from skymark.suites.loading.tuning import EFFORTS

OWN = """
from skymark.suites.loading.adapter import Adapter

class Mine(Adapter):
    slug = "{slug}"
    name = "My loader"
    distribution = imports = "numpy"
    abilities = frozenset({{"map"}})

    def open(self, job):
        raise NotImplementedError

class NotOne:
    pass
"""


@pytest.fixture
def own(tmp_path):
    """Write an adapter file; its adapters are forgotten after the test."""
    known = dict(ADAPTERS)

    def write(text=OWN, slug="mine-of-tests", name="own.py"):
        path = tmp_path / name
        path.write_text(text.format(slug=slug) if "{slug}" in text else text)
        return path

    yield write
    for slug in set(ADAPTERS) - set(known):
        del ADAPTERS[slug]


def test_scenarios_come_by_tier_and_id_and_state_what_they_need():
    found = scenarios()
    tiers = [cls.tier for cls in found.values()]
    assert tiers == sorted(tiers)
    for id, cls in found.items():
        assert cls.id == id
        small = cls.variants["small"]
        assert small.elements >= 50 * small.batch_size, "an epoch is too short for a stream"
        for axes in axis_points(cls, {}):
            assert cls.requirements(axes) <= set(ABILITIES)


def test_adapters_state_abilities_and_reasons_that_exist():
    for slug, cls in adapters().items():
        assert cls.slug == slug
        assert cls.abilities <= set(ABILITIES)
        assert all(cls.lacks(set(ABILITIES) - cls.abilities)), slug
        assert cls.native <= set(scenarios()), slug


@pytest.mark.parametrize("name", ["TAB-1", "tab-1"])
def test_a_scenario_is_found_in_upper_or_lower_case(name):
    assert scenario_class(name).id == "TAB-1"


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("numpy", "numpy"),
        ("Google Grain", "grain"),
        ("google grain@0.2.17", "grain@0.2.17"),
        ("PYTORCH", "pytorch"),
        ("PyTorch DataLoader", "pytorch"),
    ],
)
def test_an_adapter_is_found_by_slug_or_display_name_and_keeps_its_version(name, slug):
    assert str(adapter_reference(name)) == slug
    assert adapter_class(name).slug == slug.partition("@")[0]


def test_unknown_names_name_the_nearest():
    with pytest.raises(UnknownNameError, match="'NLP-1'"):
        scenario_class("NPL-1")
    with pytest.raises(UnknownNameError, match="'grain'"):
        adapter_reference("Google Grian")
    with pytest.raises(UsageError, match="names no version"):
        adapter_reference("grain@")


def test_ids_and_slugs_are_given_once_only():
    class Again(scenario_class("TAB-1")):
        pass

    with pytest.raises(UsageError, match=r"'TAB-1' .*skymark\.suites\.loading\."):
        scenario(Again)

    class Twice(adapter_class("numpy")):
        pass

    with pytest.raises(UsageError, match=r"'numpy' .*skymark\.suites\.loading\."):
        adapter(Twice)


def test_an_ability_that_does_not_exist_is_refused():
    class Juggler(Adapter):
        slug = "juggler"
        abilities = frozenset({"map", "juggle"})

    with pytest.raises(UsageError, match=r"unknown abilities \['juggle'\]"):
        adapter(Juggler)
    assert "juggler" not in ADAPTERS


def test_sources_follow_from_formats_and_all_abilities_from_those_that_lack():
    class Tar(Adapter):
        slug, name = "tar-of-tests", "Tar"
        formats = ("http-tar", "tar")
        abilities = all_but({"seek": "it streams", "source:files": "it has shards"})

    assert Tar.abilities == {name for name in ABILITIES if ":" not in name} - {"seek"}
    assert Tar.lacks(set(ABILITIES) - {"source:memory", "source:columnar"}) == [
        "it streams",
        "it has shards",
    ]
    assert all(name in Tar.lacks(["source:memory"])[0] for name in ("Tar", *Tar.formats))


# A user's own file


def test_an_adapter_in_a_file_is_found_by_path_and_class(own, monkeypatch):
    path = own()
    monkeypatch.chdir(path.parent)
    reference = str(adapter_reference("./own.py:Mine"))
    assert reference == f"{path}:Mine"
    cls = adapter_class(reference)
    assert issubclass(cls, Adapter)
    assert adapter_class(f"{path}:Mine") is cls
    assert ADAPTERS["mine-of-tests"] is cls


def test_classes_of_a_file_can_be_pickled_by_the_name_of_their_module(own):
    import pickle

    cls = adapter_class(f"{own()}:Mine")
    assert pickle.loads(pickle.dumps(cls)) is cls


@pytest.mark.parametrize(
    ("text", "attribute", "words"),
    [
        (OWN, "Yours", "own.py 'Yours'"),
        (OWN, "NotOne", "'NotOne'"),
        ("import no_such_module_xyz\n", "Mine", "does not import.*no_such_module_xyz"),
        ("class Mine(:\n", "Mine", "does not import.*SyntaxError"),
        (OWN.replace('slug = "{slug}"', ""), "Mine", "needs a `slug`"),
        (OWN.replace("distribution = ", ""), "Mine", "needs a `distribution`"),
        (OWN.replace("imports = ", ""), "Mine", "needs a `imports`"),
    ],
)
def test_a_file_that_is_no_adapter_is_refused_with_what_is_wrong(own, text, attribute, words):
    path = own(text.replace("{slug}", "mine-of-tests").replace("{{", "{").replace("}}", "}"))
    with pytest.raises(UsageError, match=words):
        adapter_class(f"{path}:{attribute}")


def test_a_file_that_is_not_there_or_no_python_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        adapter_class(f"{tmp_path}/none.py:Mine")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(UsageError, match="no file"):
        adapter_class(f"{tmp_path}/folder.py:Mine")


def test_a_slug_that_another_adapter_has_is_refused(own):
    with pytest.raises(UsageError, match="'numpy' is taken"):
        adapter_class(f"{own(slug='numpy')}:Mine")


# Other packages

PLUGIN = OWN.replace(
    "class Mine", "from skymark.suites.loading.adapter import adapter\n@adapter\nclass Mine"
)


def listed(folder: Path, value: str) -> subprocess.CompletedProcess[str]:
    """List adapters where a package with an entry point is installed in a folder."""
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[skymark.adapters]\nmine = {value}\n")
    (folder / "plugin.py").write_text(PLUGIN.format(slug="plugged-in"))
    return subprocess.run(
        [sys.executable, "-m", "skymark", "list", "adapters", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_adapter_of_another_package_is_found_by_its_entry_point(tmp_path):
    done = listed(tmp_path, "plugin:Mine")
    assert done.returncode == 0, done.stderr
    assert "plugged-in" in [row["slug"] for row in json.loads(done.stdout)]


@pytest.mark.parametrize("value", ["plugin:Yours", "no_such_module_xyz:Mine"])
def test_an_entry_point_that_does_not_load_is_named(tmp_path, value):
    done = listed(tmp_path, value)
    assert done.returncode == 2
    assert f"'mine' of skymark.adapters ({value})" in done.stderr


# Scenario objects


def test_a_cell_gives_its_scenario_back_at_its_size_axes_and_seed():
    options = {"axis": ["depth=10"], "seed": 3}
    selection = Selection(scenarios=("PC-1",), adapters=("numpy",), options=options)
    (planned,) = LoadingSuite().plan(selection, EFFORTS["quick"])
    bound = bind_scenario(planned.cell)
    assert isinstance(bound, Scenario)
    assert (bound.id, bound.seed, dict(bound.axes)) == ("PC-1", 3, {"depth": 10})
    assert bound.size == type(bound).variants["small"]
