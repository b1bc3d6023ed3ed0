"""The accelerator that a plan asks for: libraries would fall back to the CPU in silence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.machine.accelerator import device_places, has_driver, is_rehearsed
from skymark.machine.variables import absolute_path, worker_variables
from skymark.model.errors import UsageError
from skymark.model.venv import VenvSpec

ADVICE = {
    "gpu": "start a container with --gpus all (podman: --device nvidia.com/gpu=all), install "
    "NVIDIA's driver 580 or newer, or choose a profile for a cpu",
    "tpu": "use a TPU virtual machine, start a container with --privileged, or choose a profile "
    "for a cpu",
}
LIBRARIES = {"gpu": ("jax", "torch"), "tpu": ("jax",)}
PROGRAM = Path(__file__).with_name("see_accelerator.py")
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""


def require_accelerator(
    platform: str,
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
    python = _venv(platform, announce) if own else Path(sys.executable)
    seen = faults_by_library(platform, python)
    if not seen:
        raise UsageError(
            f"neither JAX nor torch is installed for {python}, so nothing can say whether the "
            f"{name} works; pip install 'skymark[{platform}]', or leave out --env current"
        )
    for library, fault in seen.items():
        if fault is not None:
            raise UsageError(f"{library} sees no {name}: {fault}; {ADVICE[platform]}")


def faults_by_library(platform: str, python: Path) -> dict[str, str | None]:
    """Return the fault that keeps each installed library from the accelerator; None for no fault.

    Args:
        platform: ``gpu`` or ``tpu``.
        python: the interpreter whose libraries are asked.
    """
    answers = {library: _ask(library, platform, python) for library in LIBRARIES[platform]}
    return {name: answer["fault"] for name, answer in answers.items() if answer["installed"]}


def _ask(library: str, platform: str, python: Path) -> dict[str, Any]:
    """Ask one library in a process of its own.

    It keeps the device, and its memory, until the process ends; and where a driver is absent or
    does not fit, it may break and take the process along.
    """
    try:
        done = subprocess.run(
            [python, "-P", PROGRAM, library, platform],
            env=worker_variables()
            | {"PYTHONPATH": absolute_path(os.environ.get("PYTHONPATH", ""))},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"installed": True, "fault": f"no answer in {TIMEOUT_S:g} s"}
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return {"installed": True, "fault": f"{name} ended it while it looked for a driver"}
    if done.returncode > 0:
        tail = " ".join(done.stderr.split())[-300:]
        return {"installed": True, "fault": f"it ended with status {done.returncode}: {tail}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _venv(platform: str, announce: Callable[[str], None]) -> Path:
    """Return the interpreter beside pinned builds of JAX and torch for the accelerator."""
    return Venvs(cache_directory(), announce).ensure(accelerator_venv(platform)).python


def accelerator_venv(platform: str) -> VenvSpec:
    """Return the venv whose libraries are asked for an accelerator."""
    return VenvSpec(name=f"accelerator-{platform}", locked=f"container-{platform}.txt")
