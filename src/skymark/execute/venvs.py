"""Venvs of adapters and plans: their requirements, their making, and their sizes before.

Each adapter runs with the newest release of its library, which is impossible in one common venv.
uv hard-links files from its own cache, so a package of many venvs is on disk once.

Only metadata is read, so no library is imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import NamedTemporaryFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skymark.cache.building import build_once
from skymark.cache.location import own_cache
from skymark.machine.children import run_tied, uv_variables, worker_variables
from skymark.machine.private_directory import other_hand, own_folder, require_own
from skymark.model.base import Frozen, digest_of
from skymark.model.errors import VenvBuildError
from skymark.model.machine import Target
from skymark.model.venv import VenvSpec
from skymark.plain_files import write_whole
from skymark.resources import requirement_text

IMPORT_TIMEOUT_S = 300.0
UV_LIMIT_S = 7200.0
"""Longest time of one of uv's commands: slow networks take an hour for the largest packages."""
LOG_TAIL_LINES = 15
MARKER = "skymark-venv.json"
UMASK = 0o022
"""Mask of uv's files, whatever the user's mask: all may read them, only the owner may write."""
ROOT = Path("/")
"""Current directory of uv, which reads ``uv.toml`` there and in every directory above.

Only the machine's owner can write one here. The user's ``~/.config/uv/uv.toml`` applies, too."""


class BuiltVenv(Frozen):
    """A venv on disk."""

    name: str
    directory: Path
    target: Target = "cpu"
    size_bytes: int | None = None

    @property
    def python(self) -> Path:
        """The venv's interpreter."""
        return self.directory / "bin" / "python"


class Venvs:
    """The adapter venvs below one cache directory."""

    def __init__(
        self,
        cache: Path,
        announce: Callable[[str], None] = lambda _: None,
        requirements: Path | None = None,
    ) -> None:
        """Set up the directory's name; make no venv yet.

        Args:
            cache: parent directory, unless others may write there.
            announce: callback for messages about a venv in the making.
            requirements: the directory of their pins; None for this installation's.
        """
        self._root = own_cache(cache) / "venvs"
        self._cache = cache
        self._announce = announce
        self._requirements = requirements

    def path_of(self, spec: VenvSpec) -> Path:
        """Return the directory of a venv, whether it exists or not; it depends on the pins."""
        texts = list(spec.declared) if spec.locked is None else [self._pins(spec.locked)]
        python = spec.python or f"{sys.version_info.major}.{sys.version_info.minor}"
        key = digest_of([texts, list(spec.packages), python, sys.platform])
        name = re.sub(r"[^\w@.+-]", "_", spec.name)
        return self._root / f"{name}-{key[:12]}"

    def is_built(self, spec: VenvSpec) -> bool:
        """Whether the venv is complete."""
        return _is_complete(self.path_of(spec))

    def ensure(self, spec: VenvSpec) -> BuiltVenv:
        """Return the venv, making it first if needed, under a lease.

        Raises:
            VenvBuildError: uv failed; the message has the tail of its log.
            UsageError: another user can change the venv.
        """
        directory = self.path_of(spec)
        require_own(directory, missing_ok=True)
        if not _is_complete(directory):
            self._make(spec, directory)
        require_own(directory)
        return BuiltVenv(name=spec.name, directory=directory, target=spec.target)

    def _make(self, spec: VenvSpec, directory: Path) -> None:
        own_folder(self._root)

        def make(place: Path) -> None:
            moved = other_hand(self._cache)
            where = f", in {self._root}: {moved}" if moved else ""
            self._announce(f"making the venv of {spec.title} (once){where}")
            self._build(spec, place)

        try:
            build_once(
                directory, make, is_whole=_is_complete, in_place=True, announce=self._announce
            )
        except OSError as error:
            require_own(directory, missing_ok=True)
            raise VenvBuildError(f"cannot make {directory}: {error.strerror}") from error

    def built(self) -> Iterator[BuiltVenv]:
        """Yield the venvs on disk, with the size of their files."""
        for marker in sorted(self._root.glob(f"*/{MARKER}")):
            spec = json.loads(marker.read_text())
            size = sum(
                path.lstat().st_size for path in marker.parent.rglob("*") if not path.is_dir()
            )
            yield BuiltVenv(
                name=spec["name"],
                directory=marker.parent,
                target=spec.get("target", "cpu"),
                size_bytes=size,
            )

    def clean(self, name: str | None = None) -> list[BuiltVenv]:
        """Remove all venvs, or the venvs of one name; return the removed venvs."""
        removed = [built for built in self.built() if name in {None, built.name}]
        for built in removed:
            shutil.rmtree(built.directory)
        return removed

    def _build(self, spec: VenvSpec, directory: Path) -> None:
        base = spec.python or sys.executable
        self._uv(spec, "venv", "--python", base, os.fspath(directory))
        python = os.fspath(directory / "bin" / "python")
        install = ["pip", "install", "--python", python]
        if sys.dont_write_bytecode:  # else every worker would compile what it imports
            install.append("--compile-bytecode")
        if spec.locked is not None:
            with NamedTemporaryFile("w", suffix=".txt") as pins:
                pins.write(self._pins(spec.locked))
                pins.flush()
                self._uv(spec, *install, "--require-hashes", "-r", pins.name)
        further = (*(spec.declared if spec.locked is None else ()), *spec.packages)
        if further:
            self._uv(spec, *install, *further)
        if spec.imports is not None and not sys.dont_write_bytecode:
            _import_once(python, spec.imports)
        write_whole(directory / MARKER, spec.model_dump_json().encode(), durable=False)

    def _pins(self, name: str) -> str:
        """Return the text of a compiled requirement file."""
        try:
            return requirement_text(name, self._requirements)
        except FileNotFoundError as error:
            raise VenvBuildError(
                f"this installation has no requirements/{name}; in a checkout, `make pins` writes "
                "it"
            ) from error

    def _uv(self, spec: VenvSpec, *arguments: str) -> None:
        try:
            from uv import find_uv_bin
        except ModuleNotFoundError as error:
            raise VenvBuildError(
                f"the venv of {spec.title} needs uv, which is not installed; run `{sys.executable} "
                "-m pip install uv`, or take --env current"
            ) from error

        command = [find_uv_bin(), *arguments, "--quiet"]
        try:
            done = run_tied(command, uv_variables(), ROOT, UV_LIMIT_S, umask=UMASK)
        except subprocess.TimeoutExpired as error:
            raise VenvBuildError(
                f"uv could not make the venv of {spec.title} (`uv {' '.join(arguments[:2])}` was "
                f"ended after {UV_LIMIT_S:g} s)"
            ) from error
        if done.returncode != 0:
            tail = "\n".join(done.stdout.strip().splitlines()[-LOG_TAIL_LINES:])
            raise VenvBuildError(
                f"uv could not make the venv of {spec.title} "
                f"(`uv {' '.join(arguments[:2])}` exited with {done.returncode})",
                log_tail=tail,
            )


