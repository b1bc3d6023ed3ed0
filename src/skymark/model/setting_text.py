"""Settings as users write them on the command line: ``NAME=VALUE``."""

from __future__ import annotations

from skymark.model.cell import Setting
from skymark.model.errors import UsageError


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
