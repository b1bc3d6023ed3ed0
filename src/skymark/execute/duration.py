"""The time that a plan takes to measure: from earlier runs of the same cells, else its bounds.

Pure functions: one estimate for ``skymark plan``, the progress bar and the price of a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace
from itertools import islice
from pathlib import Path
from typing import Literal

from skymark.execute.partition.shard import items_of, worker_parts
from skymark.execute.partition.split import Split
from skymark.model.base import Frozen
from skymark.model.duration import NOTHING, Span
from skymark.model.effort import Effort
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, PlannedCell
from skymark.model.sizes import count_of
from skymark.rundir.history import PastRun, past_run, read_history
from skymark.rundir.reader import open_run

LATEST = 10
"""Number of earlier runs to read for an estimate: reading all would take seconds."""

SAME_PROFILE_FACTOR = 1.5
"""Largest ratio of the speeds of two machines of one profile. Assumed."""

OTHER_PROFILE_FACTOR = 3.0
"""Largest ratio of the speeds of machines of two profiles. Assumed."""

EXPECTED_START_S = 4.0
"""Time to start a process that imports a library. Builds for the CPU took 0.5 to 5 s on two cores;
torch and JAX for CUDA 4 to 9 s on a machine with an H100 (`skymark run`)."""

HIGH_START_S = 30.0
"""Time to start such a process on a slow or loaded machine. Assumed."""

EXPECTED_FORK_S = 1.0
"""Time to replace the process of a round by a fork with the library imported. A fork takes 0.1 to
0.3 s; one library in five cannot be forked and starts anew."""

ASKING = Span(low_s=1, expected_s=5, high_s=60)
"""Time for all imported libraries to find their accelerator, in parallel. Assumed: a device takes
a few seconds to get ready."""

Imports = Literal["first", "each", "none"]
"""Rounds of a group whose process imports the library: in pairs each, else the adapter's first."""

SIDES = 2
"""Sides of a comparison in pairs."""

EXPECTED_SHARE_OF_LIMIT = 0.5
"""Expected time of a round without a guess by its suite, as a share of its time limit. Assumed."""

DATA_PER_SCENARIO = Span(low_s=1, expected_s=15, high_s=75)
"""Time to generate the data of one scenario and size. At size medium it took 0.1 to 75 s each,
180 s for thirteen (`skymark run --profile cpu --adapters numpy`, two cores)."""

DATA_PER_ADAPTER = Span(low_s=0.1, expected_s=1, high_s=15)
"""Time to convert that data for one adapter: 0.1 to 4 s in the same run. At size small it is less
than 1 s: 39 s with existing data, 62 s without, for three scenarios and eight adapters
(`skymark run --profile ci_cpu --effort check`). The high figure is assumed."""


class RunTime(Frozen):
    """The time of a run on a machine whose venvs are made."""

    preparing: Span
    """Time to make absent data."""
    measuring: Span
    """Time of all rounds, with the starts of their processes."""
    least_rounds: Span
    """Time of the fewest rounds of each cell that a ranking needs."""
    cells: int
    """Cells to measure."""
    known_cells: int
    """Cells with a time from earlier runs."""

    @property
    def whole(self) -> Span:
        """Preparing and measuring."""
        return self.preparing.plus(self.measuring)


def run_time(
    plan: Plan,
    history: Sequence[PastRun] = (),
    part: Sequence[PlannedCell] | None = None,
    *,
    in_pairs: bool = False,
) -> RunTime:
    """Return the time that a plan takes.

    Args:
        plan: the cells and the effort.
        history: earlier runs on any machine; runs of the plan's profile and effort come first.
        part: cells of the plan to measure; None for all.
        in_pairs: whether each round is measured on two sides, in a process of its own.
    """
    ranked = sorted(history, key=lambda past: _likeness(past, plan), reverse=True)
    wanted = plan.cells if part is None else part
    cells = [planned for planned in wanted if planned.refusal is None]
    bounds = plan.bounds
    least = bounds.model_copy(update={"max_rounds": bounds.min_rounds})
    least_rounds = _measuring(cells, plan, least, ranked, in_pairs=in_pairs)
    if plan.allotment is None:
        measuring = _measuring(cells, plan, bounds, ranked, in_pairs=in_pairs)
    else:
        time_s = plan.allotment.time_s if cells else 0.0
        measuring = least_rounds.at_most(time_s).model_copy(
            update={"expected_s": time_s, "high_s": time_s}
        )
    return RunTime(
        preparing=_preparing(cells).plus(NOTHING if plan.platform == "cpu" else ASKING),
        measuring=measuring,
        least_rounds=least_rounds,
        cells=len(cells),
        known_cells=sum(_known(one, ranked) is not None for one in cells),
    )


