"""Run a module of the tests in an adapter's own venv."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs, import_root
from skymark.suites.loading.suite import LoadingSuite

ROOT = Path(__file__).parents[1]


def run_in_library(
    slug: str, module: str, *arguments: str, limit_s: float = 600, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a module with the slug and other arguments, in the venv of that adapter."""
    built = Venvs(cache_directory()).ensure(LoadingSuite().venvs([slug])[slug])
    path = os.pathsep.join(map(os.fspath, (import_root(cache_directory()), ROOT)))
    return subprocess.run(
        [built.python, "-W", "ignore", "-m", module, slug, *arguments],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
