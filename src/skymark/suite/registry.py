"""Suites, found by the entry points of the group ``skymark.suites``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from skymark.model.errors import UnknownNameError, UsageError
from skymark.resources import extensions

if TYPE_CHECKING:
    from skymark.suite.contract import Suite

GROUP = "skymark.suites"
COMMANDS = "skymark.commands"
"""Entry points of suites' own commands, each named after its suite. The first line of the module's
docstring is their help: it is read without importing the module."""


@cache
def _entry_points() -> dict[str, EntryPoint]:
    points: dict[str, EntryPoint] = {}
    for point in extensions(GROUP):
        if point.name in points and points[point.name].value != point.value:
            raise UsageError(
                f"two packages have a suite {point.name!r}: {points[point.name].value} and "
                f"{point.value}; remove one of them"
            )
        points[point.name] = point
    return dict(sorted(points.items()))


def suites_with_commands() -> tuple[EntryPoint, ...]:
    """Return the entry points of suites that bring a `cyclopts.App` of their own."""
    return extensions(COMMANDS)


def suite_names() -> tuple[str, ...]:
    """Return the names of the suites that are installed."""
    return tuple(_entry_points())


@cache
def suite_named(name: str) -> Suite:
    """Return a suite's planning side.

    Raises:
        UnknownNameError: there is no such suite.
        UsageError: the package that has it does not load.
    """
    known = _entry_points()
    if name not in known:
        raise UnknownNameError("suite", name, known)
    try:
        suite: Suite = known[name].load()()
    except Exception as error:  # another package's code, which can raise anything
        raise UsageError(
            f"the suite {name!r} ({known[name].value}) does not load: {error}; mend or remove the "
            "package that has it"
        ) from error
    return suite


def suites() -> tuple[Suite, ...]:
    """Return the planning sides of all suites that are installed.

    Raises:
        UsageError: a suite does not load.
    """
    return tuple(suite_named(name) for name in suite_names())
