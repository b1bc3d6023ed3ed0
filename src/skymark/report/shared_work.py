"""The time that workers take who share a plan, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapreplace

from skymark.execute.duration import LATEST, run_time
from skymark.execute.partition.shard import idle_workers, items_of, worker_parts
from skymark.execute.partition.split import Split
from skymark.execute.project_file import results_directory
from skymark.model.duration import Span
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import duration
from skymark.rundir.history import PastRun, read_history


def shared_work(plan: Plan, split: Split, limit_s: int | None = None) -> list[str]:
    """Return sentences on the work of a split: expected time, parts, and workers without work.

    Args:
        plan: what is split.
        split: between the workers.
        limit_s: after which all are ended; None for no limit, or where they go on by themselves.

    Raises:
        UsageError: the plan has no cells.
    """
    items = items_of(plan.cells)
    parts = worker_parts(split, items)
    history = read_history(results_directory(), plan, latest=LATEST)
    times = {one.number: _time_of(plan, one.keys, history) for one in parts if one.keys}
    if not times:
        raise UsageError("the plan has no cells; choose other --scenarios or --adapters")
    longest = max(times.values(), key=lambda time: time.expected_s)
    whole_s = max(
        _elapsed_s([times[number].expected_s for number in numbers if number in times], at_once)
        for numbers, at_once in _jobs(split)
    )
    who = "One worker measures" if len(parts) == 1 else f"{len(times)} workers measure"
    said = f"{who} {count_of(len(plan.runnable), 'cell')}; the longest part takes about "
    said += f"{duration(longest.expected_s)} ({duration(longest.low_s)} to "
    said += f"{duration(longest.high_s)}) once venvs are made"
    if whole_s > longest.expected_s:
        said += f", and all parts about {duration(whole_s)}"
    sentences = [said, *idle_workers(split, parts, len(items))]
    if limit_s is not None and whole_s > limit_s:
        sentences.append(
            f"the deadline of {duration(limit_s)} may end them before that; give a longer "
            "--deadline, or go on with the same --run-id"
        )
    return sentences


def _time_of(plan: Plan, keys: Sequence[str], history: Sequence[PastRun]) -> Span:
    cells = tuple(one for one in plan.cells if one.shard_key in keys)
    return run_time(plan.model_copy(update={"cells": cells}), history).whole


def _jobs(split: Split) -> Iterator[tuple[range, int]]:
    """Yield the workers of each slice, by number, and how many of them run at once."""
    first = 0
    for one in split.types:
        for _ in range(one.count):
            yield range(first, first + one.completions), one.at_once
            first += one.completions


def _elapsed_s(times_s: Sequence[float], at_once: int) -> float:
    """Return the time until all have ended, of which some run at once, in their order."""
    busy_s = [0.0] * at_once
    for time_s in times_s:
        heapreplace(busy_s, busy_s[0] + time_s)
    return max(busy_s)
