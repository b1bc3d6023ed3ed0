"""Options and settings of the command line: declarations of suites, and texts of users."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.record import Setting

Group = Literal["what", "how"]
"""Section of the help: the measured work, or the method."""


class Option(Frozen):
    """Option of ``skymark run`` that only some suites have.

    The value of a setting goes into `Selection.settings` and is recorded with each cell. Other
    values go into `Selection.options`.
    """

    name: str
    """As in Python; the command line shows ``think_time_ms`` as ``--think-time-ms``."""
    kind: Literal["text", "integer", "number", "file", "flag"] = "text"
    """``file`` is a path on this machine, or an address that any machine can read; ``flag`` takes
    no value."""
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
        UsageError: the text is not NAME=VALUE.
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
