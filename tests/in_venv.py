"""Make a venv where it is not there, and run pytest in it.

    python -m tests.in_venv clip tests/clip [OPTION …]
    python -m tests.in_venv cloud tests/cloud [OPTION …]

SkyPilot's has a pytest. An adapter's has its interpreter and packages, which come first; pytest and
what it needs come from here, and coverage is measured there if it is here. CLIP's has frameworks
whose training loops are watched beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from uv import find_uv_bin

from skymark.cache.location import cache_directory
from skymark.cloud.own_venv import make_cloud_venv
from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
from tests.conftest import START_COVERAGE

START = """
import sys

sys.path.append({tools!r})
import pytest

raise SystemExit(pytest.main(sys.argv[1:]))
"""


ROOT = Path(__file__).parents[1]
BESIDE = {"clip": ROOT / "requirements" / "trainers.txt"}
"""Further packages of tests in an adapter's venv."""


def main() -> None:
    """Run pytest in the venv that is named first, with all other arguments."""
    name, *arguments = sys.argv[1:]
    if name == "cloud":
        run_in_cloud_venv(arguments)
    sys.exit(run_in_adapter_venv(name, arguments))


def run_in_cloud_venv(arguments: Sequence[str]) -> NoReturn:
    """Become the pytest of SkyPilot's venv."""
    python = make_cloud_venv() / "bin" / "python"
    os.chdir(ROOT)
    os.execv(python, [str(python), "-m", "pytest", *arguments])


def run_in_adapter_venv(name: str, arguments: Sequence[str]) -> int:
    """Run this venv's pytest with an adapter's interpreter and packages; its exit status."""
    spec = VenvSpec(name=name, locked=f"adapters/{name}.txt")
    venv = Venvs(cache_directory(), lambda text: print(text, file=sys.stderr)).ensure(spec)
    with TemporaryDirectory() as place:
        paths = [ROOT / "src", ROOT, *_beside(name, venv.python)]
        coverage = find_spec("coverage")
        if "COVERAGE_PROCESS_CONFIG" in os.environ and coverage and coverage.origin:
            (Path(place) / "coverage").symlink_to(Path(coverage.origin).parent)
            start = START_COVERAGE.format(version=sys.version_info[:2])
            (Path(place) / "sitecustomize.py").write_text(start)
            paths.insert(0, Path(place))
        start = START.format(tools=sysconfig.get_path("purelib"))
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        done = subprocess.run(
            [str(venv.python), "-c", start, *arguments], env=variables, cwd=ROOT, check=False
        )
    return done.returncode


def _beside(name: str, python: Path) -> list[Path]:
    """Install the further packages of an adapter's tests once, and return their directory."""
    if name not in BESIDE:
        return []
    pins = BESIDE[name]
    digest = sha256(pins.read_bytes()).hexdigest()[:12]
    directory = ROOT / "build" / f"{pins.stem}-{digest}"
    if not directory.exists():
        new = directory.with_suffix(f".{os.getpid()}")
        command = ("pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(pins))
        where = ("--python", str(python), "--target", str(new))
        subprocess.run([find_uv_bin(), *command, *where], check=True)
        new.rename(directory)
    return [directory]


if __name__ == "__main__":
    main()
