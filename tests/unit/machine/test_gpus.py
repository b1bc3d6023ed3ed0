"""GPUs as NVML tells of them: their state, and each fault with its kind and its advice."""

from __future__ import annotations

import os
import re
import sys

import pynvml
import pytest

from skymark.machine import gpu_fitness, nvidia
from skymark.machine.facts import accelerators, driver_version
from skymark.machine.gpu_fitness import CopyRates, age_faults, driver_faults, gpu_faults
from skymark.machine.nvidia import lost_gpu, nvidia_driver, visible_units
from skymark.model.machine import Accelerator
from tests.nvml.stand_in import GIB, H100

SLICE = {
    "mig": 1,
    "slices": 7,
    "slice1.uuid": "MIG-aaaa",
    "slice1.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "slice1.memory": 9856 << 20,
    "slice1.memory-used": 0,
    "slice2.uuid": "MIG-bbbb",
    "slice2.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "slice2.memory": 9856 << 20,
    "slice2.memory-used": 0,
}


def faults(driver, copies=None):
    """What is found wrong with the GPUs that the driver tells of."""
    found = nvidia_driver()
    return [*driver_faults(found), *gpu_faults(found.gpus, copies or {})]


def test_a_gpu_is_told_as_the_driver_has_it(driver):
    driver.has(H100 | {"processes": f"{os.getpid()}:{3 * GIB}", "memory-used": 3 * GIB})
    found = nvidia_driver()
    assert (found.version, found.cuda, found.fault) == ("580.65.06", "13.0", None)
    (gpu,) = found.gpus
    assert (gpu.title, gpu.name) == ("GPU 0", "NVIDIA H100 80GB HBM3")
    assert gpu.memory_free_bytes == (81559 << 20) - 3 * GIB
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c) == (71.5, 700.0, 33)
    assert (gpu.sm_clock_mhz, gpu.memory_clock_max_mhz) == (1980, 2619)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, False, True)
    assert (gpu.pcie_generation, gpu.pcie_width_max) == (5, 16)
    assert gpu.clock_reasons == ("idle",)
    (process,) = gpu.processes
    assert process.pid == os.getpid()
    assert process.text.startswith(f"pid {os.getpid()} (p")


