"""A rank: a worker's number among several, read strictly from variables, with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field

from skymark.execute.partition.split import MOST_WORKERS
from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class Rank(Frozen):
    """A worker's number among several, from 0."""

    index: int = Field(ge=0)
    count: int | None = Field(default=None, ge=1)
    """Number of all workers; None if unknown."""
    told_by: str
    """The variable of the number, with its value, or the option."""
    counted_by: str = ""
    """The variable of the count, with its value."""
    note: str = ""
    """A note for the user."""

    @property
    def source(self) -> str:
        """The variables or the option of the rank, for messages."""
        return f"{self.told_by} of {self.counted_by}" if self.counted_by else self.told_by


class ReplicaRank(Rank):
    """The rank of a pod of a JobSet: `index` and `count` are of its replica, over all types.

    All completions of a replica share these.
    """

    type: str
    """The replicated job's name."""
    job: int = Field(ge=0)
    """Number of the replica within its type."""
    replicas: int | None = Field(default=None, ge=1)
    """Number of replicas of its type; None if unknown."""
    completion: int = Field(default=0, ge=0)
    """Number of the pod within its replica."""


ALONE = Rank(index=0, count=1, told_by="no variable tells a rank")


def read_rank(text: str) -> Rank:
    """Read ``--rank 3/10``.

    Raises:
        UsageError: it is not INDEX/COUNT with 0 ≤ INDEX < COUNT.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if match is None or not int(match[1]) < int(match[2]) <= MOST_WORKERS:
        raise UsageError(f"--rank {text!r} must be INDEX/COUNT, such as 0/2 and 1/2")
    return Rank(index=int(match[1]), count=int(match[2]), told_by=f"--rank {text}")


Variables = Mapping[str, str]

LARGEST = 4_000_000
"""Largest number of a task in Slurm (``MaxArraySize`` 4,000,001)."""


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
            f"{shown(variables, name)} is not a worker's number; unset {name}, or give --rank I/N"
        )
    return int(text)


def pair(variables: Variables, index_name: str, count_name: str) -> tuple[int, int] | None:
    """Return a worker's number and the count of workers; None if the number is not set.

    Raises:
        UsageError: a variable is missing or no number, or the number is not below the count.
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
    """Refuse a number that is not below the count, and more than `MOST_WORKERS` workers.

    Raises:
        UsageError: the number or the count is out of range.
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
