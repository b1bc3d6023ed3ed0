"""A rank: a worker's number among several, and who told it."""

from __future__ import annotations

import re

from pydantic import Field

from skymark.execute.partition.split import MOST_WORKERS
from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class Rank(Frozen):
    """A worker's number among several, from 0."""

    index: int = Field(ge=0)
    count: int | None = Field(default=None, ge=1)
    """Of all; None where nothing tells it."""
    told_by: str
    """The variable that tells the number, with its value, or the option."""
    counted_by: str = ""
    """The variable that tells how many there are, with its value."""
    note: str = ""
    """What the user should know of it."""

    @property
    def source(self) -> str:
        """Who told it, for messages."""
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
    """Of its type; None where nothing tells it."""
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