def test_without_the_bindings_a_gpu_is_unknown_and_the_advice_installs_them(
    driver, monkeypatch, tmp_path
):
    driver.has(H100)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(nvidia.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(nvidia, "DEVICE_FILE", tmp_path / "nvidiactl")
    assert (nvidia_driver(), visible_units(), lost_gpu()) == (None, [], None)
    nvidia.DEVICE_FILE.touch()
    (fault,) = driver_faults(nvidia_driver())
    assert fault.kind == "driver-not-asked"
    assert "nvidia-ml-py" in fault.action


def test_a_gpu_without_a_fault_has_none(driver):
    driver.has(H100)
    assert faults(driver) == []


def test_what_the_driver_does_not_tell_is_missing_and_no_fault(driver):
    driver.has({"name": "Old GPU"}, driver="470.82.01", cuda=None)
    found = nvidia_driver()
    assert (found.version, found.cuda) == ("470.82.01", None)
    told = found.gpus[0].model_dump(exclude_none=True)
    assert told == {"index": 0, "name": "Old GPU", "slices": ()}
    assert faults(driver) == []


SLOW = {0: [CopyRates(framework="torch", page_locked=12.1e9)]}
FAST = {0: [CopyRates(framework="jax"), CopyRates(framework="torch", page_locked=55.2e9)]}
FULL = {"memory-used": 61 * GIB, "processes": f"4242:{61 * GIB}"}
TABLE = [
    ("gpu-in-use", {"memory-used": 30 * GIB}, "32.2 GB of 85.5 GB"),
    ("gpu-in-use", {"processes": f"1:{GIB}", "memory-used": GIB}, r"\bpid 1 \("),
    ("gpu-full", FULL, "GPU 0: 65.5 GB of 85.5 GB .*pid 4242"),
    ("gpu-throttled", {"clock-reasons": 0x4}, "GPU 0 .*: power limit"),
    ("gpu-throttled", {"clock-reasons": 0x8}, ": hardware slowdown"),
    ("gpu-throttled", {"clock-reasons": 0x60}, "temperature, temperature, hardware limit"),
    ("gpu-throttled", {"clock-reasons": 0x80}, "power brake"),
    ("gpu-power-limit", {"power-limit": 350_000}, "may take 350 of its 700 W"),
    ("gpu-clocks-set", {"clock-reasons": 2, "sm-clock": 1200}, "1200 of 1980"),
    ("gpu-hot", {"temperature": 88}, "88 °C.* 92 °C"),
    ("gpu-memory-errors", {"ecc-uncorrected": 3}, "3 errors"),
    ("gpu-persistence-off", {"persistence": 0}, "first use"),
    ("gpu-pcie-width", {"pcie-width": 8}, "x8 of x16"),
    ("gpu-pcie-generation", {"pcie-generation": 3, "clock-reasons": 0}, "generation 3 of 5"),
    ("gpu-slice", SLICE, "NVIDIA H100 80GB HBM3 MIG 1g.10gb, "),
    ("mig-empty", {"mig": 1}, "MIG mode"),
    ("gpu-lost", {"error": pynvml.NVML_ERROR_GPU_IS_LOST}, "GPU 0: GPU is lost"),
    ("gpu-lost", {"error": pynvml.NVML_ERROR_RESET_REQUIRED}, "GPU 0: GPU requires restart"),
]


@pytest.mark.parametrize(("kind", "differs", "said"), TABLE)
def test_each_fault_of_a_gpu_has_a_kind_its_figures_and_advice(driver, kind, differs, said):
    driver.has(H100 | differs)
    (fault,) = faults(driver)
    assert fault.kind == kind
    assert re.search(said, fault.message)
    assert any(word in fault.action for word in ("choose", "nvidia-smi", "compare"))


def test_copies_that_are_far_below_the_rate_of_the_link_are_a_fault(driver):
    driver.has(H100)
    (fault,) = faults(driver, SLOW)
    assert fault.kind == "gpu-slow-copies"
    for value in ("12.1 GB/s", "63.0 GB/s", "PCIe 5 x16"):
        assert value in fault.message
    assert faults(driver, FAST) == []


def test_an_idle_link_in_a_lower_generation_is_no_fault(driver):
    driver.has(H100 | {"pcie-generation": 1})
    assert faults(driver) == []


def test_a_driver_that_does_not_fit_its_library_is_a_fault_and_an_absent_one_is_none(driver):
    driver.has(H100, init=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    (fault,) = faults(driver)
    assert fault.kind == "driver-mismatch"
    assert "restart the machine" in fault.action
    assert accelerators() is None
    driver.has(H100, init=pynvml.NVML_ERROR_UNKNOWN)
    (fault,) = faults(driver)
    assert (fault.kind, "`nvidia-smi`" in fault.action) == ("driver-fault", True)
    driver.has(init=None, driver=None)
    assert nvidia_driver() is None
    assert visible_units({}) == []


@pytest.mark.parametrize(
    ("version", "cuda", "builds", "too_old"),
    [
        ("535.183.06", "12.2", {"torch": 13}, True),
        ("535.183.06", None, {"torch": 13}, True),
        ("470.82.01", "11.4", {"torch": 12}, True),
        ("470.82.01", None, {"torch": 12}, True),
        ("535.183.06", "12.2", {"torch": 12}, False),
        ("580.65.06", "13.0", {"torch": 12, "jax": 13}, False),
        # The libraries of CUDA's package for compatibility run a newer CUDA on an older driver.
        ("535.183.06", "13.0", {"torch": 13}, False),
        (None, None, {"torch": 13}, False),
        ("470.82.01", "11.4", {}, False),
    ],
)
def test_a_driver_older_than_a_build_of_cuda_needs_is_a_fault(version, cuda, builds, too_old):
    found = list(age_faults(version, cuda, builds))
    assert [one.kind for one in found] == ["driver-too-old"] * too_old
    if too_old:
        assert f"built for CUDA {builds['torch']}" in found[0].message
        assert f"driver {gpu_fitness.LEAST_DRIVER[builds['torch']]} or newer" in found[0].action


@pytest.mark.parametrize(
    ("version", "needs", "major"),
    [
        ("2.10.0", ["nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'"], 12),
        (
            "2.15.0",
            ["sympy", "cuda-toolkit[cublas,cudart]==13.2.2; platform_system == 'Linux'"],
            13,
        ),
        ("2.9.1+cu130", [], 13),
        ("2.9.1", ["nvidia-cuda-runtime==13.0.48"], 13),
        ("2.9.1+cpu", ["sympy>=1.13"], None),
    ],
)
def test_the_cuda_that_torch_is_built_for_is_in_its_metadata(monkeypatch, version, needs, major):
    def of(found):
        def asked(name):
            if name != "torch":
                raise gpu_fitness.metadata.PackageNotFoundError(name)
            return found

        return asked

    monkeypatch.setattr(gpu_fitness.metadata, "version", of(version))
    monkeypatch.setattr(gpu_fitness.metadata, "requires", of(needs))
    assert gpu_fitness.cuda_builds() == ({} if major is None else {"torch": major})


def test_the_machine_has_the_gpus_that_the_driver_names_and_slices_in_place_of_a_cut_one(driver):
    driver.has(H100, H100 | SLICE)
    whole = Accelerator(name=H100["name"], memory_bytes=81559 << 20, driver="580.65.06")
    part = Accelerator(name=SLICE["slice1.name"], memory_bytes=9856 << 20, driver="580.65.06")
    assert accelerators() == (whole, part, part)
    assert driver_version() == "580.65.06"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-0", "GPU-1"]),
        ("1", ["GPU-1"]),
        ("1,0", ["GPU-1", "GPU-0"]),
        ("1,7,0", ["GPU-1"]),
        ("GPU-0", ["GPU-0"]),
        ("", []),
        ("-1", []),
    ],
)
def test_programs_see_the_gpus_that_the_variable_names(driver, visible, expected):
    driver.has(H100 | {"uuid": "GPU-0"}, H100 | {"uuid": "GPU-1"})
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert [one.uuid for one in visible_units(variables)] == expected


def test_a_program_uses_one_slice_of_a_gpu_that_is_cut(driver):
    driver.has(H100 | SLICE)
    assert [one.uuid for one in visible_units({})] == ["MIG-aaaa"]
    (unit,) = visible_units({"CUDA_VISIBLE_DEVICES": "MIG-bbbb"})
    assert (unit.uuid, unit.is_slice) == ("MIG-bbbb", True)


def test_a_driver_that_never_answers_is_waited_for_so_long_and_no_longer(driver, monkeypatch):
    monkeypatch.setattr(nvidia, "ANSWER_S", 0.1)
    driver.has(H100 | {"hangs": 30})
    assert " 0.1 s" in lost_gpu({})
    (fault,) = faults(driver)
    assert fault.kind == "driver-fault"


def test_a_lost_gpu_is_told_in_the_drivers_words_if_it_is_one_that_programs_see(driver):
    driver.has(H100, H100)
    assert lost_gpu({}) is None
    driver.lose(1)
    assert lost_gpu({}) == "GPU 1: GPU is lost"
