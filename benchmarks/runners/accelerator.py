"""Is the accelerator there that was asked for? Libraries would fall back to the CPU in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from skymark.execute.environments import Environments
from skymark.execute.locations import cache_directory
from skymark.model.errors import UsageError
from skymark.model.suite import EnvironmentSpec

PLATFORMS = ("cpu", "gpu", "tpu")
DEVICE_FILES = {
    "gpu": ("dev/nvidiactl", "dev/dxg"),
    "tpu": ("dev/accel*", "dev/vfio/[0-9]*"),
}
"""What a driver makes: of NVIDIA on Linux and in WSL 2; of TPU up to v4, and from v5 on."""

ADVICE = {
    "gpu": "start a container with --gpus all (podman: --device nvidia.com/gpu=all), install "
    "NVIDIA's driver 580 or newer, or give --platform cpu",
    "tpu": "use a TPU virtual machine, start a container with --privileged, or give --platform cpu",
}
WATCHER = Path(__file__).with_name("see_accelerator.py")
TIMEOUT_S = 300.0
"""The first import from a cold disk reads gigabytes of libraries."""


def require_accelerator(platform: str, *, own: bool, root: Path = Path("/")) -> None:
    """Return if JAX and torch, whichever of them is there, compute on the accelerator.

    Args:
        platform: ``gpu`` or ``tpu``.
        own: ask pinned builds of them in an environment of its own, made on first use; else those
            of the running interpreter.
        root: where device files are looked for.

    Raises:
        UsageError: one of them sees none, or there is no driver at all.
        EnvironmentBuildError: the environment could not be made.
    """
    name = platform.upper()
    if not any(path for pattern in DEVICE_FILES[platform] for path in root.glob(pattern)):
        places = " or ".join(f"/{pattern}" for pattern in DEVICE_FILES[platform])
        raise UsageError(f"no {name} here: there is no {places}; {ADVICE[platform]}")
    python = _environment(platform) if own else Path(sys.executable)
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
    """Return what keeps each installed library from the accelerator, None where nothing does.

    A child process is asked, because a library keeps the device, and its memory, until it ends.

    Raises:
        UsageError: the child does not answer.
    """
    try:
        done = subprocess.run(
            [python, WATCHER, platform],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"asking for the {platform.upper()} took longer than {TIMEOUT_S:g} s; "
            "see whether its driver answers"
        ) from error
    if done.returncode != 0:
        # A library that breaks in the driver takes its process along.
        tail = " ".join(done.stderr.split())[-500:]
        raise UsageError(
            f"asking for the {platform.upper()} ended with status {done.returncode}: {tail}; "
            "see whether its driver answers"
        )
    answer: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _environment(platform: str) -> Path:
    """Return the interpreter beside pinned builds of JAX and torch for the accelerator."""
    environments = Environments(cache_directory(), lambda text: print(text, file=sys.stderr))
    return environments.ensure(environment_spec(platform)).python


def environment_spec(platform: str) -> EnvironmentSpec:
    """Return the environment that is asked for an accelerator."""
    return EnvironmentSpec(name=f"accelerator-{platform}", locked=f"container-{platform}.txt")
