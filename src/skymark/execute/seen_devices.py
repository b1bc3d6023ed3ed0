"""The accelerators that a library computes on, asked in a process of its own.

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
from collections.abc import Iterable
from pathlib import Path

from skymark.machine.private_directory import closed_umask
from skymark.machine.variables import absolute_path, worker_variables
from skymark.model.base import Frozen
from skymark.model.machine import Platform
from skymark.suite.contract import SeenBy

PROGRAM = Path(__file__).with_name("see_accelerator.py")
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
    """Have libraries compute on the accelerators of a platform; return what each of them saw.

    They are asked side by side, each in a process of its own. An interruption ends these processes.

    Args:
        libraries: are asked.
        platform: ``gpu`` or ``tpu``.
        python: the interpreter that they are installed for.
    """
    path = absolute_path(os.environ.get("PYTHONPATH", ""))
    variables = {**worker_variables(), "PYTHONPATH": path}
    asked: dict[SeenBy, subprocess.Popen[str]] = {}
    try:
        for library in libraries:
            asked[library] = subprocess.Popen(
                [python, "-P", PROGRAM, library, platform, library],
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                umask=closed_umask(),
            )
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
