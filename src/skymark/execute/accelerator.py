"""The accelerator that a plan asks for: libraries would fall back to the CPU in silence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from skymark.cache.location import cache_directory
from skymark.execute.seen_devices import seen_devices
from skymark.execute.targets import target_of
from skymark.execute.venvs import Venvs
from skymark.machine.accelerator import device_places, has_driver, is_rehearsed
from skymark.model.errors import UsageError
from skymark.model.platform import Platform, Target
from skymark.model.record import Cause
from skymark.model.venv import VenvSpec

ADVICE: Mapping[Platform, str] = {
    "gpu": "start a container with --gpus all (podman: --device nvidia.com/gpu=all), install "
    "NVIDIA's driver 525 or newer, or choose a profile for a cpu",
    "tpu": "use a TPU virtual machine, start a container with --privileged, or choose a profile "
    "for a cpu",
}
LIBRARIES: Mapping[Platform, tuple[str, ...]] = {
    "cpu": (),
    "gpu": ("jax", "torch"),
    "tpu": ("jax",),
}
PINS: Mapping[Target, str] = {
    "cuda12": "container-gpu.txt",
    "cuda13": "container-gpu-cuda13.txt",
    "tpu": "container-tpu.txt",
}
"""Files below ``requirements/`` with the libraries that are asked."""


def require_accelerator(
    platform: Platform,
    announce: Callable[[str], None],
    *,
    own: bool,
    root: Path = Path("/"),
    variables: Mapping[str, str] = os.environ,
) -> None:
    """Return if JAX and torch, whichever of them is there, compute on the accelerator.

    Args:
        platform: ``cpu``, which every machine has, ``gpu`` or ``tpu``.
        announce: told that a rehearsal does without, and that a venv is being made.
        own: ask pinned builds of them in a venv of its own, made on first use; else those
            of the running interpreter.
        root: where device files are looked for.
        variables: environment variables, which tell of a rehearsal.

    Raises:
        UsageError: one of them sees none, or there is no driver at all.
        VenvBuildError: the venv could not be made.
    """
    if platform == "cpu":
        return
    name = platform.upper()
    if is_rehearsed(variables, root):
        announce(f"no {name} is looked for: this is a rehearsal, on a CPU")
        return
    if not has_driver(platform, root):
        raise UsageError(
            f"no {name} here: there is no {device_places(platform)}; {ADVICE[platform]}"
        )
    python = Path(sys.executable)
    if own:
        spec = accelerator_venv(target_of(platform, variables=variables, root=root))
        python = Venvs(cache_directory(), announce).ensure(spec).python
    seen = faults_by_library(platform, python)
    if not seen:
        raise UsageError(
            f"neither JAX nor torch is installed for {python}, so nothing can say whether the "
            f"{name} works; pip install 'skymark[{platform}]', or leave out --env current"
        )
    for library, fault in seen.items():
        if fault is not None:
            raise UsageError(f"{library} sees no {name}: {fault}; {ADVICE[platform]}")


def faults_by_library(platform: Platform, python: Path) -> dict[str, str | None]:
    """Return the fault that keeps each installed library from the accelerator; None for no fault.

    Args:
        platform: ``gpu`` or ``tpu``.
        python: the interpreter whose libraries are asked.
    """
    answers = {library: seen_devices(library, platform, python) for library in LIBRARIES[platform]}
    return {name: answer.fault for name, answer in answers.items() if answer.is_there}


def accelerator_venv(target: Target) -> VenvSpec:
    """Return the venv whose libraries are asked for an accelerator."""
    return VenvSpec(name="accelerator", locked=PINS[target], target=target)


def no_accelerator(library: str, platform: Platform, fault: str) -> Cause:
    """Return the cause of a cell whose library sees no accelerator."""
    return Cause(
        kind="no-accelerator",
        message=f"{library} sees no {platform.upper()}: {fault}",
        action=f"{ADVICE[platform]}; skymark doctor --platform {platform} asks again",
    )
