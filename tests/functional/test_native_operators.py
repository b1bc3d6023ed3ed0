"""Operators of libraries' own beside the reference, tested in the venvs that have the library."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs, import_root
from skymark.suites.loading.suite import LoadingSuite

PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py", "pygments")
"""Pure Python, so that it can be lent to an environment that has no pytest."""
OPERATORS = Path(__file__).with_name("native_operators.py")


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("slug", "chosen"),
    [
        ("tfdata", "TestTensorFlow"),
        ("datarax", "TestJax"),
        ("torchvision", "TestTorchvision"),
        pytest.param("torchcodec", "TestTorchCodec", marks=pytest.mark.needs("ffmpeg")),
        pytest.param("spdl-io", "TestSpdl", marks=pytest.mark.needs("ffmpeg")),
    ],
)
def test_native_operators_do_what_the_reference_does(tmp_path, slug, chosen):
    lent = tmp_path / "lent"
    lent.mkdir()
    for name in PYTEST:
        origin = Path(find_spec(name).origin)
        module = origin.parent if origin.stem == "__init__" else origin
        (lent / module.name).symlink_to(module)
    built = Venvs(cache_directory()).ensure(LoadingSuite().venvs([slug])[slug])
    done = subprocess.run(
        [
            *(built.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--rootdir", tmp_path, "-c", os.devnull, f"{OPERATORS}::{chosen}"),
        ],
        env={
            **os.environ,
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": os.pathsep.join(map(str, (import_root(cache_directory()), lent))),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
