"""Finding scenarios and adapters: built in, from entry points, or from a user's own file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.loading.adapter import ADAPTERS, Adapter
from skymark.suites.loading.adapter import adapter as register_adapter
from skymark.suites.loading.scenario import SCENARIOS, Scenario, Size

if TYPE_CHECKING:
    from skymark.model.cell import Cell


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
    for entry_point in entry_points(group=group):
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


def adapter_slug(name: str) -> str:
    """Return the slug of an adapter given by slug or display name, keeping any ``@VERSION``.

    A path such as ``./my_loader.py:MyLoader`` is made absolute and returned.

    Raises:
        UnknownNameError: there is none; the message has the nearest name.
    """
    if ".py:" in name:
        path, _, attribute = name.rpartition(":")
        return f"{Path(path).resolve()}:{attribute}"
    plain, at, version = name.partition("@")
    by_name = {cls.name.casefold(): slug for slug, cls in adapters().items()}
    by_name |= {slug.casefold(): slug for slug in adapters()}
    if at and not version:
        raise UsageError(f"adapter {name!r} names no version; write {plain}@VERSION or {plain}")
    if plain.casefold() not in by_name:
        names = [*adapters(), *(cls.name for cls in adapters().values())]
        raise UnknownNameError("adapter", plain, names)
    return f"{by_name[plain.casefold()]}{at}{version}"


def adapter_class(name: str) -> type[Adapter]:
    """Return the class of an adapter given by slug, ``slug@version`` or ``file.py:Class``."""
    if ".py:" in name:
        return _adapter_from_file(name)
    return adapters()[adapter_slug(name).partition("@")[0]]


@cache
def _adapter_from_file(name: str) -> type[Adapter]:
    path_text, _, attribute = name.rpartition(":")
    path = Path(path_text).resolve()
    if not path.is_file():
        raise UsageError(f"no file {path}; give an adapter as PATH.py:CLASS")
    # Workers unpickle classes by module name, so the name must be importable there too.
    module_name = f"skymark_adapter_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file; give an adapter as PATH.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} does not import: {error!r}; mend it and run again") from error
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


def bind_scenario(cell: Cell) -> Scenario:
    """Return the scenario object that a cell names, at its size, axis values and seed."""
    cls = scenario_class(cell.scenario)
    size = Size.model_validate(cell.specification["size"])
    seed = cell.specification.get("seed", 0)
    return cls(size=size, seed=int(str(seed)), axes=dict(cell.axes))
