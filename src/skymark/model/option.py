"""An option of the command line, as a suite declares it."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Frozen

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
