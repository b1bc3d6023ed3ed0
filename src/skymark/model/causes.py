"""Explanation and advice for each kind of cause, warning and finding, from ``causes.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from skymark.model.base import Frozen

Given = Literal["invalid", "unsupported", "skipped", "timeout", "failed", "warning", "doctor"]
"""Status of a record with such a cause, a warning in a record, or a finding of `doctor`."""


class Explanation(Frozen):
    """Meaning of one kind, and the next action."""

    kind: str
    given: tuple[Given, ...]
    meaning: str
    action: str
    page: str | None = None
    """A page below ``docs/`` with details."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanation of every kind by its name, in the order of the file."""
    text = Path(__file__).with_name("causes.toml").read_text("utf-8")
    return {kind: Explanation(kind=kind, **entry) for kind, entry in tomllib.loads(text).items()}
