"""The accelerator that a plan asks for, and the builds of libraries that can use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from skymark.cache.location import cache_directory
from skymark.execute.seen_devices import seen_devices
from skymark.execute.venvs import Venvs
from skymark.machine.cgroup import container_of
from skymark.machine.facts import (
    DEVICE_FILES,
    FRACTION_VARIABLE,
    driver_version,
    has_driver,
)
from skymark.machine.gpu_fitness import (
    LEAST_DRIVER,
    STOPS_A_RUN,
    age_faults,
    cuda_builds,
    driver_faults,
    gpu_faults,
)
from skymark.machine.nvidia import (
    GpuLostError,
    nvidia_driver,
    visible_units,
)
from skymark.model.errors import UsageError
from skymark.model.machine import SIMULATED, Platform, Target, usual_target
from skymark.model.record import Cause
from skymark.model.venv import VenvSpec
from skymark.resources import install_line
from skymark.suite.contract import SeenBy

CUDA_VARIABLE = "SKYMARK_CUDA"
"""Major version of CUDA to use with any driver; images with the builds of one version set it."""

CUDA_OF: Mapping[Target, int] = {"cuda12": 12, "cuda13": 13}
"""Major version of CUDA that the builds of a target are for."""


def target_of(
    platform: Platform,
    *,
    variables: Mapping[str, str] = os.environ,
    version_of: Callable[[Path], str | None] = driver_version,
    root: Path = Path("/"),
) -> Target:
    """Return the target whose packages serve a platform on this machine.

    A simulated machine has a CPU only. A GPU with a driver of unknown version gets the target
    that works with all drivers.

    Args:
        platform: the plan's platform.
        variables: environment variables; they may name CUDA's version.
        version_of: returns the driver's version, given the root of its files.
        root: root of the driver's files.

    Raises:
        UsageError: a variable names a version of CUDA without pinned libraries.
    """
    if platform == "cpu" or container_of(root) == SIMULATED:
        return "cpu"
    if platform != "gpu":
        return usual_target(platform)
    if wanted := variables.get(CUDA_VARIABLE):
        targets = {str(major): target for target, major in CUDA_OF.items()}
        if wanted not in targets:
            raise UsageError(f"{CUDA_VARIABLE}={wanted}: choose from {', '.join(targets)}")
        return targets[wanted]
    branch = (version_of(root) or "").partition(".")[0]
    is_new = branch.isdigit() and int(branch) >= LEAST_DRIVER[13]
    return "cuda13" if is_new else usual_target(platform)


ADVICE: Mapping[Platform, str] = {
    "gpu": "start a container with --gpus all (podman: --device nvidia.com/gpu=all), install "
    "NVIDIA's driver 525 or newer, or choose a profile for a cpu",
    "tpu": "use a TPU virtual machine, start a container with --privileged, or choose a profile "
    "for a cpu",
}
LIBRARIES: Mapping[Platform, tuple[SeenBy, ...]] = {
    "cpu": (),
    "gpu": ("jax", "torch"),
    "tpu": ("jax",),
}
PINS: Mapping[Target, str] = {
    "cuda12": "container-gpu.txt",
    "cuda13": "container-gpu-cuda13.txt",
    "tpu": "container-tpu.txt",
}
"""Files below ``requirements/`` with the libraries of the check."""


def require_accelerator(
    platform: Platform,
    announce: Callable[[str], None],
    *,
    own: bool,
    asks: bool = True,
    root: Path = Path("/"),
    variables: Mapping[str, str] = os.environ,
) -> None:
    """Require that JAX and torch, if installed, compute on the accelerator.

    Args:
        platform: ``cpu``, which every machine has, ``gpu`` or ``tpu``.
        announce: callback for messages about a simulated machine or a venv in the making.
        own: check pinned builds in a venv of its own, made on first use; else the builds of the
            running interpreter.
        asks: check the libraries; else only the driver, because a run's workers check the
            libraries that they import.
        root: root of the device files.
        variables: environment variables, which may name the version of CUDA.

    Raises:
        UsageError: a library sees no accelerator, the GPU is not fit for it, or there is no driver.
        VenvBuildError: the venv could not be made.
    """
    if platform == "cpu":
        return
    name = platform.upper()
    target = target_of(platform, variables=variables, root=root)
    if target == "cpu":
        announce(f"no {name} is looked for: this is a rehearsal, on a CPU")
        return
    if not has_driver(platform, root):
        places = " or ".join(f"/{pattern}" for pattern in DEVICE_FILES[platform])
        raise UsageError(f"no {name} here (no-driver): there is no {places}; {ADVICE[platform]}")
    python = Path(sys.executable)
    if platform == "gpu":
        builds = {"the pinned build of torch and JAX": CUDA_OF[target]} if own else cuda_builds()
        require_fit_gpus(builds, variables, root)
    if not asks:
        return
    if own:
        spec = accelerator_venv(target)
        python = Venvs(cache_directory(), announce).ensure(spec).python
    seen = faults_by_library(platform, python)
    if not seen:
        raise UsageError(
            f"neither JAX nor torch is installed for {python}, so skymark cannot check the "
            f"{name}; run: {install_line(platform)}, or leave out --env current"
        )
    for library, fault in seen.items():
        if fault is not None:
            raise UsageError(f"{library} sees no {name}: {fault}; {ADVICE[platform]}")


def require_fit_gpus(
    builds: Mapping[str, int], variables: Mapping[str, str], root: Path = Path("/")
) -> None:
    """Require that NVIDIA's driver reports no fault that stops programs on its GPUs.

    Without the driver's library NVML, as in some containers, only the driver's age is checked.

    Args:
        builds: major version of CUDA by library.
        variables: environment variables, with the visible GPUs and the share of one.
        root: root of the driver's files.

    Raises:
        UsageError: there is a fault; the message has its kind.
    """
    driver = nvidia_driver()
    cuda = None if driver is None else driver.cuda
    faults = [*age_faults(driver_version(root), cuda, builds)]
    if driver is not None:
        try:
            seen = {unit.index for unit in visible_units(variables)}
        except GpuLostError:
            seen = {gpu.index for gpu in driver.gpus}
        gpus = [gpu for gpu in driver.gpus if gpu.index in seen]
        fraction = float(variables.get(FRACTION_VARIABLE, "1"))
        faults = [*driver_faults(driver), *faults, *gpu_faults(gpus, fraction=fraction)]
    for fault in faults:
        if fault.kind in STOPS_A_RUN:
            raise UsageError(f"{fault.message} ({fault.kind}); {fault.action}")


def python_of_gpus(*, own: bool) -> Path:
    """Return the interpreter with libraries for GPUs; make no venv.

    Args:
        own: use the venv of pinned builds if it exists; else the running interpreter.
    """
    venvs, spec = Venvs(cache_directory()), accelerator_venv(target_of("gpu"))
    if own and venvs.is_built(spec):
        return venvs.ensure(spec).python
    return Path(sys.executable)


def faults_by_library(platform: Platform, python: Path) -> dict[str, str | None]:
    """Return the fault that keeps each installed library from the accelerator; None for no fault.

    Args:
        platform: ``gpu`` or ``tpu``.
        python: interpreter with the libraries.
    """
    seen = seen_devices(LIBRARIES[platform], platform, python)
    return {name: answer.fault for name, answer in seen.items() if not answer.absent}


def accelerator_venv(target: Target) -> VenvSpec:
    """Return the venv of the libraries that check an accelerator."""
    return VenvSpec(name="accelerator", locked=PINS[target], target=target)


def no_accelerator(library: str, platform: Platform, fault: str) -> Cause:
    """Return the cause of a cell whose library sees no accelerator."""
    return Cause(
        kind="no-accelerator",
        message=f"{library} sees no {platform.upper()}: {fault}",
        action=f"{ADVICE[platform]}; skymark doctor --platform {platform} asks again",
    )
