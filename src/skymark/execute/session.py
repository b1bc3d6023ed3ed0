"""A whole run: directory, machine lock, engine, final manifest."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from skymark.execute.engine import Engine, Observer
from skymark.execute.environments import Environments
from skymark.execute.locations import cache_directory
from skymark.execute.machine_lock import measuring
from skymark.execute.planner import suite_named
from skymark.measure.environment import capture
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record, Status
from skymark.store.local import RunDirectory


def run_plan(
    plan: Plan,
    path: Path,
    observer: Observer,
    *,
    resume: bool = False,
    retry: Collection[Status] = (),
    own: bool = True,
) -> list[Record]:
    """Carry out a plan into a directory; returns all records in the plan's order.

    Args:
        plan: what to run.
        path: the run's directory, made if absent.
        observer: told how it goes.
        resume: continue a run of the same plan.
        retry: statuses whose cells are to be run again.
        own: give each adapter an environment of its own; else use the running one.

    Raises:
        RunDirectoryError: the directory is another plan's or cannot be written.
        StorageFullError: a write was refused in the middle; what was written is intact.
    """
    cache = cache_directory()
    suite = suite_named(plan.cells[0].cell.suite)
    manifest = Manifest(
        run_id=path.resolve().name,
        created_at=datetime.now(UTC),
        plan=plan,
        plan_hash=plan.hash,
        environment=capture(cache),
    )
    run = RunDirectory.create(path, manifest, plan, resume=resume)
    environments = Environments(cache, observer.stage) if own else None
    engine = Engine(plan, suite, run, cache, observer, environments, Path(sys.executable))
    with measuring(announce=observer.stage):
        records = engine.run(retry)
    run.write_manifest(
        run.manifest().model_copy(
            update={
                "ended_at": datetime.now(UTC),
                "finished": True,
                "counts": dict(Counter(record.status for record in records)),
            }
        )
    )
    return records
