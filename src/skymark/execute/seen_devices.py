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
from collections.abc import Mapping
from pathlib import Path

from skymark.machine.variables import absolute_path, worker_variables
from skymark.model.base import Frozen
from skymark.model.platform import Platform

PROGRAM = Path(__file__).with_name("see_accelerator.py")
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""


class SeenDevices(Frozen):
    """The answer of a library, or the fault that kept it from one."""

    is_there: bool = True
    """Whether what is to be measured is installed at all."""
    fault: str | None = None
    names: tuple[str, ...] = ()
    """The name of each accelerator, such as ``NVIDIA A100-SXM4-40GB``."""

    @property
    def text(self) -> str:
        """The accelerators in words: ``8 × NVIDIA H100 80GB HBM3``."""
        counted = Counter(self.names).items()
        return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counted)


def seen_devices(
    library: str,
    platform: Platform,
    python: Path,
    *,
    measured: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> SeenDevices:
    """Have a library compute on the accelerators of a platform, and return those it saw.

    Args:
        library: ``dali``, ``jax``, ``tensorflow`` or ``torch``.
        platform: ``gpu`` or ``tpu``.
        python: the interpreter that it is installed for.
        measured: the module that is to be measured, where it is another than the library.
        variables: environment variables of the worker, where the user did not set them.
    """
    given = worker_variables()
    path = absolute_path(os.environ.get("PYTHONPATH", ""))
    try:
        done = subprocess.run(
            [python, "-P", PROGRAM, library, platform, measured or library],
            env={**(variables or {}), **given, "PYTHONPATH": path},
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
