"""Sizes of venvs before they are made: from their pins, and the sizes of the large packages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from skymark.model.venv import VenvSpec
from skymark.resources import resource_directory

SIZES = "sizes.toml"
MB = 1_000_000

SMALL_BYTES = 800_000
"""Of a package that the table does not have: the mean of those below its 5 MB (`nox -s sizes`)."""

TARGET = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
"""What markers of pins are held against: rented machines."""


def unpacked_bytes(specs: Iterable[VenvSpec], also: Iterable[str] = ()) -> int:
    """Return the bytes that venvs take on a disk that had none of them, shared packages once.

    Args:
        specs: the venvs.
        also: compiled files below ``requirements/`` that are installed besides.
    """
    root = resource_directory("requirements")
    sizes = _sizes(root / SIZES)
    packages = {package for spec in specs for package in _packages_of(spec, root)}
    packages |= {package for name in also for package in _pinned(root / name)}
    return sum(sizes.get(_without_cuda_version(name), SMALL_BYTES) for name in packages)


def _packages_of(spec: VenvSpec, root: Path) -> set[str]:
    """Return the packages of a venv; those that its unpinned ones bring along are not known."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found = {str(canonicalize_name(Requirement(line).name)) for line in spec.packages}
    # A library in another version needs about what the pinned one needs.
    declared = None if spec.declared is None else str(Path(spec.declared).with_suffix(".txt"))
    for name in (spec.locked, declared):
        if name is not None and (root / name).is_file():
            found |= _pinned(root / name)
    return found


@cache
def _pinned(path: Path) -> frozenset[str]:
    """Return the packages that a compiled file installs on a rented machine."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = re.findall(
        r"^([\w.-]+(?:\[[^\]]*\])?==[^\\\n]+)", path.read_text("utf-8"), re.MULTILINE
    )
    pins = [Requirement(line.strip()) for line in lines]
    return frozenset(
        str(canonicalize_name(pin.name))
        for pin in pins
        if pin.marker is None or pin.marker.evaluate(TARGET)
    )


@cache
def _sizes(path: Path) -> dict[str, int]:
    megabytes: dict[str, int] = tomllib.loads(path.read_text("utf-8"))["megabytes"]
    return {_without_cuda_version(name): size * MB for name, size in megabytes.items()}


def _without_cuda_version(name: str) -> str:
    """Return a package's name for any version of CUDA: the same libraries, about as large."""
    return re.sub(r"-cu\d+$|(?<=cuda)\d+", "", name)
