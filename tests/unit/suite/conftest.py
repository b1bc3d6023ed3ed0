"""Packages with suites, installed for one test."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skymark import resources
from skymark.suite import registry
from tests.installed_suite import SORTING_SUITE, install_into


def forget() -> None:
    """Have the registry look again."""
    resources._extensions.cache_clear()
    registry._entry_points.cache_clear()
    registry.suite_named.cache_clear()


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leave no suite of a test to the next one."""
    forget()
    yield
    forget()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path, for installed packages."""
    directory = tmp_path / "site-packages"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    yield directory
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(directory)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package of the suite that sorts."""
    directory = tmp_path_factory.mktemp("sorting")
    install_into(SORTING_SUITE, directory)
    return directory


@pytest.fixture
def sorting(site: Path, built: Path) -> Path:
    """Install the suite that sorts; returns where."""
    shutil.copytree(built, site, dirs_exist_ok=True)
    forget()
    return site


@pytest.fixture
def declare(site: Path) -> Callable[..., None]:
    """Install a package of one module, which says that it has a suite."""

    def call(package: str, suite: str, module: str | None, *, name: str = "TheSuite") -> None:
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[skymark.suites]\n{suite} = {package}:{name}\n")
        if module is not None:
            (site / f"{package}.py").write_text(module)
        forget()

    return call
