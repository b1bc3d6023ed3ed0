"""Run pytest with the interpreter of an adapter's venv and the tools of this one.

    python -m tests.in_venv clip tests/clip [OPTION …]

The venv's packages come first; pytest and what it needs come from here. Coverage is measured there
if it is here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
from tests.conftest import START_COVERAGE

START = """
import sys

sys.path.append({tools!r})
import pytest

raise SystemExit(pytest.main(sys.argv[1:]))
"""


def main() -> None:
    """Make the venv if it is not there, and run pytest in it."""
    name, *arguments = sys.argv[1:]
    spec = VenvSpec(name=name, locked=f"adapters/{name}.txt")
    venv = Venvs(cache_directory(), lambda text: print(text, file=sys.stderr)).ensure(spec)
    root = Path(__file__).parents[1]
    with TemporaryDirectory() as place:
        paths = [root / "src", root]
        coverage = find_spec("coverage")
        if "COVERAGE_PROCESS_CONFIG" in os.environ and coverage and coverage.origin:
            (Path(place) / "coverage").symlink_to(Path(coverage.origin).parent)
            start = START_COVERAGE.format(version=sys.version_info[:2])
            (Path(place) / "sitecustomize.py").write_text(start)
            paths.insert(0, Path(place))
        start = START.format(tools=sysconfig.get_path("purelib"))
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        done = subprocess.run(
            [str(venv.python), "-c", start, *arguments], env=variables, cwd=root, check=False
        )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
