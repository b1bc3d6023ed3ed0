"""Cells of a profile for an accelerator, with real libraries on a machine that has none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.cache.location import cache_directory
from skymark.execute.accelerator import ADVICE
from skymark.execute.asking import Interpreters
from skymark.execute.measurer import HOST_ONLY, Measurer
from skymark.execute.planner import load_profile, make_plan
from skymark.execute.seen_devices import copy_rates
from skymark.execute.sweeps import run_sweeps
from skymark.execute.venvs import Venvs, import_root
from skymark.machine.children import WORKER_PATH_VARIABLE
from skymark.machine.facts import has_driver
from skymark.machine.nvidia import Unit
from skymark.model.record import Status
from skymark.model.requests import Work
from skymark.rundir.directory import RunDirectory
from skymark.suites.loading.suite import LoadingSuite
from tests.scripted_suite import Witness

SUITE = LoadingSuite()


@pytest.fixture(autouse=True)
def without_an_accelerator():
    if has_driver("gpu"):
        pytest.skip("this machine has a GPU, which the libraries would see")


@pytest.fixture(autouse=True)
def skymark_is_importable(monkeypatch):
    """For interpreters of adapters' venvs that stand for one with skymark installed."""
    root = import_root(cache_directory(), SUITE.runner)
    monkeypatch.setenv(WORKER_PATH_VARIABLE, str(root))


def records_of(slug, target, python, directory):
    """Run a small cell as for an accelerator, in an interpreter that has none."""
    work = Work(scenarios=("TAB-1:small",), adapters=(slug,), effort="check")
    plan = make_plan(load_profile("ci_cpu"), work)
    effort = plan.effort.model_copy(
        update={"limits": {**plan.effort.limits, "verified_elements": 32}}
    )
    run = RunDirectory(directory, sample_columns=SUITE.declaration.sample_columns)
    interpreters = Interpreters(None, python, target)
    plan = plan.model_copy(update={"effort": effort})
    measurer = Measurer(plan, SUITE, run, cache_directory(), Witness(), interpreters)
    return run_sweeps(measurer)


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("slug", "target", "said"),
    [
        ("pytorch", "cuda12", "torch .*GPU: RuntimeError: .*NVIDIA"),
        ("grain", "cuda12", "jax .*GPU: RuntimeError: .*'gpu'"),
        ("grain", "tpu", "jax .*TPU: RuntimeError: .*'tpu'"),
        ("tfdata", "cuda13", "tensorflow .*GPU: RuntimeError: TensorFlow 2"),
        ("dali", "cuda13", "dali .*GPU: RuntimeError: Assert"),
    ],
)
def test_a_library_that_sees_no_accelerator_is_not_measured_on_the_host(
    tmp_path, slug, target, said
):
    python = Venvs(cache_directory()).ensure(SUITE.venvs([slug])[slug]).python
    (record,) = records_of(slug, target, python, tmp_path / "run")
    assert record.status is Status.FAILED
    assert record.cause.kind == "no-accelerator"
    assert re.match(said, record.cause.message)
    assert record.cause.action.startswith(ADVICE["tpu" if target == "tpu" else "gpu"])
    assert record.rounds == ()


def test_a_library_without_a_part_for_accelerators_says_that_it_works_on_the_host(tmp_path):
    (record,) = records_of("numpy", "cuda12", Path(sys.executable), tmp_path / "run")
    assert record.status is Status.OK, record.cause
    assert record.conditions["accelerator"] == HOST_ONLY
    assert record.conditions["device"] == "cpu"


ARRAYS = {
    "torch": "torch.zeros(2)",
    "jax.numpy": "jax.numpy.zeros(2)",
    "tensorflow": "tensorflow.zeros(2)",
}
PLACES = """
import json, {module}
from skymark.suites.loading.devices import devices_of
print(json.dumps(sorted(devices_of({{"a": {array}, "b": [1]}}))))
"""


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("slug", "module"), [("pytorch", "torch"), ("grain", "jax.numpy"), ("tfdata", "tensorflow")]
)
def test_every_librarys_arrays_say_where_they_lie(slug, module):
    built = Venvs(cache_directory()).ensure(SUITE.venvs([slug])[slug])
    done = subprocess.run(
        [built.python, "-c", PLACES.format(module=module, array=ARRAYS[module])],
        env={**os.environ, "PYTHONPATH": os.fspath(import_root(cache_directory()))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == ["cpu"]


@pytest.mark.libraries
@pytest.mark.parametrize(("slug", "library"), [("pytorch", "torch"), ("grain", "jax")])
def test_a_library_measures_its_copies_here_to_its_own_cpu_device(slug, library):
    python = Venvs(cache_directory()).ensure(SUITE.venvs([slug])[slug]).python
    found = copy_rates([Unit(0, "", "the CPU", None)], python, platform="cpu", size=1 << 20)
    (rates,) = found[0]
    assert rates.framework == library
    assert rates.pageable > 1e6
    assert rates.page_locked is None
    assert copy_rates([Unit(0, "", "no GPU", None)], python, size=1 << 20) == {}
