"""A GPU that is lost in a round: the cells that need it end at once, and a later run goes on.

No GPU is here: the driver's library is a stand-in, and so is the torch that sees the GPU. The
engine, its workers and their ends are real.
"""

from __future__ import annotations

import os
import time
from threading import Thread

import pynvml
import pytest

from skymark.execute.sweeps import run_sweeps
from skymark.model.record import Status
from skymark.suite.contract import DeviceLibrary
from tests.nvml.stand_in import H100
from tests.scripted_suite import EFFORT, ScriptedSuite, cell_of, plan_of
from tests.unit.execute.test_accelerator import WORKING_TORCH
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

ONE_ROUND = EFFORT.model_copy(update={"min_rounds": 1, "max_rounds": 1, "cell_timeout_s": 300.0})


class OnGpu(ScriptedSuite):
    """A suite whose adapters compute on the GPU, all but one."""

    def device_library(self, cell, platform):
        return None if cell.adapter == "host" else DeviceLibrary(name="torch", measured="torch")


@pytest.fixture
def gpu_bed(bed, driver, tmp_path, monkeypatch):
    """A bed on a machine with a GPU."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "torch.py").write_text(WORKING_TORCH)
    paths = (str(tmp_path / "libraries"), os.environ["SKYMARK_WORKER_PATH"])
    monkeypatch.setenv("SKYMARK_WORKER_PATH", os.pathsep.join(paths))
    driver.has(H100)
    return bed


def ends(records):
    return {one.cell.adapter: (one.status, one.cause and one.cause.kind) for one in records}


def measured(bed):
    """The adapters of the rounds that began, in order."""
    return [line["adapter"] for line in bed.journal("measure")]


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_lost_gpu_ends_the_cells_that_need_it_at_once_and_a_later_run_goes_on(
    gpu_bed, driver, error
):
    cells = [cell_of("a"), cell_of("b", does="hang"), cell_of("c"), cell_of("host")]
    plan = plan_of(*cells, effort=ONE_ROUND)

    def lose() -> None:
        until(lambda: "b" in measured(gpu_bed), what="the round in which the GPU is lost")
        driver.lose(0, error)

    loss = Thread(target=lose)
    loss.start()
    begin = time.monotonic()
    records = run_sweeps(gpu_bed.measurer(plan, suite=OnGpu(), target="cuda12"))
    loss.join()
    assert time.monotonic() - begin < ONE_ROUND.cell_timeout_s / 2
    lost = (Status.FAILED, "gpu-lost")
    assert ends(records) == {
        "a": (Status.OK, None),
        "b": lost,
        "c": lost,
        "host": (Status.OK, None),
    }
    assert "GPU 0: GPU " in records[1].cause.message
    assert "--resume --retry failed" in records[1].cause.action
    assert [line["adapter"] for line in gpu_bed.journal("measure")] == ["a", "b", "host"]
    driver.has(H100)
    again = plan_of(cells[0], cell_of("c"), cells[3], effort=ONE_ROUND)
    records = run_sweeps(
        gpu_bed.measurer(again, suite=OnGpu(), target="cuda12"), retry={Status.FAILED}
    )
    assert {status for status, _ in ends(records).values()} == {Status.OK}
    assert [line["adapter"] for line in gpu_bed.journal("measure")][3:] == ["c"]


def test_cudas_word_for_a_broken_device_ends_them_too(gpu_bed, driver):
    cells = [cell_of("a", does="ecc"), cell_of("b"), cell_of("c", does="raise")]
    records = run_sweeps(
        gpu_bed.measurer(plan_of(*cells, effort=ONE_ROUND), suite=OnGpu(), target="cuda12")
    )
    assert {kind for _, kind in ends(records).values()} == {"gpu-lost"}
    assert "uncorrectable ECC error" in records[1].cause.message


def test_an_adapters_own_mistake_on_a_sound_gpu_is_no_loss(gpu_bed, driver):
    cells = [cell_of("a", does="raise"), cell_of("b")]
    records = run_sweeps(
        gpu_bed.measurer(plan_of(*cells, effort=ONE_ROUND), suite=OnGpu(), target="cuda12")
    )
    assert [one.status for one in records] == [Status.FAILED, Status.OK]
    assert records[0].cause.kind == "RuntimeError"


def test_the_record_has_what_the_driver_told_of_the_gpu_and_warns_of_throttling(gpu_bed, driver):
    driver.has(H100 | {"clock-reasons": 0x40, "energy-rate": 500_000})
    (record,) = run_sweeps(
        gpu_bed.measurer(plan_of(cell_of("a"), effort=ONE_ROUND), suite=OnGpu(), target="cuda12")
    )
    (use,) = record.rounds[0].resources.gpus
    assert use.name == H100["name"]
    assert use.board_energy_j > 0
    assert "gpu-throttled" in {one.kind for one in record.warnings}
    assert record.conditions["accelerator"] == "2 × A Torch GPU"
