"""Find scenarios and adapters: built in, from entry points, or in a user's own file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from typing import TYPE_CHECKING

from skymark.model.errors import ChangedSincePlanError, UnknownNameError, UsageError
from skymark.resources import extensions
from skymark.suites.loading.adapter import ADAPTERS, Adapter
from skymark.suites.loading.adapter import adapter as register_adapter
from skymark.suites.loading.scenario import SCENARIOS, Scenario
from skymark.suites.loading.specification import (
    FileReference,
    LoadingSpecification,
    SlugReference,
    parse_reference,
    reference_of,
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from skymark.model.record import Cell


@cache
def scenarios() -> dict[str, type[Scenario]]:
    """Return every registered scenario by id."""
    _import_all("skymark.suites.loading.scenarios", "skymark.scenarios")
    return dict(sorted(SCENARIOS.items(), key=lambda item: (item[1].tier, item[0])))


@cache
def adapters() -> dict[str, type[Adapter]]:
    """Return every registered adapter by slug."""
    _import_all("skymark.suites.loading.adapters", "skymark.adapters")
    return dict(ADAPTERS)


def _import_all(package: str, group: str) -> None:
    path = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
    for entry_point in extensions(group):
        try:
            entry_point.load()
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"the entry point {entry_point.name!r} of {group} ({entry_point.value}) does not "
                f"load: {error}; mend or remove the package that has it"
            ) from error


def scenario_class(name: str) -> type[Scenario]:
    """Return a scenario by id, upper or lower case.

    Raises:
        UnknownNameError: there is none; the message has the nearest id.
    """
    by_id = {id.casefold(): cls for id, cls in scenarios().items()}
    if name.casefold() not in by_id:
        raise UnknownNameError("scenario", name, scenarios())
    return by_id[name.casefold()]


def adapter_reference(name: str) -> SlugReference | FileReference:
    """Return the reference to an adapter given by slug, display name or file, with any version.

    Raises:
        UnknownNameError: there is no such slug or name; the message has the nearest.
    """
    reference = parse_reference(name)
    if isinstance(reference, FileReference):
        return reference
    by_name = _slugs_by_name()
    if reference.slug.casefold() not in by_name:
        titles = {cls.name: slug for slug, cls in adapters().items()}
        raise UnknownNameError("adapter", reference.slug, adapters(), titles)
    return SlugReference(slug=by_name[reference.slug.casefold()], version=reference.version)


@cache
def _slugs_by_name() -> dict[str, str]:
    """Return the slug of every adapter by its slug and its own name, in lower case."""
    by_name = {cls.name.casefold(): slug for slug, cls in adapters().items()}
    return by_name | {slug.casefold(): slug for slug in adapters()}


def adapter_class(name: str) -> type[Adapter]:
    """Return the class of an adapter given by slug, ``slug@version`` or ``file.py:Class``."""
    reference = adapter_reference(name)
    if isinstance(reference, FileReference):
        return _adapter_from_file(reference, _source_of(reference))
    return adapters()[reference.slug]


def adapter_of(cell: Cell) -> type[Adapter]:
    """Return the class of a cell's adapter, unchanged since the plan if from a file.

    Raises:
        ChangedSincePlanError: the file's content differs from the plan's.
        UsageError: the file cannot be read, or its adapter has another slug.
    """
    reference = adapter_reference(reference_of(cell))
    if not isinstance(reference, FileReference):
        return adapters()[reference.slug]
    source = _source_of(reference)
    if hashlib.sha256(source).hexdigest() != LoadingSpecification.of(cell).adapter_digest:
        raise ChangedSincePlanError(reference.path)
    cls = _adapter_from_file(reference, source)
    if cls.slug != cell.adapter:
        raise UsageError(
            f"the adapter in {reference.path} is {cls.slug}, and the plan calls it {cell.adapter}; "
            "plan again"
        )
    return cls


def _source_of(reference: FileReference) -> bytes:
    if not reference.path.is_file():
        raise UsageError(f"no file {reference.path}; give an adapter as PATH.py:CLASS")
    return reference.path.read_bytes()


def _adapter_from_file(reference: FileReference, source: bytes) -> type[Adapter]:
    path, attribute = reference.path, reference.class_name
    module = _module_of(path, source)
    cls = getattr(module, attribute, None)
    if not (isinstance(cls, type) and issubclass(cls, Adapter)):
        found = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise UnknownNameError(f"adapter class in {path.name}", attribute, found)
    for needed in ("slug", "name", "distribution", "imports"):
        if not getattr(cls, needed, None):
            raise UsageError(
                f"{attribute} in {path.name} needs a `{needed}`; see skymark.suites.loading.adapter"
            )
    if ADAPTERS.get(cls.slug) is not cls:
        register_adapter(cls)
    return cls


@cache
def _module_of(path: Path, source: bytes) -> ModuleType:
    # Workers unpickle classes by module name, so the name must be importable there too.
    module_name = f"skymark_adapter_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        raise UsageError(f"{path} is no Python file; give an adapter as PATH.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    adapters()  # whose slugs are taken
    for slug in [slug for slug, cls in ADAPTERS.items() if cls.__module__ == module_name]:
        del ADAPTERS[slug]  # of the file as it was
    sys.modules[module_name] = module
    try:
        # The loader would take bytecode that lies beside the file, of whatever source.
        exec(compile(source, path, "exec"), vars(module))  # noqa: S102 - the user chose the file
    except Exception as error:
        raise UsageError(f"{path} does not import: {error!r}; mend it and run again") from error
    return module


def bind_scenario(cell: Cell) -> Scenario:
    """Return the scenario object that a cell names, at its size, axis values and seed."""
    cls = scenario_class(cell.scenario)
    specification = LoadingSpecification.of(cell)
    return cls(size=specification.size, seed=specification.seed, axes=dict(cell.axes))
