"""The shard of a rank: the worker of a split that this process is."""

from __future__ import annotations

from skymark.execute.partition.shard import Shard
from skymark.execute.partition.split import Place, Split, WorkerType, read_split
from skymark.execute.ranks.rank import ALONE, Rank, ReplicaRank
from skymark.model.errors import UsageError


def shard_of(text: str, rank: Rank) -> Shard:
    """Return the part of a split that a rank takes.

    Args:
        text: of ``--split``; without a number of workers it is the rank's count.
        rank: of this process.

    Raises:
        UsageError: split and rank contradict each other; the message names both.
    """
    split = read_split(text, rank.count)
    if isinstance(rank, ReplicaRank):
        return Shard(split=split, number=split.places.index(_place_of_pod(split, rank)))
    count = len(split.places)
    if rank is ALONE and count > 1:
        raise UsageError(
            f"--split {split.text} has {count} workers, and {rank.source}: nothing says which of "
            f"them this is; give --rank I/{count}"
        )
    if rank.count is not None and rank.count != count:
        raise _contradiction(split, rank, f"the split has {count} workers, and {rank.count} run")
    if rank.index >= count:
        raise _contradiction(split, rank, f"the split has {count} workers, from 0 to {count - 1}")
    return Shard(split=split, number=rank.index)


def _place_of_pod(split: Split, rank: ReplicaRank) -> Place:
    """Return the place of a pod: by its type where the split has several, and its replica."""
    if len(split.types) > 1:
        return _place_in(split, _type_of(split, rank), rank, rank.job, rank.replicas)
    (only,) = split.types
    if only.completions == 1 and rank.count == 1:
        # One replica, whose completions are the workers.
        if rank.completion >= only.count:
            raise _contradiction(split, rank, f"the split has {only.count} workers")
        return Place(type=only.name, index=rank.completion)
    return _place_in(split, only, rank, rank.index, rank.count)


def _type_of(split: Split, rank: ReplicaRank) -> WorkerType:
    found = [one for one in split.types if one.name == rank.type]
    if not found:
        names = ", ".join(one.name for one in split.types)
        raise _contradiction(split, rank, f"the types of the split are {names}")
    return found[0]


def _place_in(
    split: Split, kind: WorkerType, rank: ReplicaRank, index: int, count: int | None
) -> Place:
    if count is not None and count != kind.count:
        raise _contradiction(
            split, rank, f"the split has {kind.count} of the type {kind.name}, and {count} run"
        )
    if index >= kind.count:
        raise _contradiction(split, rank, f"the split has {kind.count} of the type {kind.name}")
    if rank.completion >= kind.completions:
        raise _contradiction(
            split,
            rank,
            f"the split has {kind.completions} completions for each worker; all of a replica share "
            "its number, and a split such as two-level:5x10 tells them apart",
        )
    return Place(type=kind.name, index=index, completion=rank.completion)


def _contradiction(split: Split, rank: Rank, why: str) -> UsageError:
    return UsageError(
        f"--split {split.text} and {rank.source} contradict each other: {why}. Change the split, "
        "or give --rank I/N"
    )
