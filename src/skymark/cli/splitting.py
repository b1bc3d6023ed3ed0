"""The split of a plan between workers: this worker's part of it, and tables of all parts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from skymark.cli.caller import note, print_json, say
from skymark.cli.tables import print_rows
from skymark.execute.partition.shard import (
    ResourceRequest,
    Shard,
    WorkerPart,
    items_of,
    name_of,
    named_keys,
    reasons,
    requests_of,
    shard_of,
    worker_parts,
)
from skymark.execute.partition.split import Split, read_split
from skymark.execute.rank import ALONE, Rank, rank_here, read_rank
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import MISSING, duration


def part_asked_for(
    plan: Plan, shard: str | None, split: str | None, rank: str | None
) -> Shard | None:
    """Return the part of a plan that a command line asks for, and say which it is.

    Args:
        plan: what is split.
        shard: of ``--shard``.
        split: of ``--split``.
        rank: of ``--rank``; None for the rank in the variables.

    Returns:
        None for the whole plan.

    Raises:
        UsageError: they cannot be read, or contradict each other or the variables.
    """
    if shard is not None and (split is not None or rank is not None):
        raise UsageError("--shard I/N means --split balanced --rank I/N; give either")
    if shard is not None:
        return Shard.parse(shard)
    if split is None:
        if rank is not None:
            raise UsageError(
                f"--rank {rank} needs --split, such as even, longest or two-level:5x10"
            )
        return None
    told = read_rank(rank) if rank is not None else rank_here(os.environ)
    found = shard_of(split, told)
    note(_said(plan, found, told))
    return found


def require_split(
    split: str | None, total_cpus: int | None, total_memory_gb: float | None, *, explain: bool
) -> None:
    """Refuse options for a split without a split.

    Raises:
        UsageError: there is such an option.
    """
    if split is None and (explain or total_cpus is not None or total_memory_gb is not None):
        raise UsageError("--explain, --total-cpus and --total-memory need --split, such as even:10")


def print_split(
    plan: Plan,
    text: str,
    total_cpus: int | None,
    total_memory_gb: float | None,
    *,
    explain: bool,
    json: bool,
) -> None:
    """Print what each worker of a split takes, and asks for of a total.

    Raises:
        UsageError: the split cannot be read, or a total is too small for it.
    """
    split = read_split(text)
    items = items_of(plan.cells)
    parts = worker_parts(split, items)
    requests = requests_of(split, total_cpus, total_memory_gb)
    if json:
        why = {"reasons": reasons(split, items)} if explain else {}
        print_json({**_as_json(split, parts, requests), **why})
        return
    asked = {one.type.name: one for one in requests}
    print_rows(
        ("worker", "items", "cells", "round", "CPUs", "GB", "takes"),
        (_row(one, split, asked[one.part.place.type]) for one in parts),
    )
    if explain:
        for line in reasons(split, items):
            note(line)


def print_parts(split: Split, plan: Plan) -> None:
    """Print what each of several machines takes, and how many of them take nothing."""
    from skymark.cloud.rented_run import idle_machines

    parts = worker_parts(split, items_of(plan.cells))
    print_part_rows("machine", parts, len(parts))
    if (idle := idle_machines(split, plan)) is not None:
        say(idle)


def print_part_rows(who: str, parts: Sequence[WorkerPart], count: int) -> None:
    """Print what workers take, a line for each.

    Args:
        who: the word for a worker.
        parts: the workers' parts to show.
        count: number of all workers.
    """
    rows = [
        (
            f"{one.number + 1} of {count}",
            str(len(one.keys)),
            str(one.cells),
            MISSING if one.expected_s is None else duration(one.expected_s),
            named_keys(one.keys),
        )
        for one in parts
    ]
    print_rows((who, "sets", "cells", "round", "takes"), rows)


def _said(plan: Plan, shard: Shard, rank: Rank) -> str:
    split, place = shard.split, shard.split.places[shard.number]
    cells = len(shard.take(plan.cells))
    who = (
        f"{rank.source}, so this is rank 0 of 1"
        if rank is ALONE
        else f"{name_of(place, split)}, rank {shard.number} of {len(split.places)} by {rank.source}"
    )
    said = f"{who}: {cells} of {count_of(len(plan.cells), 'cell')} ({split.text})"
    return f"{said}; {rank.note}" if rank.note else said


def _row(one: WorkerPart, split: Split, asked: ResourceRequest) -> tuple[str, ...]:
    return (
        name_of(one.part.place, split),
        one.span or "none",
        str(one.cells),
        MISSING if one.expected_s is None else duration(one.expected_s),
        MISSING if asked.cpus is None else f"{asked.cpus:g}",
        MISSING if asked.memory_gb is None else f"{asked.memory_gb:g}",
        named_keys(one.keys),
    )


def _as_json(
    split: Split, parts: Sequence[WorkerPart], requests: Sequence[ResourceRequest]
) -> dict[str, object]:
    return {
        "split": split.text,
        "types": [
            {**one.type.model_dump(), "cpus": one.cpus, "memory_gb": one.memory_gb}
            for one in requests
        ],
        "workers": [
            {
                "rank": one.number,
                **one.part.place.model_dump(),
                "items": one.part.items,
                "shard_keys": one.keys,
                "cells": one.cells,
                "round_s": one.expected_s,
            }
            for one in parts
        ],
    }
