"""How many examples are made of the properties that take long for every one."""

from __future__ import annotations

import os
from typing import NamedTuple


class Examples(NamedTuple):
    """Numbers of examples of a property."""

    few: int
    """In `make test`."""
    many: int
    """In `nox -s attacks`."""


EXAMPLES = {
    "SKYMARK_ANY_BYTES": Examples(few=15, many=60),
    "SKYMARK_ANY_TEXT": Examples(few=14, many=40),
    "SKYMARK_NAMES": Examples(few=8, many=25),
    "SKYMARK_NEIGHBOURS": Examples(few=3, many=100),
    "SKYMARK_PLANTED": Examples(few=15, many=200),
}
"""By the environment variable that asks for another number; docs/reference/evidence.md has them."""


def examples(variable: str) -> int:
    """Return the number of examples to make."""
    return int(os.environ.get(variable, EXAMPLES[variable].few))
