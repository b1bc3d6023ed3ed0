"""The running interpreter as an environment for adapters: the libraries it has, and lacks.

Only metadata is read, so no library is imported.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skymark.model.errors import UsageError
from skymark.model.venv import VenvSpec
from skymark.resources import resource_directory


@dataclass(frozen=True)
class AdapterHere:
    """An adapter with its library's version and unmet requirements in the running interpreter."""

    adapter: str
    library: str
    """The module that its workers import first."""
    version: str | None
    """Of the library; None where it is not installed."""
    missing: tuple[Requirement, ...]
    """Unmet requirements of the adapter and of its workers."""


def adapters_here(specs: Mapping[str, VenvSpec]) -> list[AdapterHere]:
    """Return each adapter with its library's version and what is missing for it.

    Args:
        specs: the venvs that the adapters have elsewhere, by name, built for this machine.
    """
    distributions = metadata.packages_distributions()
    found = []
    for name, spec in specs.items():
        module, needs = spec.imports or name, requirements_of(spec)
        wanted = {canonicalize_name(one.name) for one in needs}
        # Several may share a name at the top, such as `nvidia`.
        owners = distributions.get(module.partition(".")[0], ())
        own = next((one for one in owners if canonicalize_name(one) in wanted), None)
        version = None if own is None else metadata.version(own)
        missing = tuple(one for one in needs if not is_met(one))
        found.append(AdapterHere(name, module, version, missing))
    return found


def install_line(found: Iterable[AdapterHere]) -> str | None:
    """Return the command that installs everything that is missing; None if nothing is."""
    wanted: dict[str, Requirement] = {}
    for one in (each for adapter in found for each in adapter.missing):
        known = wanted.setdefault(one.name, Requirement(str(one)))
        known.extras |= one.extras
        known.specifier &= one.specifier
    if not wanted:
        return None
    words = sorted(str(one) for one in wanted.values())
    return shlex.join(("uv", "pip", "install", "--python", sys.executable, *words))


def requirements_of(spec: VenvSpec) -> list[Requirement]:
    """Return the requirements of a venv before they are pinned.

    Raises:
        UsageError: this installation has no file of them.
    """
    directory = resource_directory("requirements")
    names = [spec.declared] if spec.locked is None else [f"{spec.locked.removesuffix('.txt')}.in"]
    lines = [line for name in names if name for line in _lines(directory / name)]
    return [Requirement(line) for line in dict.fromkeys([*lines, *spec.packages])]


def is_met(one: Requirement) -> bool:
    """Whether what is installed meets a requirement, that of its extras included."""
    try:
        version, needs = metadata.version(one.name), metadata.requires(one.name) or ()
    except metadata.PackageNotFoundError:
        return False
    if not one.specifier.contains(version, prereleases=True):
        return False
    return all(is_met(need) for extra in one.extras for need in _needs_of_extra(needs, extra))


def _needs_of_extra(needs: Iterable[str], extra: str) -> Iterator[Requirement]:
    for need in map(Requirement, needs):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            continue
        if need.marker.evaluate({"extra": extra}):
            yield need


def _lines(file: Path) -> Iterator[str]:
    """Yield the requirements of a file and of the files in its `-r` lines."""
    try:
        text = file.read_text()
    except FileNotFoundError as error:
        raise UsageError(f"this installation has no requirements/{file.name}") from error
    for line in text.splitlines():
        wanted = line.partition(" #")[0].strip()
        if wanted.startswith("-r"):
            yield from _lines(file.parent / wanted.removeprefix("-r").strip())
        elif wanted and not wanted.startswith("#"):
            yield wanted
