"""Runs whose data is kept by a cache policy: built before, checked, and read in its place."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skymark.model.record import Status

RUN = (
    "run",
    "--scenarios",
    "CV-1",
    "--adapters",
    "numpy",
    "--effort",
    "check",
    "--data",
    "./photos",
)

pytestmark = pytest.mark.libraries


@pytest.fixture
def photos(tmp_path):
    """A folder of small photographs, one folder per class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / f"class-{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 50, 3), np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def variables(tmp_path):
    """Policy and root as a launched run gets them, and a cache that nothing was imported into."""
    return {
        "SKYMARK_CACHE": str(tmp_path / "cache"),
        "SKYMARK_CACHE_ROOT": str(tmp_path / "root"),
        "SKYMARK_CACHE_POLICY": "prebuilt",
    }


def test_a_folder_of_photos_is_built_before_its_run(photos, tmp_path, skymark, variables, cache):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "venvs").symlink_to(cache / "venvs")
    ran = skymark(*RUN, **variables)
    assert ran.status == 2
    assert f"skymark cache build --data {photos} --cache-policy prebuilt" in ran.stderr
    assert not ran.output.exists()
    root = variables["SKYMARK_CACHE_ROOT"]
    built = skymark("cache", "build", "--data", "./photos", "--cache-root", root)
    assert built.status == 0, built.stderr
    ran = skymark(*RUN, **variables)
    assert ran.status == 0, ran.stderr
    assert re.search(r" \./photos .*Parquet .*CV-1", ran.stderr)
    assert ran.records["loading.CV-1.small.numpy"].status is Status.OK
    assert ran.manifest.cache_policy.startswith(f"prebuilt: {root}/converted/photos-")


def test_a_run_converts_its_photos_for_itself_and_leaves_nothing(
    photos, tmp_path, skymark, variables, cache
):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "venvs").symlink_to(cache / "venvs")
    ran = skymark(*RUN, **variables | {"SKYMARK_CACHE_POLICY": "parquet"})
    assert ran.status == 0, ran.stderr
    assert f"converting {photos} to Parquet in " in ran.stderr
    assert ran.manifest.cache_policy.startswith("parquet: ")
    assert list((tmp_path / "root" / "jobs").glob("[!.]*")) == []
