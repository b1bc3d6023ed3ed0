"""Accelerators that a library computes on, and rates of its copies, asked in a process of its own.

It keeps the device, and its memory, until the process ends; and where a driver is absent or does
not fit, it may break and take the process along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from skymark.machine.children import absolute_path, worker_variables
from skymark.machine.gpu_fitness import CopyRates
from skymark.machine.nvidia import VISIBLE_VARIABLE, Unit
from skymark.machine.private_directory import closed_umask
from skymark.model.base import Frozen
from skymark.model.machine import Platform
from skymark.suite.contract import SeenBy

PROGRAM = Path(__file__).with_name("device_program.py")
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""


class SeenDevices(Frozen):
    """The answer of a library, or the fault that kept it from one."""

    absent: tuple[str, ...] = ()
    """Modules that were to be measured and are not installed."""
    fault: str | None = None
    names: tuple[str, ...] = ()
    """The name of each accelerator, such as ``NVIDIA A100-SXM4-40GB``."""

    @property
    def text(self) -> str:
        """The accelerators in words: ``8 × NVIDIA H100 80GB HBM3``."""
        counted = Counter(self.names).items()
        return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counted)


def seen_devices(
    libraries: Iterable[SeenBy], platform: Platform, python: Path
) -> dict[SeenBy, SeenDevices]:
    """Have libraries compute on the accelerators of a platform; return each library's answer.

    Each library runs in a process of its own, in parallel. An interruption ends these processes.

    Args:
        libraries: libraries to query.
        platform: ``gpu`` or ``tpu``.
        python: interpreter with the libraries.
    """
    asked: dict[SeenBy, subprocess.Popen[str]] = {}
    try:
        for library in libraries:
            asked[library] = _asked(python, "see", library, platform, library)
        until = time.monotonic() + TIMEOUT_S
        return {library: _answer(process, until) for library, process in asked.items()}
    finally:
        for process in asked.values():
            process.kill()
            process.communicate()


def _answer(process: subprocess.Popen[str], until: float) -> SeenDevices:
    """Wait for the answer of a library, up to a moment of the monotonic clock."""
    try:
        said, complaints = process.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return SeenDevices(fault=f"no answer in {TIMEOUT_S:g} s")
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return SeenDevices(fault=f"{name} ended it while it looked for a driver")
    if process.returncode > 0:
        tail = " ".join(complaints.split())[-300:]
        return SeenDevices(fault=f"it ended with status {process.returncode}: {tail}")
    return SeenDevices.model_validate(json.loads(said.splitlines()[-1]))


COPIED_BYTES = 1 << 28
COPYING: tuple[Literal["torch", "jax"], ...] = ("torch", "jax")
"""Libraries whose copies are measured."""


def copy_rates(
    units: Sequence[Unit],
    python: Path,
    *,
    platform: Platform = "gpu",
    size: int = COPIED_BYTES,
) -> dict[int, list[CopyRates]]:
    """Return the rates by the GPU's index: of torch and of JAX, whichever is installed.

    A library that sees no GPU has none: `skymark doctor --platform gpu` says why.

    Args:
        units: the devices to copy to.
        python: the interpreter whose libraries are used.
        platform: ``cpu`` copies to the libraries' own device there.
        size: bytes of one copy.
    """
    # JAX would take most of a GPU's memory to itself.
    variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if units:
        variables[VISIBLE_VARIABLE] = ",".join(unit.uuid for unit in units)
    rates: dict[int, list[CopyRates]] = {}
    for library in COPYING:
        with _asked(python, "copy", library, platform, str(size), **variables) as process:
            try:
                said, _ = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                continue
        if process.returncode == 0:
            for unit, measured in zip(units, json.loads(said.splitlines()[-1]), strict=False):
                rates.setdefault(unit.index, []).append(CopyRates(framework=library, **measured))
    return rates


def _asked(python: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start the program that asks a library, in an interpreter."""
    path = absolute_path(os.environ.get("PYTHONPATH", ""))
    return subprocess.Popen(
        [python, "-P", PROGRAM, *words],
        env={**worker_variables(), "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=closed_umask(),
    )