def _import_once(python: str, module: str) -> None:
    """Import a module once, so that the first worker need not compile its files.

    All that is installed would take ten times the CPU time. A module that cannot be imported is the
    worker's matter, which says why.
    """
    program = "import importlib, sys; importlib.import_module(sys.argv[1])"
    command = [python, "-c", program, module]
    with contextlib.suppress(subprocess.TimeoutExpired):
        run_tied(command, worker_variables(), ROOT, IMPORT_TIMEOUT_S, umask=UMASK)


def _is_complete(directory: Path) -> bool:
    """Whether a venv is complete and its Python still exists."""
    return (directory / MARKER).exists() and (directory / "bin" / "python").exists()


def import_root(cache: Path, runner: str = "skymark", own: Path | None = None) -> Path:
    """Return a directory that holds skymark, the package of a suite's runner, and nothing else.

    It goes on the path of a worker, whose venv has neither package. The packages' own directories
    would add everything installed beside them.

    Args:
        cache: parent of the directory, unless others may write there.
        runner: ``module:Class`` of the worker's side.
        own: directory of skymark's package in another revision; None for this package.
    """
    packages = {"skymark": own or Path(__file__).resolve().parents[1]}
    name = runner.partition(":")[0].partition(".")[0]
    if name not in packages and (found := _location_of(name)) is not None:
        packages[name] = found
    key = digest_of(sorted(map(os.fspath, packages.values())))
    root = own_folder(own_cache(cache) / "import" / key[:12])
    for package in packages.values():
        with contextlib.suppress(FileExistsError):  # made before, or by another run meanwhile
            (root / package.name).symlink_to(package)
    return root


def _location_of(name: str) -> Path | None:
    """Return the directory or file of a top-level module; None if only workers can import it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin)
    return file.parent if spec.submodule_search_locations else file


@dataclass(frozen=True)
class AdapterHere:
    """An adapter with its library's version and unmet requirements in the running interpreter."""

    adapter: str
    library: str
    """The module that its workers import first."""
    version: str | None
    """Version of the library; None if it is not installed."""
    missing: tuple[Requirement, ...]
    """Unmet requirements of the adapter and of its workers."""


def adapters_here(specs: Mapping[str, VenvSpec]) -> list[AdapterHere]:
    """Return each adapter with its library's version and its missing requirements.

    Args:
        specs: specifications of the adapters' venvs for this machine, by name.
    """
    distributions = metadata.packages_distributions()
    found = []
    for name, spec in specs.items():
        module, needs = spec.imports or name, requirements_of(spec)
        wanted = {canonicalize_name(one.name) for one in needs}
        # Several distributions may share a top-level name, such as `nvidia`.
        owners = distributions.get(module.partition(".")[0], ())
        own = next((one for one in owners if canonicalize_name(one) in wanted), None)
        version = None if own is None else metadata.version(own)
        missing = tuple(one for one in needs if not is_met(one))
        found.append(AdapterHere(name, module, version, missing))
    return found


def install_line(found: Iterable[AdapterHere]) -> str | None:
    """Return the command that installs all missing requirements; None if none is missing."""
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
    """Return the requirements of a venv before they are pinned."""
    return [Requirement(line) for line in dict.fromkeys([*spec.declared, *spec.packages])]


def is_met(one: Requirement) -> bool:
    """Whether the installed packages meet a requirement and its extras."""
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
