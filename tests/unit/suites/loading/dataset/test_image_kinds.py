"""Loaders whose own decoder gives other pixels for some images are refused by name."""

from __future__ import annotations

import re

import pytest

from skymark.model.errors import UnsupportedError
from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.adapter import ADAPTERS, OTHER_IMAGES
from skymark.suites.loading.bench import AdapterBench
from skymark.suites.loading.dataset import images
from skymark.suites.loading.registry import adapters
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS
from tests.image_modes import MODES

OWN = """
from skymark.suites.loading.adapters.numpy import NumpyReference

class Own(NumpyReference):
    slug = "own-of-image-tests"
    decodes = {"CV-1": frozenset({"JPEG", "RGBA PNG"})}
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    yield f"{path}:Own"
    ADAPTERS.pop("own-of-image-tests", None)


def photos(directory, *names):
    """Write a folder of so many images, one for each name of a mode."""
    folder = directory / "photos"
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / f"{number:03d}.jpg").write_bytes(MODES[name].file(number))
    return folder


def planned(folder, *slugs):
    selection = Selection(scenarios=("CV-1",), adapters=slugs, options={"data": str(folder)})
    return LoadingSuite().plan(selection, EFFORTS["check"])


def test_a_loader_is_refused_when_planned_by_the_name_of_the_images(tmp_path, own):
    folder = photos(tmp_path, *["JPEG"] * 18, "MPO")
    (folder / "b.png").write_bytes(MODES["PNG, RGBA"].file(1))
    (folder / "c.tif").write_bytes(MODES["TIFF, orientation 6"].file(1))
    own_cell, of_numpy = planned(folder, own, "numpy")
    status, cause = own_cell.refusal
    assert (status, cause.kind) == (Status.UNSUPPORTED, "lacks-decoder")
    assert " MPO, turned TIFF, " in cause.message
    assert "NumPy reference" in cause.message
    assert cause.action == OTHER_IMAGES
    assert of_numpy.refusal is None


def test_images_beyond_the_size_refuse_no_loader(tmp_path, own):
    folder = photos(tmp_path, *["JPEG"] * 171, "MPO")
    selection = Selection(scenarios=("CV-1:tiny",), adapters=(own,), options={"data": str(folder)})
    (cell,) = LoadingSuite().plan(selection, EFFORTS["check"])
    assert cell.data.taken == 170
    assert cell.refusal is None


def test_what_the_loader_decodes_is_not_refused(tmp_path, own):
    folder = photos(tmp_path, *["JPEG"] * 17)
    (folder / "b.png").write_bytes(MODES["PNG, RGBA"].file(1))
    (cell,) = planned(folder, own)
    assert cell.refusal is None
    AdapterBench(cell.cell, tmp_path / "cache").prepare(cell.cell)
    kinds = Storage.of_cell(tmp_path / "cache", cell.cell).dataset().image_kinds
    assert kinds == {"JPEG", "RGBA PNG"}


def test_images_that_planning_did_not_see_are_found_before_measuring(tmp_path, own, monkeypatch):
    folder = photos(tmp_path, *["JPEG"] * 17, "JPEG, grey")
    monkeypatch.setattr(images, "LOOKED_AT", 9)
    (cell,) = planned(folder, own)
    assert cell.refusal is None
    with pytest.raises(UnsupportedError, match=r"grey JPEG\b.*NumPy reference"):
        AdapterBench(cell.cell, tmp_path / "cache").prepare(cell.cell)


def test_no_loader_is_refused_for_plain_images():
    for cls in adapters().values():
        for kinds in cls.decodes.values():
            assert "JPEG" in kinds


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"JPEG", "grey JPEG"}, None),
        ({"PNG", "RGBA PNG"}, None),
        ({"JPEG", "PNG"}, r" JPEG, PNG, .*Deep Lake"),
        ({"JPEG", "CMYK JPEG"}, r"kind CMYK JPEG, .*Deep Lake"),
    ],
)
def test_deep_lake_decodes_images_of_one_format(kinds, words):
    reason = adapters()["deeplake"].undecoded("CV-1", kinds)
    assert reason is None if words is None else re.search(words, reason)
