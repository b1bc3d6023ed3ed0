"""A stand-in for NVIDIA's driver library, for there is no GPU where these tests run.

It stands at the driver's boundary: nvidia-ml-py itself loads it, as it loads the driver's own, and
nothing of skymark is replaced. What it cannot show is that a real driver answers so.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml.c")
GIB = 1 << 30
GPU_IS_LOST = 15
"""NVML's number of the error."""

H100: Mapping[str, int | str] = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "memory": 81559 << 20,
    "memory-reserved": 560 << 20,
    "memory-used": 4 << 20,
    "sm-clock": 1980,
    "sm-clock-max": 1980,
    "memory-clock": 2619,
    "memory-clock-max": 2619,
    "power": 71_500,
    "power-limit": 700_000,
    "power-limit-default": 700_000,
    "clock-reasons": 0x1,
    "temperature": 33,
    "slowdown-temperature": 92,
    "ecc": 1,
    "ecc-uncorrected": 0,
    "mig": 0,
    "persistence": 1,
    "pcie-generation": 5,
    "pcie-generation-max": 5,
    "pcie-width": 16,
    "pcie-width-max": 16,
    "processes": "",
    "utilisation": 0,
    "energy-rate": 71_500,
}
"""A GPU without a fault, at rest, in the units of NVML."""


class DriverStandIn:
    """What the driver says; without GPUs at first."""

    def __init__(self, library: Path, answers: Path) -> None:
        self.library, self._answers = library, answers
        self.system: dict[str, int | str] = {"driver": "580.65.06", "cuda": 13000}
        self.gpus: list[dict[str, int | str]] = []

    @property
    def variables(self) -> dict[str, str]:
        """Variables of a process whose driver library it is to be."""
        return {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "NVML_STAND_IN": str(self._answers),
            "SKYMARK_PASS_VARIABLES": "NVML_STAND_IN",
        }

    def has(self, *gpus: Mapping[str, int | str], **system: int | str | None) -> None:
        """Say from now on that there are these GPUs; a `system` value of None is not told."""
        self.gpus = [dict(one) for one in gpus]
        self.system |= {"gpus": len(gpus), **{k: v for k, v in system.items() if v is not None}}
        for name in (name for name, value in system.items() if value is None):
            self.system.pop(name, None)
        lines = [f"{name}={value}" for name, value in self.system.items()]
        for number, gpu in enumerate(self.gpus):
            lines += [f"gpu{number}.{name}={value}" for name, value in gpu.items()]
        whole = self._answers.with_suffix(".new")
        whole.write_text("".join(f"{line}\n" for line in lines))
        whole.replace(self._answers)

    def lose(self, number: int = 0, error: int = GPU_IS_LOST) -> None:
        """Lose a GPU."""
        self.gpus[number]["error"] = error
        self.has(*self.gpus)


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory):
    """The compiled stand-in, under the name that nvidia-ml-py looks for."""
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["cc", *flags, "-o", library, SOURCE], check=True)
    return library


@pytest.fixture
def driver(driver_library, tmp_path, monkeypatch):
    """The driver of this process, and by `variables` of others."""
    import pynvml  # the venv of the clip suite, in which its tests run, has none

    stand_in = DriverStandIn(driver_library, tmp_path / "nvml")
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(driver_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("NVML_STAND_IN", stand_in.variables["NVML_STAND_IN"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in
