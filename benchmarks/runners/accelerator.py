"""Is the accelerator there that was asked for? Libraries would fall back to the CPU in silence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.machine.cgroup import container_of
from skymark.machine.rehearsal import REHEARSAL, REHEARSAL_VARIABLE
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.venv import VenvSpec

PLATFORMS = ("cpu", "gpu", "tpu")
DEVICE_FILES = {
    "gpu": ("dev/nvidiactl", "dev/dxg"),
    "tpu": ("dev/accel[0-9]*", "dev/vfio/[0-9]*"),
}
"""What a driver makes: of NVIDIA on Linux and in WSL 2; of TPU up to v4, and from v5 on."""

ADVICE = {
    "gpu": "start a container with --gpus all (podman: --device nvidia.com/gpu=all), install "
    "NVIDIA's driver 580 or newer, or give --platform cpu",
    "tpu": "use a TPU virtual machine, start a container with --privileged, or give --platform cpu",
}
LIBRARIES = {"gpu": ("jax", "torch"), "tpu": ("jax",)}
WATCHER = Path(__file__).with_name("see_accelerator.py")
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""


def require_accelerator(platform: str, *, own: bool, root: Path = Path("/")) -> None:
    """Return if JAX and torch, whichever of them is there, compute on the accelerator.

    Args:
        platform: ``gpu`` or ``tpu``.
        own: ask pinned builds of them in a venv of its own, made on first use; else those
            of the running interpreter.
        root: where device files are looked for.

    Raises:
        UsageError: one of them sees none, or there is no driver at all.
        VenvBuildError: the venv could not be made.
    """
    name = platform.upper()
    if os.environ.get(REHEARSAL_VARIABLE) == "1" and container_of(root) == REHEARSAL:
        print(f"no {name} is looked for: this is a rehearsal, on a CPU", file=sys.stderr)
        return
    if not any(path for pattern in DEVICE_FILES[platform] for path in root.glob(pattern)):
        places = " or ".join(f"/{pattern}" for pattern in DEVICE_FILES[platform])
        raise UsageError(f"no {name} here: there is no {places}; {ADVICE[platform]}")
    python = _venv(platform) if own else Path(sys.executable)
    seen = see(platform, python)
    if not seen:
        raise UsageError(
            f"neither JAX nor torch is installed for {python}, so nothing can say whether the "
            f"{name} works; pip install 'skymark[{platform}]', or leave out --env current"
        )
    for library, fault in seen.items():
        if fault is not None:
            raise UsageError(f"{library} sees no {name}: {fault}; {ADVICE[platform]}")


def see(platform: str, python: Path) -> dict[str, str | None]:
    """Return what keeps each installed library from the accelerator, None where nothing does."""
    answers = {library: _ask(library, platform, python) for library in LIBRARIES[platform]}
    return {name: answer["fault"] for name, answer in answers.items() if answer["installed"]}


def _ask(library: str, platform: str, python: Path) -> dict[str, Any]:
    """Ask one library in a process of its own.

    It keeps the device, and its memory, until the process ends; and where a driver is absent or
    does not fit, it may break and take the process along.
    """
    try:
        done = subprocess.run(
            [python, WATCHER, library, platform],
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


def _venv(platform: str) -> Path:
    """Return the interpreter beside pinned builds of JAX and torch for the accelerator."""
    venvs = Venvs(cache_directory(), lambda text: print(text, file=sys.stderr))
    return venvs.ensure(venv_spec(platform)).python


def venv_spec(platform: str) -> VenvSpec:
    """Return the venv that is asked for an accelerator."""
    return VenvSpec(name=f"accelerator-{platform}", locked=f"container-{platform}.txt")


if __name__ == "__main__":  # for a machine's set-up: fail there, before the run
    try:
        require_accelerator(sys.argv[1], own=True)
    except SkymarkError as error:
        sys.exit(f"accelerator: {error}")
