"""Rates of copies from host memory to GPUs, measured by an interpreter's own libraries."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from skymark.machine.gpu_fitness import CopyRates
from skymark.machine.nvidia import VISIBLE_VARIABLE, Unit
from skymark.machine.private_directory import closed_umask
from skymark.machine.variables import absolute_path, worker_variables
from skymark.model.machine import Platform

PROGRAM = Path(__file__).with_name("measure_copies.py")
COPIED_BYTES = 1 << 28
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""

LIBRARIES: tuple[Literal["torch", "jax"], ...] = ("torch", "jax")


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
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if units:
        order[VISIBLE_VARIABLE] = ",".join(unit.uuid for unit in units)
    rates: dict[int, list[CopyRates]] = {}
    for library in LIBRARIES:
        found = _asked(library, platform, python, size, order)
        for unit, one in zip(units, found, strict=False):
            rates.setdefault(unit.index, []).append(CopyRates(framework=library, **one))
    return rates


def _asked(
    library: str, platform: Platform, python: Path, size: int, order: Mapping[str, str]
) -> list[dict[str, float | None]]:
    """Return what the program prints; nothing where it fails."""
    path = absolute_path(os.environ.get("PYTHONPATH", ""))
    # JAX would take most of a GPU's memory to itself.
    own = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONPATH": path}
    try:
        done = subprocess.run(
            [python, "-P", PROGRAM, library, platform, str(size)],
            env={**worker_variables(), **own, **order},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
            umask=closed_umask(),
        )
    except (OSError, subprocess.SubprocessError):
        return []
    found: list[dict[str, float | None]] = json.loads(done.stdout.splitlines()[-1])
    return found
