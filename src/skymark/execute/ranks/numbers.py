"""Numbers in variables, read strictly: a rank that is misread measures another's cells."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skymark.execute.partition.split import MOST_WORKERS
from skymark.model.errors import UsageError

Variables = Mapping[str, str]

LARGEST = 4_000_000
"""Above the largest number of a task that Slurm takes (``MaxArraySize`` 4,000,001)."""


def number(variables: Variables, name: str, least: int = 0) -> int | None:
    """Return the number in a variable; None where it is not set, or empty.

    Raises:
        UsageError: it holds something else.
    """
    text = variables.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", text) or not least <= int(text) <= LARGEST:
        raise UsageError(
            f"{shown(variables, name)} is no number of a worker; unset {name}, or give --rank I/N"
        )
    return int(text)


def pair(variables: Variables, index_name: str, count_name: str) -> tuple[int, int] | None:
    """Return a worker's number and how many there are; None where the number is not set.

    Raises:
        UsageError: one of them is missing or no number, or the number is not below the count.
    """
    index = number(variables, index_name)
    count = number(variables, count_name, least=1)
    if index is None:
        return None
    if count is None:
        raise UsageError(
            f"{shown(variables, index_name)} is set and {count_name} is not; set both, or give "
            "--rank I/N"
        )
    require_below(variables, index, index_name, count, count_name)
    return index, count


def require_below(
    variables: Variables, index: int, index_name: str, count: int, count_name: str
) -> None:
    """Refuse a number that is not below the count, and more workers than a split has.

    Raises:
        UsageError: it is so.
    """
    if index >= count or count > MOST_WORKERS:
        raise UsageError(
            f"{shown(variables, index_name)} and {shown(variables, count_name)} contradict each "
            f"other: numbers go from 0 to one below the count, which is {MOST_WORKERS:,} at most; "
            "give --rank I/N"
        )


def shown(variables: Variables, name: str) -> str:
    """Return a variable with its value, as a message names it."""
    return f"{name}={variables[name]}"
