"""Commands of a suite's own: its words for scenarios and adapters, and its tables.

A package declares them by an entry point of the group ``skymark.commands``, whose name is the
suite's. The first line of the module that has the object is the group's help: it is read without
the module being imported.
"""

from __future__ import annotations

from skymark.model.base import Frozen

GROUP = "skymark.commands"


class Words(Frozen):
    """The suite's word for what the command line chooses."""

    option: str
    """In the plural, such as ``models`` for ``--models``."""
    one: str
    """In the singular, such as ``data set``."""
    help: str


class Sheet(Frozen):
    """A table with a row per adapter, and a column per scenario and metric."""

    name: str
    variants: tuple[str, ...]
    """Of the scenarios in it."""
    metrics: tuple[str, ...]
    """Names of those that are shown, unless others are asked for."""


class SuiteCommands(Frozen):
    """The commands ``skymark SUITE plan | run | submit | status | table``."""

    suite: str
    profile: str
    """Where everything comes from that is not given."""
    scenarios: Words
    adapters: Words
    sheets: tuple[Sheet, ...]