def _likeness(past: PastRun, plan: Plan) -> tuple[bool, bool, float]:
    """Return the likeness of an earlier run to a plan; more is better."""
    same_effort = past.effort.limits == plan.effort.limits
    return past.profile == plan.profile, same_effort, past.created_at.timestamp()


def _known(planned: PlannedCell, ranked: Sequence[PastRun]) -> PastRun | None:
    return next((past for past in ranked if planned.cell.hash in past.cells), None)


def _preparing(cells: Sequence[PlannedCell]) -> Span:
    sizes = {(one.cell.scenario, one.cell.variant) for one in cells}
    conversions = {(one.cell.scenario, one.cell.variant, one.cell.adapter) for one in cells}
    return DATA_PER_SCENARIO.times(len(sizes)).plus(DATA_PER_ADAPTER.times(len(conversions)))


def require_time(plan: Plan, time: RunTime) -> None:
    """Refuse a run whose time is too short for the fewest rounds of its cells.

    Args:
        plan: plan, with the time for its rounds, if any.
        time: estimate for the plan or for the worker's part.

    Raises:
        UsageError: the time is too short even at best.
    """
    least_s = time.least_rounds.low_s
    if plan.allotment is None or least_s <= plan.allotment.time_s:
        return
    rounds, cells = count_of(plan.bounds.min_rounds, "round"), count_of(time.cells, "cell")
    raise UsageError(
        f"the time of {plan.allotment.time_s:g} s is too short for {rounds} of {cells}, which take "
        f"at least {least_s:.0f} s; give a longer --time, or fewer scenarios or adapters"
    )


def _measuring(
    cells: Sequence[PlannedCell],
    plan: Plan,
    bounds: Effort,
    ranked: Sequence[PastRun],
    *,
    in_pairs: bool,
) -> Span:
    total = NOTHING
    for planned in cells:
        past = _known(planned, ranked)
        if past is None:
            total = total.plus(_guessed(planned, bounds))
        else:
            total = total.plus(_remembered(planned, past, plan, bounds))
    groups = [(one.group, one.cell.adapter) for one in cells]
    imported: set[str] = set()
    for group, adapter in groups if in_pairs else dict.fromkeys(groups):
        imports: Imports = "each" if in_pairs else "none" if adapter in imported else "first"
        total = total.plus(_starts(group, plan, bounds, ranked, imports=imports))
        imported.add(adapter)
    return total.times(SIDES if in_pairs else 1)


def _remembered(planned: PlannedCell, past: PastRun, plan: Plan, effort: Effort) -> Span:
    """Return a cell's time from an earlier run of it.

    If the plan asks for a longer round, the estimate is longer. If it allows a shorter round, the
    estimate stays, because a round has a least amount of work.
    """
    seen = past.cells[planned.cell.hash]
    least_s = 0.0 if planned.guess is None else planned.guess.low_s
    round_s = seen.round_s + max(0.0, least_s - seen.timed_s)
    rounds = min(max(seen.rounds, effort.min_rounds), effort.max_rounds)
    factor = _factor(past, plan)
    return Span(
        low_s=effort.min_rounds * round_s / factor,
        expected_s=rounds * round_s,
        high_s=effort.max_rounds * min(round_s * factor, effort.cell_timeout_s),
    )


