"""The manifest of a run: as it begins, and as it is written down at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from skymark.machine.facts import capture
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.manifest import RUN_ID, Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.run.directory import RunDirectory
from skymark.store.store import Store
from skymark.suite.contract import Suite


def begun(
    plan: Plan,
    suite: Suite,
    path: Path,
    cache: Path,
    stores: Mapping[str, Store],
    cache_policy: str | None = None,
) -> Manifest:
    """Return the manifest of a run that begins now on this machine.

    Raises:
        UsageError: its directory's name is none for a run.
    """
    return Manifest(
        run_id=run_id_of(path),
        created_at=datetime.now(UTC),
        plan=plan,
        plan_hash=plan.hash,
        declaration=suite.declared(planned.cell for planned in plan.cells),
        machine=capture(cache),
        stores=tuple(store.url for store in stores.values()),
        cache_policy=cache_policy,
    )


def write_end(run: RunDirectory, plan: Plan, records: Iterable[Record] = ()) -> None:
    """Write the manifest and the digests of a run that came to its end here.

    Args:
        run: its directory.
        plan: the run's.
        records: those that need no reading.
    """
    known = {record.cell_hash: record for record in records}
    cells = [planned.cell for planned in plan.cells]
    found = [known.get(cell.hash) or run.record(cell) for cell in cells]
    run.write_manifest(_ended(run, found))
    # What is there of a cell without a record is damaged, or another machine writes it.
    lost = [cell for cell, record in zip(cells, found, strict=True) if record is None]
    run.write_sums({path for cell in lost for path in run.result_paths(cell)})


def _ended(run: RunDirectory, found: Sequence[Record | None]) -> Manifest:
    """Return the manifest of a run that came to its end here; another shard may be missing."""
    return run.manifest().model_copy(
        update={
            "ended_at": datetime.now(UTC),
            "finished": None not in found,
            "counts": dict(Counter(record.status for record in found if record is not None)),
        }
    )


def run_id_of(path: Path) -> str:
    """Return the id of the run in a directory: its manifest's, or that of a run begun there.

    Raises:
        UsageError: the directory's name is none for a run.
    """
    with suppress(RunDirectoryError):
        return RunDirectory(path).manifest().run_id
    name = path.resolve().name
    if not RUN_ID.fullmatch(name):
        raise UsageError(
            f"--output {path}: a run is called after its directory, and {name!r} begins with a "
            "dot or a space, is longer than 200 characters or has some that no name has; choose "
            "another"
        )
    return name
