"""Accelerators are asked for once for each interpreter and library, in forks that import nothing.

No accelerator is at hand here, so libraries that see one, or break, are stood in for by modules of
a few lines, which write down each import; the workers that ask them are real.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from skymark.execute.measurer import HOST_ONLY
from skymark.execute.sweeps import run_sweeps
from skymark.model.record import Status
from skymark.suite.contract import DeviceLibrary
from tests.accelerator_libraries import BLIND_JAX, BREAKING_JAX, WORKING_JAX, WORKING_TORCH
from tests.scripted_suite import EFFORT, ScriptedSuite, cell_of, plan_of

pytestmark = [
    pytest.mark.usefixtures("processes_without_coverage"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks are tried on Linux only"),
]

NOTE = "with open({imports!r}, 'a') as file: file.write(__name__ + '\\n')\n"
ASKED_FOR_MEMORY = """
import os
def devices(platform): raise RuntimeError(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"])
"""


class AskedSuite(ScriptedSuite):
    """A suite whose adapters say by their name which library they import, and are asked by it."""

    def device_library(self, cell, platform):
        _, library, *others = cell.adapter.split("-")
        if library == "none":
            return None
        variables = {"CUDA_VISIBLE_DEVICES": "0"} if "elsewhere" in others else {"OTHER": cell.id}
        return DeviceLibrary(
            name=library,
            measured="nowhere_at_all" if "absent" in others else library,
            variables=variables,
        )


@pytest.fixture
def imports(tmp_path, monkeypatch):
    """Install stand-ins; return a function for the names imported so far, one per import."""
    log, folder = tmp_path / "imports", tmp_path / "libraries"
    folder.mkdir()
    log.touch()

    def install(**sources):
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(NOTE.format(imports=str(log)) + source)

    monkeypatch.setenv("SKYMARK_WORKER_PATH", f"{folder}:{Path(__file__).with_name('worker_side')}")
    install.so_far = lambda: log.read_text().split()
    return install


def run(bed, *adapters, effort=EFFORT):
    plan = plan_of(*(cell_of(adapter) for adapter in adapters), effort=effort)
    return run_sweeps(bed.measurer(plan, suite=AskedSuite(), target="cuda12"))


def accelerators(records):
    return [record.conditions.get("accelerator") for record in records]


def test_four_adapters_of_one_interpreter_import_each_framework_once_before_the_first_round(
    bed, imports
):
    imports(torch=WORKING_TORCH, jax=WORKING_JAX)
    before = []
    bed.witness.on = lambda told: before.append((told, imports.so_far()))
    names = ["forks-torch-a", "forks-torch-b", "forks-jax-c", "forks-torch-d", "forks-none"]
    records = run(bed, *names)
    assert accelerators(records) == [
        *("2 × A Torch GPU", "2 × A Torch GPU", "A JAX GPU", "2 × A Torch GPU"),
        HOST_ONLY,
    ]
    first = next(found for told, found in before if told.startswith("measuring"))
    assert sorted(first) == ["jax", "torch"]
    assert sorted(imports.so_far()) == ["jax", "torch", "torch", "torch"], "one for each adapter"


def test_variables_that_choose_devices_make_another_question_and_others_do_not(bed, imports):
    imports(torch=WORKING_TORCH)
    told = []
    bed.witness.on = lambda text: told.append((text, imports.so_far()))
    run(bed, "forks-torch-a", "forks-torch-b", "forks-torch-c-elsewhere")
    first = next(found for text, found in told if text.startswith("measuring"))
    assert first == ["torch", "torch"]


def test_a_library_whose_process_cannot_be_forked_is_asked_in_one_that_ends(bed, imports):
    imports(torch=WORKING_TORCH)
    records = run(bed, "plain-torch-a", "plain-torch-b")
    assert accelerators(records) == ["2 × A Torch GPU"] * 2
    pids = {line["pid"] for line in bed.journal("measure")}
    assert len(pids) == 4


@pytest.mark.parametrize("process", ["forks", "plain"])
@pytest.mark.parametrize(
    ("jax", "words"),
    [
        (BLIND_JAX, "RuntimeError: Unknown backend"),
        (BREAKING_JAX, "signal 6"),
        (ASKED_FOR_MEMORY, "RuntimeError: false"),
    ],
)
def test_a_fault_ends_the_cells_of_its_library_alone(bed, imports, process, jax, words):
    imports(jax=jax, torch=WORKING_TORCH)
    blind, seeing = run(bed, f"{process}-jax-a", f"{process}-torch-b")
    assert (blind.status, blind.cause.kind) == (Status.FAILED, "no-accelerator")
    assert words in blind.cause.message
    assert (seeing.status, *accelerators([seeing])) == (Status.OK, "2 × A Torch GPU")


def test_where_what_is_measured_is_absent_the_worker_tells_and_the_next_adapter_answers(
    bed, imports
):
    imports(torch=WORKING_TORCH)
    absent, there = run(bed, "forks-torch-a-absent", "forks-torch-b")
    assert accelerators([absent, there]) == [None, "2 × A Torch GPU"]


def test_a_library_that_never_answers_is_a_fault(bed, imports, monkeypatch):
    monkeypatch.setattr("skymark.execute.preparation.SEE_TIMEOUT_S", 3.0)
    imports(jax="import time\ndef devices(platform): time.sleep(3600)")
    (record,) = run(bed, "forks-jax-a", effort=EFFORT.model_copy(update={"cell_timeout_s": 3.0}))
    assert record.cause.kind == "no-accelerator"
    assert re.match(r"jax\b.*\b3 s$", record.cause.message)


def test_what_was_seen_is_not_asked_again(bed, imports):
    imports(torch=WORKING_TORCH)
    measurer = bed.measurer(plan_of(cell_of("plain-torch-a")), suite=AskedSuite(), target="cuda12")
    again = bed.measurer(plan_of(cell_of("plain-torch-b")), suite=AskedSuite(), target="cuda12")
    again.interpreters = measurer.interpreters
    run_sweeps(measurer)
    seen = dict(measurer.interpreters.seen)
    imports(torch="raise RuntimeError('not for a question')")
    (record,) = run_sweeps(again)
    assert measurer.interpreters.seen == seen
    assert record.cause is None or record.cause.kind != "no-accelerator"
