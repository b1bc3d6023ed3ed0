"""Runs to report on: the maker of `tests/data/run`, and one run of every status."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from skymark.rundir.reader import Run, open_run

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
    """The saved run."""
    return open_run(DATA / "run")


@pytest.fixture(scope="session")
def sampled(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with raw samples, whose machine has a price."""
    directory = tmp_path_factory.mktemp("sampled") / "run"
    records = [
        make.with_samples(directory, make.cell("TAB-1", name), make.rounds_of(rate, name=name))
        for name, rate in (("numpy", 60_000), ("grain", 95_000), ("pytorch", 96_000))
    ]
    run = open_run(make.write_run(directory, records))
    manifest = run.manifest.model_copy(update={"hourly_price_usd": 3.6})
    return dataclasses.replace(run, manifest=manifest)
