"""Facts about the machine and the software of a run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import skymark
from skymark.machine.cgroup import limits_of, text_of
from skymark.machine.disk import disk_of
from skymark.machine.nvidia import nvidia_driver
from skymark.model.machine import Accelerator, GitState, Hardware, Load, MachineState

Run = Callable[[Sequence[str]], str | None]
"""Runs a program and returns its output; None if it is absent, fails or hangs."""

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
COMMIT_VARIABLE = "SKYMARK_COMMIT"
"""The commit of skymark, with ``-dirty`` if files were changed."""
OBSERVED_S = 0.2
"""Time to watch the cores for their load."""


def capture(directory: Path) -> MachineState:
    """Return the machine's current state, with its load over about a quarter of a second.

    Null is unknown.

    Args:
        directory: where the data under test lies; its disk is described.
    """
    import psutil

    disk_kind, filesystem, free_bytes = disk_of(directory)
    return MachineState(
        captured_at=datetime.now(UTC),
        hardware=Hardware(
            architecture=platform.machine(),
            cpu_model=cpu_model(run_program),
            physical_cores=psutil.cpu_count(logical=False),
            logical_cores=psutil.cpu_count(),
            memory_bytes=psutil.virtual_memory().total,
            disk_kind=disk_kind,
            accelerators=accelerators(),
        ),
        limits=limits_of(),
        load=Load(
            load_average_1m=os.getloadavg()[0],
            cpu_busy_share=psutil.cpu_percent(OBSERVED_S) / 100,
            memory_available_bytes=psutil.virtual_memory().available,
            swap_used_bytes=psutil.swap_memory().used,
            disk_free_bytes=free_bytes,
            cpu_governor=cpu_governor(),
            turbo=turbo(),
            on_battery=on_battery(),
        ),
        system=f"{platform.system()} {platform.release()}",
        filesystem=filesystem,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        skymark=skymark.__version__,
        git=git_state(run_program),
    )


PROGRAM_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH")
"""Variables that programs need; no secret, and no ``GIT_DIR`` of another repository."""


def run_program(command: Sequence[str]) -> str | None:
    """Run a program for at most 60 s and return its standard output.

    Returns:
        None if the program is absent, fails or does not end in time.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            errors="replace",
            env={name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def cpu_model(run: Run) -> str | None:
    """Return the processor's name, such as ``AMD EPYC 7763 64-Core Processor``."""
    lines = text_of(Path("/proc/cpuinfo")) or ""
    for key in ("model name", "Hardware", "cpu model"):
        for line in lines.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return " ".join(value.split())
    # On ARM servers cpuinfo has numbers, and lscpu has their names.
    for line in (run(["lscpu"]) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Model name" and value.strip(" -"):
            return value.strip()
    return None


def accelerators(kernels_file: Path = NVIDIA_DRIVER) -> tuple[Accelerator, ...] | None:
    """Return the NVIDIA GPUs that NVML lists, with the slices of a GPU that MIG divides.

    Memory is in whole MiB, as in records of earlier versions.

    Returns:
        Empty without a driver; None if a driver does not answer, such as in a container without
        NVML.
    """
    driver = nvidia_driver()
    if driver is None:
        return None if kernels_file.exists() else ()
    if driver.fault is not None:
        return None
    devices = [device for gpu in driver.gpus for device in (gpu.slices or (gpu,))]
    return tuple(
        Accelerator(
            name=device.name,
            memory_bytes=None if device.memory_bytes is None else device.memory_bytes >> 20 << 20,
            driver=driver.version,
        )
        for device in devices
    )


def cpu_governor(root: Path = Path("/sys/devices/system/cpu")) -> str | None:
    """Return the frequency governor of the cores, or all governors if they differ."""
    files = sorted(root.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = {text_of(file) for file in files} - {None, ""}
    return ", ".join(sorted(str(governor) for governor in governors)) or None


def turbo(root: Path = Path("/sys/devices/system/cpu")) -> bool | None:
    """Return whether the cores may exceed their nominal frequency."""
    if (disabled := text_of(root / "intel_pstate" / "no_turbo")) in {"0", "1"}:
        return disabled == "0"
    if (boost := text_of(root / "cpufreq" / "boost")) in {"0", "1"}:
        return boost == "1"
    return None


def on_battery() -> bool | None:
    """Return whether the machine runs on its battery; None without a battery."""
    import psutil

    if not hasattr(psutil, "sensors_battery"):
        return None
    battery = psutil.sensors_battery()
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged


def git_state(run: Run, package: Path = Path(skymark.__file__).parent) -> GitState | None:
    """Return the commit of skymark's checkout; None for an installed package.

    In a container or on a rented machine, `COMMIT_VARIABLE` names the commit of a checkout without
    history. A package that git does not track, such as a venv in another checkout, has no commit.
    """
    git = ["git", "-C", os.fspath(package)]
    if run([*git, "ls-files", "--error-unmatch", "__init__.py"]) is None:
        told, _, suffix = os.environ.get(COMMIT_VARIABLE, "").partition("-")
        return GitState(commit=told, dirty=suffix == "dirty") if told else None
    commit = run([*git, "rev-parse", "HEAD"])
    changes = run([*git, "status", "--porcelain", "--untracked-files=no", ":/"])
    if commit is None or changes is None:
        return None
    return GitState(commit=commit.strip(), dirty=bool(changes.strip()))


DEVICE_FILES = {
    "gpu": ("dev/nvidiactl", "dev/dxg"),
    "tpu": ("dev/accel[0-9]*", "dev/vfio/[0-9]*"),
}
"""Device files of the drivers: NVIDIA on Linux and in WSL 2; TPU up to v4, and from v5 on."""


FRACTION_VARIABLE = "SKYMARK_GPU_FRACTION"
"""Environment variable with this process's share of an accelerator's memory."""


def has_driver(platform: str, root: Path = Path("/")) -> bool:
    """Return whether a driver of a ``gpu`` or ``tpu`` is loaded.

    Args:
        platform: ``gpu`` or ``tpu``.
        root: directory of the device files.
    """
    return any(path for pattern in DEVICE_FILES[platform] for path in root.glob(pattern))


def driver_version(root: Path = Path("/")) -> str | None:
    """Return the version of NVIDIA's driver, such as ``580.65.06``; None if unknown.

    Args:
        root: directory of the kernel's own file, for containers without NVML.
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
