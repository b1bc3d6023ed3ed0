"""The venvs of adapters and plans, over all suites, and their sizes before they are made.

The layer of venvs in container images does without this: it knows no plan and no suite.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skymark.execute.planner import load_profile
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.machine import Target
from skymark.model.plan import Plan
from skymark.model.requests import DEFAULT_PROFILE
from skymark.model.venv import VenvSpec
from skymark.resources import requirement_text
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named


def venvs_of_plan(plan: Plan, target: Target) -> dict[str, VenvSpec]:
    """Return the venvs that the cells of a plan need, by name, built for a target.

    Libraries that no package installs by itself have no venv here.
    """
    suite = suite_named(plan.suite)
    cells = (planned.cell for planned in plan.runnable)
    specs = (suite.venv(cell) for cell in cells if suite.absence(cell) is None)
    return {spec.name: spec.built_for(target) for spec in specs if spec is not None}


def venvs_named(
    names: Sequence[str], suites: Sequence[Suite], target: Target = "cpu"
) -> dict[str, VenvSpec]:
    """Return the venvs of adapters by name; without names, of all that install by themselves.

    Raises:
        UnknownNameError: no suite has such an adapter.
        UsageError: a name cannot be read.
    """
    if not names:
        found = {name: spec for suite in suites for name, spec in suite.venvs().items()}
    else:
        found = {name: spec for one in names for name, spec in _venvs_of(one, suites).items()}
    return {name: spec.built_for(target) for name, spec in found.items()}


def _venvs_of(name: str, suites: Sequence[Suite]) -> dict[str, VenvSpec]:
    """Return the venv of an adapter's name.

    More than one suite can read a class in a user's own file: the default profile's suite goes
    first.
    """
    first = load_profile(DEFAULT_PROFILE).suite
    unknown: list[UnknownNameError] = []
    for suite in sorted(suites, key=lambda suite: suite.name != first):
        try:
            found = suite.venvs([name])
        except UnknownNameError as error:
            unknown.append(error)
        else:
            if found:
                return found
    if len(unknown) == 1:
        raise unknown[0]
    if unknown:
        rows = (row for suite in suites for row in suite.adapters())
        names = {str(next(iter(row.values()))) for row in rows}
        raise UnknownNameError("adapter", name, names, listing="skymark list adapters")
    raise UsageError(f"adapter {name!r} has no venv of its own; there is nothing to build")


SIZES = "sizes.toml"
MB = 1_000_000

SMALL_BYTES = 800_000
"""Size of a package below the table's 5 MB: the mean of such packages (`nox -s sizes`)."""

TARGET = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
"""Environment for the markers of pins: rented machines."""


def unpacked_bytes(specs: Iterable[VenvSpec], also: Iterable[str] = ()) -> int:
    """Return the bytes of venvs on a disk without any of them, counting shared packages once.

    Args:
        specs: the venvs.
        also: compiled files below ``requirements/`` to install, too.
    """
    sizes = _sizes()
    packages = {package for spec in specs for package in _packages_of(spec)}
    packages |= {package for name in also for package in _pinned(name)}
    return sum(sizes.get(_without_cuda_version(name), SMALL_BYTES) for name in packages)


def _packages_of(spec: VenvSpec) -> set[str]:
    """Return the packages of a venv, without the unknown dependencies of unpinned packages."""
    found = {str(canonicalize_name(Requirement(line).name)) for line in spec.packages}
    name = spec.locked or spec.similar
    return found if name is None else found | _pinned(name)


@cache
def _pinned(name: str) -> frozenset[str]:
    """Return the packages that a compiled file installs on a rented machine."""
    lines = re.findall(r"^([\w.-]+(?:\[[^\]]*\])?==[^\\\n]+)", requirement_text(name), re.MULTILINE)
    pins = [Requirement(line.strip()) for line in lines]
    return frozenset(
        str(canonicalize_name(pin.name))
        for pin in pins
        if pin.marker is None or pin.marker.evaluate(TARGET)
    )


@cache
def _sizes() -> dict[str, int]:
    megabytes: dict[str, int] = tomllib.loads(requirement_text(SIZES))["megabytes"]
    return {_without_cuda_version(name): size * MB for name, size in megabytes.items()}


def _without_cuda_version(name: str) -> str:
    """Return a package's name for any version of CUDA: the same libraries, about as large."""
    return re.sub(r"-cu\d+$|(?<=cuda)\d+", "", name)
