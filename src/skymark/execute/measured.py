"""Times of earlier runs in place of a plan's guesses; they travel with the plan's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skymark.model.errors import UsageError
from skymark.model.plan import Plan, PlannedCell
from skymark.model.span import Span
from skymark.run.history import PastRun, past_run
from skymark.run.reader import open_run


def with_measured_times(plan: Plan, runs: Sequence[Path]) -> Plan:
    """Return a plan whose cells take as long as they took in earlier runs; its hash stays.

    Every worker that gets this plan splits it alike. Read by each worker for itself, the times
    would change while others write theirs.

    Args:
        plan: the cells; those that no run has keep their guess.
        runs: directories of runs, the one that counts first.

    Raises:
        UsageError: one is no run, or none has a cell of the plan.
    """
    known = [past for path in runs if (past := _past(path)) is not None]
    cells = [_with_time(planned, known) for planned in plan.cells]
    if not any(new is not old for new, old in zip(cells, plan.cells, strict=True)):
        named = ", ".join(map(str, runs))
        raise UsageError(
            f"--measured {named}: no cell of the plan was measured there; name a run of the same "
            "scenarios, sizes, adapters and settings"
        )
    return plan.model_copy(update={"cells": tuple(cells)})


def _past(path: Path) -> PastRun | None:
    run = open_run(path)
    return past_run(run.manifest, run.records)


def _with_time(planned: PlannedCell, known: Sequence[PastRun]) -> PlannedCell:
    for past in known:
        if (seen := past.cells.get(planned.cell.hash)) is not None:
            took = Span(low_s=seen.round_s, expected_s=seen.round_s, high_s=seen.round_s)
            return planned.model_copy(update={"guess": took})
    return planned
