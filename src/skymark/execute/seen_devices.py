"""The accelerators that a library computes on, asked in a process of its own.

It keeps the device, and its memory, until the process ends; and where a driver is absent or does
not fit, it may break and take the process along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

from skymark.machine.variables import absolute_path, worker_variables
from skymark.model.base import Frozen
from skymark.model.platform import Platform
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


def seen_devices(library: SeenBy, platform: Platform, python: Path) -> SeenDevices:
    """Have a library compute on the accelerators of a platform, and return those it saw.

    Args:
        library: is asked, in a process of its own.
        platform: ``gpu`` or ``tpu``.
        python: the interpreter that it is installed for.
    """
    path = absolute_path(os.environ.get("PYTHONPATH", ""))
    try:
        done = subprocess.run(
            [python, "-P", PROGRAM, library, platform, library],
            env={**worker_variables(), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SeenDevices(fault=f"no answer in {TIMEOUT_S:g} s")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return SeenDevices(fault=f"{name} ended it while it looked for a driver")
    if done.returncode > 0:
        tail = " ".join(done.stderr.split())[-300:]
        return SeenDevices(fault=f"it ended with status {done.returncode}: {tail}")
    return SeenDevices.model_validate(json.loads(done.stdout.splitlines()[-1]))
