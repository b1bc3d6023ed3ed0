"""Mending of a run's directory before it goes on: damaged files go aside, the manifest comes back.

A cell whose record is not there any more is measured again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from skymark.model.errors import DamagedManifestError, RunDirectoryError
from skymark.model.manifest import Manifest
from skymark.model.record import Record
from skymark.plain_files import read_below
from skymark.run.directory import RunDirectory, parse_round
from skymark.run.layout import MANIFEST, SUMS, cell_of
from skymark.run.reader import read_manifest, read_record
from skymark.whole_files import explained

ASIDE = ".damaged"
"""Suffix of a file that was set aside: it is none of the run's any more."""


def mend(path: Path, manifest: Manifest, damaged: Mapping[str, str]) -> Iterator[str]:
    """Make a run's directory one that can be continued; yields what was done, in words.

    Args:
        path: the run's directory.
        manifest: of the run as it would begin here, with the plan that is to go on.
        damaged: files that are not as they were written, with the reasons.

    Raises:
        RunDirectoryError: the manifest is lost, and what is there belongs to another plan.
        StorageFullError: a file cannot be renamed or written.
    """
    run = RunDirectory(path)
    with explained(path):
        if _lacks_manifest(run):
            records = require_records_of(run, manifest)
            begun = min((record.started_at for record in records), default=manifest.created_at)
            if os.path.lexists(path / MANIFEST):
                _set_aside(path, MANIFEST)
            run.write_manifest(manifest.model_copy(update={"created_at": begun}))
            yield (
                f"{path / MANIFEST} was damaged or lost; made anew from the plan and "
                f"{len(records)} records"
            )
        for one, reason in damaged.items():
            if one not in {MANIFEST, SUMS} and os.path.lexists(path / one):
                _set_aside(path, one)
                yield f"{path / one} {reason}; it is now {Path(one).name}{ASIDE}"


def _lacks_manifest(run: RunDirectory) -> bool:
    """Whether there is a run whose manifest is damaged or lost."""
    try:
        read_manifest(run.path)
    except DamagedManifestError:
        return True
    except RunDirectoryError:
        return not os.path.lexists(run.path / MANIFEST) and bool(run.files())
    return False


def require_records_of(run: RunDirectory, manifest: Manifest) -> list[Record]:
    """Return the records that can be read, all of them of this plan.

    Raises:
        RunDirectoryError: a file is of a cell that the plan has not, or has otherwise.
    """
    records: list[Record] = []
    hashes = {id: cell.hash for id, cell in manifest.cells.items()}
    for path in run.files():
        id = cell_of(path)
        if not id:
            continue
        if id not in hashes:
            raise _other_plan(run, path)
        try:
            if path.startswith("records/"):
                record = read_record(run.path / path)
                found = record.cell_hash
                records.append(record)
            elif path.startswith("rounds/"):
                found = parse_round(read_below(run.path, path)).cell_hash
            else:
                continue
        except (OSError, ValueError):
            continue
        if found != hashes[id]:
            raise _other_plan(run, path)
    return records


def _other_plan(run: RunDirectory, path: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"the manifest of {run.path} is damaged or lost, and {path} is of another plan; give the "
        "options that made the run, or choose another --output"
    )


def _set_aside(directory: Path, path: str) -> None:
    place = directory / path
    place.replace(place.with_name(place.name + ASIDE))
