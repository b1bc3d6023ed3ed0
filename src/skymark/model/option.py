"""Options and settings of the command line: as suites declare them, and as users write them."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.record import Setting

Group = Literal["what", "how"]
"""Where help shows it: with what is measured, or with how."""


class Option(Frozen):
    """One option of ``skymark run`` that only some suites have.

    Its value goes into `Selection.settings` under its name if it is a setting, which is recorded
    with each cell, else into `Selection.options`.
    """

    name: str
    """As in Python; the command line shows ``think_time_ms`` as ``--think-time-ms``."""
    kind: Literal["text", "integer", "number", "file", "flag"] = "text"
    """``file`` names what lies on this machine, or an address that any machine can read; ``flag``
    takes no value."""
    help: str
    group: Group = "how"
    choices: tuple[str, ...] = ()
    several: bool = False
    default: str | int | float | None = None
    setting: bool = False
    rare: bool = False
    """Whether only ``--help-all`` shows it."""


def read_pair(text: str, option: str = "--set") -> tuple[str, Setting]:
    """Read a setting, NAME=VALUE.

    Raises:
        UsageError: it is none.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} {text!r} must be NAME=VALUE")
    return name.strip().replace("-", "_"), read_value(value)


def read_value(text: str) -> Setting:
    """Read a setting's value: true/false, an integer, a decimal number, else text."""
    if text.casefold() in {"true", "false"}:
        return text.casefold() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
