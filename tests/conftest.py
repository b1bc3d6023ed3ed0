"""The tests of `make test`, a lock and a cache for tests alone, and tests side by side."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.nvml.stand_in import driver, driver_library

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

__all__ = ["driver", "driver_library"]  # fixtures

CORE_FOLDERS = ("tests/unit/", "tests/processes/")
"""Folders whose tests `make test` runs, besides those marked `core`."""
BROWSERS = ("chromium", "google-chrome", "chrome")
NEEDS: dict[str, tuple[Callable[[], object], str]] = {
    "root": (lambda: os.geteuid() == 0, "only root may do this"),
    "compiler": (lambda: shutil.which("cc"), "needs a C compiler: apt-get install gcc"),
    "browser": (
        lambda: any(map(shutil.which, BROWSERS)),
        "needs a browser: apt-get install chromium",
    ),
    "ffmpeg": (
        lambda: find_library("avdevice"),
        "torchcodec and SPDL need FFmpeg's shared libraries: apt-get install ffmpeg",
    ),
    "rsync": (lambda: shutil.which("rsync"), "needs rsync: apt-get install rsync"),
    "ssh": (lambda: shutil.which("ssh"), "needs ssh: apt-get install openssh-client"),
}
"""Parts of a machine that tests are marked with: whether this one has them, and advice if not."""
ELSEWHERE = {"needs", "libraries"}
"""Markers of tests that `make test` leaves to `make test-all`."""

APART = {"tests/functional/test_libraries.py"}
"""Files whose tests take minutes each and share nothing, so that any process may run any."""

CLOUD = "tests/cloud/"
CLOUDS_OF_THEIR_OWN = {
    f"{CLOUD}test_{name}.py"
    for name in (
        "rehearsal_readme",
        "leftovers",
        "machine",
        "machine_timer",
        "managed",
        "orders",
        "prices",
        "provider_list",
        "rehearse",
        "render_sky",
        "sky_ignore",
        "screen",
        "slurm_arrays",
        "strangers_server",
        "user_tasks",
    )
}
"""Files that need no simulated cloud, or make one; all others share that of their process."""

FIRST = {
    f"{CLOUD}test_slurm_arrays.py",
    "tests/stores/wandb_store/test_outages.py",
    "tests/unit/cloud/test_machine_timer.py",
    "tests/unit/cloud/lifecycle/test_ending.py",
    "tests/unit/suites/loading/scenarios/test_images_and_chains.py",
}
"""Files begun first: their tests mostly wait, or take long, and would go on when all else has
ended. Slurm's need no runtime of SkyPilot, which the shared cloud's first machine makes for all
others."""

# Thousands of processes start here, and each would compile anew what it imports; each process of
# pytest so the tests, which takes as long again as importing them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A run of skymark on this machine changes nothing that tests read.
os.environ.setdefault("SKYMARK_CACHE", str(Path.home() / ".cache" / "skymark-tests"))
# What a shell runs in the background ignores Ctrl-C, which tests send to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

MEASURED = "COVERAGE_PROCESS_CONFIG"
"""The variable by which coverage begins in processes that the tests start."""

START_COVERAGE = """
import os
import sys
import threading

def stop_tracing():
    sys.settrace(None)
    threading.settrace(None)

# Coverage's compiled part fits this Python only.
if "COVERAGE_PROCESS_CONFIG" in os.environ and sys.version_info[:2] == {version}:
    import coverage

    coverage.process_startup()
    os.register_at_fork(after_in_child=stop_tracing)  # what a fork runs is never written
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "page to write the table of all faults into"
    parser.addoption("--fault-table", type=lambda name: Path(name).absolute(), help=help)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in FIRST)
    for item in items:
        if "driver_library" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("compiler"))
        for part in (part for mark in item.iter_markers("needs") for part in mark.args):
            is_here, advice = NEEDS[part]
            if not is_here():
                item.add_marker(pytest.mark.skip(reason=advice))
        if item.nodeid.startswith(CORE_FOLDERS) and not ELSEWHERE & {*item.keywords}:
            item.add_marker("core")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Keep together the tests that share fixtures: of a file, or those of the shared cloud."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if file in APART:
                return nodeid
            shares = file.startswith(CLOUD) and file not in CLOUDS_OF_THEIR_OWN
            return CLOUD if shares else file

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def lock_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wait for no run of skymark on this machine, and let none wait."""
    os.environ["SKYMARK_LOCK"] = str(tmp_path_factory.mktemp("lock") / "machine.lock")


@pytest.fixture(scope="session", autouse=True)
def coverage_in_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let workers, which run in environments without coverage, load it from this one."""
    spec = find_spec("coverage")
    if MEASURED not in os.environ or spec is None or spec.origin is None:
        return
    directory = tmp_path_factory.mktemp("worker-path")
    (directory / "coverage").symlink_to(Path(spec.origin).parent)
    (directory / "sitecustomize.py").write_text(START_COVERAGE.format(version=sys.version_info[:2]))
    os.environ["SKYMARK_WORKER_PATH"] = str(directory)


@pytest.fixture
def processes_without_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes without coverage, which doubles what each costs.

    For tests whose processes run nothing that others of tests/processes and tests/stores do not.
    """
    monkeypatch.delenv(MEASURED, raising=False)


@pytest.fixture(scope="session")
def cache() -> Path:
    """The cache of all tests on this machine, so that nothing is built twice."""
    from skymark.cache.location import cache_directory

    return cache_directory()
