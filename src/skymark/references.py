"""Objects named as ``module:name``, by a text or by an entry point, imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def load_object(reference: str) -> Any:
    """Return the object that ``module:name`` names.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such name.
    """
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def imported_when_called(reference: str) -> Callable[..., Any]:
    """Return a function that imports ``module:name`` when it is called, and calls that."""

    def call(*arguments: Any) -> Any:
        return load_object(reference)(*arguments)

    return call


def extensions(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, of every package that is installed."""
    return _extensions().get(group, ())


@cache
def _extensions() -> dict[str, tuple[EntryPoint, ...]]:
    """Read the entry points of all packages by group, once, because it takes tens of ms."""
    points = entry_points()
    return {group: tuple(points.select(group=group)) for group in points.groups}