def _guessed(planned: PlannedCell, effort: Effort) -> Span:
    """Return a cell's time from the suite's guess, or else from its time limit."""
    limit_s = effort.cell_timeout_s
    guess = planned.guess or Span(
        low_s=0, expected_s=limit_s * EXPECTED_SHARE_OF_LIMIT, high_s=limit_s
    )
    return Span(
        low_s=effort.min_rounds * guess.low_s,
        expected_s=_expected_rounds(effort) * guess.expected_s,
        high_s=effort.max_rounds * guess.high_s,
    )


def _starts(
    group: str, plan: Plan, effort: Effort, ranked: Sequence[PastRun], *, imports: Imports
) -> Span:
    """Return the time to start the process of a group, once a round."""
    rounds = _expected_rounds(effort)
    for past in ranked:
        if (seen_s := past.start_s.get(group)) is not None:
            factor = _factor(past, plan)
            return Span(
                low_s=effort.min_rounds * seen_s / factor,
                expected_s=min(max(past.rounds, effort.min_rounds), rounds) * seen_s,
                high_s=effort.max_rounds * seen_s * factor,
            )
    first_s = 0.0 if imports == "none" else EXPECTED_START_S
    later_s = EXPECTED_START_S if imports == "each" else EXPECTED_FORK_S
    return Span(
        low_s=0,
        expected_s=first_s + (rounds - bool(first_s)) * later_s,
        high_s=effort.max_rounds * HIGH_START_S,
    )


def _expected_rounds(effort: Effort) -> float:
    return (effort.min_rounds + effort.max_rounds) / 2


def _factor(past: PastRun, plan: Plan) -> float:
    return SAME_PROFILE_FACTOR if past.profile == plan.profile else OTHER_PROFILE_FACTOR


def time_of_split(plan: Plan, split: Split, runs: Path) -> tuple[Span, float]:
    """Return the time of the longest part of a split plan, and the seconds until all have ended.

    Args:
        plan: what is split.
        split: between the workers.
        runs: directory of earlier runs.

    Raises:
        UsageError: the plan has no cells.
    """
    if not plan.cells:
        raise UsageError("the plan has no cells; choose other --scenarios or --adapters")
    history = read_history(runs, plan, latest=LATEST)
    times = []
    for part in worker_parts(split, items_of(plan.cells)):
        cells = [one for one in plan.cells if one.shard_key in part.keys]
        times.append(run_time(plan, history, cells).whole if cells else NOTHING)
    whole_s, following = 0.0, iter(times)
    for one in split.types:
        for _ in range(one.count):
            busy_s = [0.0] * one.at_once
            for time in islice(following, one.completions):
                heapreplace(busy_s, busy_s[0] + time.expected_s)
            whole_s = max(whole_s, *busy_s)
    return max(times, key=lambda time: time.expected_s), whole_s


def with_measured_times(plan: Plan, runs: Sequence[Path]) -> Plan:
    """Return a plan with the cells' times from earlier runs; its hash stays.

    Every worker that gets this plan splits it alike. If each worker read the times itself, other
    workers could change them meanwhile.

    Args:
        plan: the cells; cells that no run has keep their guess.
        runs: directories of runs; earlier ones take precedence.

    Raises:
        UsageError: a directory has no run, or no run has a cell of the plan.
    """
    opened = map(open_run, runs)
    known = [past for run in opened if (past := past_run(run.manifest, run.records)) is not None]
    cells = [_with_time(planned, known) for planned in plan.cells]
    if not any(new is not old for new, old in zip(cells, plan.cells, strict=True)):
        named = ", ".join(map(str, runs))
        raise UsageError(
            f"--measured {named}: no cell of the plan was measured there; name a run of the same "
            "scenarios, sizes, adapters and settings"
        )
    return plan.model_copy(update={"cells": tuple(cells)})


def _with_time(planned: PlannedCell, known: Sequence[PastRun]) -> PlannedCell:
    for past in known:
        if (seen := past.cells.get(planned.cell.hash)) is not None:
            took = Span(low_s=seen.round_s, expected_s=seen.round_s, high_s=seen.round_s)
            return planned.model_copy(update={"guess": took})
    return planned
