"""Accelerators as their drivers show them: device files, and the driver's version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from skymark.machine.cgroup import container_of
from skymark.machine.nvidia import nvidia_driver
from skymark.machine.rehearsal import REHEARSAL, REHEARSAL_VARIABLE

DEVICE_FILES = {
    "gpu": ("dev/nvidiactl", "dev/dxg"),
    "tpu": ("dev/accel[0-9]*", "dev/vfio/[0-9]*"),
}
"""Made by the driver: of NVIDIA on Linux and in WSL 2; of TPU up to v4, and from v5 on."""


FRACTION_VARIABLE = "SKYMARK_GPU_FRACTION"
"""Environment variable with the share of an accelerator's memory that is this process's own."""


def has_driver(platform: str, root: Path = Path("/")) -> bool:
    """Whether a driver of a ``gpu`` or ``tpu`` is loaded.

    Args:
        platform: one of these.
        root: where device files are looked for.
    """
    return any(path for pattern in DEVICE_FILES[platform] for path in root.glob(pattern))


def driver_version(root: Path = Path("/")) -> str | None:
    """Return the version of NVIDIA's driver, such as ``580.65.06``; None where nothing tells it.

    Args:
        root: where the kernel's own file is looked for, in containers without NVML.
    """
    driver = nvidia_driver()
    if driver is not None and driver.version is not None:
        return driver.version
    try:
        text = (root / "proc" / "driver" / "nvidia" / "version").read_text()
    except OSError:
        return None
    version = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text)
    return None if version is None else version[1]


def device_places(platform: str) -> str:
    """Return the places of a platform's device files in words."""
    return " or ".join(f"/{pattern}" for pattern in DEVICE_FILES[platform])


def is_rehearsed(variables: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Whether this machine is a simulated one that does without the accelerator it cannot have."""
    return variables.get(REHEARSAL_VARIABLE) == "1" and container_of(root) == REHEARSAL
