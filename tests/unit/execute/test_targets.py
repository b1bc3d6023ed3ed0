"""The target of a machine: the driver decides between builds for CUDA 12 and 13."""

from __future__ import annotations

import pytest

from skymark.execute.accelerator import CUDA_VARIABLE, target_of
from skymark.machine.facts import driver_version
from skymark.model.errors import UsageError
from skymark.model.machine import SIMULATED, platform_of

KERNELS_FILE = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""


def target(platform, version=None, **variables):
    return target_of(platform, variables=variables, version_of=lambda _: version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("535.183.06", "cuda12"),
        ("579.99", "cuda12"),
        ("580.65.06", "cuda13"),
        ("610.12", "cuda13"),
        (None, "cuda12"),
    ],
)
def test_a_gpu_gets_the_builds_that_its_driver_can_use(version, expected):
    assert target("gpu", version) == expected


@pytest.mark.parametrize("line", ["580.65.06", "535.230.02"])
def test_without_nvml_the_kernels_file_tells_the_driver(tmp_path, driver, line):
    assert driver_version(tmp_path) is None
    file = tmp_path / "proc" / "driver" / "nvidia" / "version"
    file.parent.mkdir(parents=True)
    file.write_text(KERNELS_FILE.format(line))
    assert driver_version(tmp_path) == line
    found = target_of("gpu", variables={}, root=tmp_path)
    assert found == ("cuda13" if line.startswith("580") else "cuda12")
    driver.has(driver="610.12")
    assert target_of("gpu", variables={}, root=tmp_path) == "cuda13"


def test_a_variable_decides_for_machines_that_hold_one_of_them(monkeypatch):
    assert target("gpu", "580.65.06", **{CUDA_VARIABLE: "12"}) == "cuda12"
    assert target("gpu", "535.183.06", **{CUDA_VARIABLE: "13"}) == "cuda13"
    with pytest.raises(UsageError, match=r"SKYMARK_CUDA=11\b.*\b12, 13"):
        target("gpu", "535.183.06", **{CUDA_VARIABLE: "11"})


def test_other_platforms_ask_no_driver():
    def never(_):
        pytest.fail("a driver was asked")

    for platform in ("cpu", "tpu"):
        assert target_of(platform, variables={}, version_of=never) == platform
        assert platform_of(platform) == platform
    assert {platform_of(one) for one in ("cuda12", "cuda13")} == {"gpu"}


def test_a_simulated_machine_takes_the_builds_for_a_cpu(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    mark = tmp_path / "run" / "systemd" / "container"
    mark.parent.mkdir(parents=True)
    mark.write_text(f"{SIMULATED}\n")
    for platform in ("gpu", "tpu"):
        found = target_of(platform, variables={}, version_of=lambda _: "580.1", root=tmp_path)
        assert found == "cpu"
