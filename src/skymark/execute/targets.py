"""The target of this machine: which builds of libraries its accelerator and driver can use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from skymark.machine.accelerator import driver_version, is_rehearsed
from skymark.model.errors import UsageError
from skymark.model.platform import Platform, Target, usual_target

CUDA_VARIABLE = "SKYMARK_CUDA"
"""Major version of CUDA to take whatever the driver is, as images do that hold one of them."""

CUDA: Mapping[str, Target] = {"12": "cuda12", "13": "cuda13"}

FIRST_DRIVER_OF_CUDA_13 = 580
"""Branch of the driver. Source: CUDA Toolkit 13 release notes, table of minimum versions."""


def target_of(
    platform: Platform,
    *,
    variables: Mapping[str, str] = os.environ,
    version_of: Callable[[Path], str | None] = driver_version,
    root: Path = Path("/"),
) -> Target:
    """Return the target whose packages serve a platform on this machine.

    For a GPU whose driver cannot be asked, it is the one that works with all of them.

    Args:
        platform: a plan's.
        variables: environment variables; they may name CUDA's version, or tell of a rehearsal.
        version_of: returns the driver's version, given the root of its files.
        root: where the driver's files are looked for.

    Raises:
        UsageError: a variable names a version of CUDA that no library is pinned for.
    """
    if platform == "cpu" or is_rehearsed(variables, root):
        return "cpu"
    if platform != "gpu":
        return usual_target(platform)
    if wanted := variables.get(CUDA_VARIABLE):
        if wanted not in CUDA:
            raise UsageError(f"{CUDA_VARIABLE}={wanted}: choose from {', '.join(CUDA)}")
        return CUDA[wanted]
    branch = (version_of(root) or "").partition(".")[0]
    is_new = branch.isdigit() and int(branch) >= FIRST_DRIVER_OF_CUDA_13
    return "cuda13" if is_new else usual_target(platform)
