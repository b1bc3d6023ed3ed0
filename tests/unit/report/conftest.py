"""Runs to report on: the maker of `tests/data/run-v1`, and one run of every status."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from skymark.run.reader import Run, open_run

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The module that makes runs without measuring."""
    spec = importlib.util.spec_from_file_location("make_run", DATA / "make_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def saved() -> Run:
    """The run that was saved with schema version 1."""
    return open_run(DATA / "run-v1")
