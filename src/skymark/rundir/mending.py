"""Damage of a run's files, detected by digests, and its repair before a run continues.

A cell without a record is measured again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from skymark.model.errors import DamagedManifestError, RunDirectoryError
from skymark.model.manifest import Manifest
from skymark.model.record import Record
from skymark.model.schema import is_sealed, parse_record
from skymark.model.sizes import count_of
from skymark.plain_files import explained, read_below
from skymark.rundir.directory import RunDirectory, parse_round
from skymark.rundir.layout import MANIFEST, SUMS, cell_of
from skymark.rundir.reader import parsed_manifest, read_manifest, read_record, read_sums

ASIDE = ".damaged"
"""Suffix of a damaged file that no longer belongs to the run."""


def mend(path: Path, manifest: Manifest, damaged: Mapping[str, str]) -> Iterator[str]:
    """Repair a run's directory, so that the run can continue; yield each repair in words.

    Args:
        path: the run's directory.
        manifest: manifest of a new run of this plan on this machine.
        damaged: damaged files, with the reasons.

    Raises:
        RunDirectoryError: the manifest is lost, and the files belong to another plan.
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
                f"{count_of(len(records), 'record')}"
            )
        for file, reason in damaged.items():
            if file not in {MANIFEST, SUMS} and os.path.lexists(path / file):
                _set_aside(path, file)
                yield f"{path / file} {reason}; it is now {Path(file).name}{ASIDE}"


def _lacks_manifest(run: RunDirectory) -> bool:
    """Return whether there is a run with a damaged or lost manifest."""
    try:
        read_manifest(run.path)
    except DamagedManifestError:
        return True
    except RunDirectoryError:
        return not os.path.lexists(run.path / MANIFEST) and bool(run.files())
    return False


def require_records_of(run: RunDirectory, manifest: Manifest) -> list[Record]:
    """Return the readable records, all of this plan.

    Raises:
        RunDirectoryError: a file belongs to a cell that the plan lacks or specifies differently.
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


def damages(directory: Path) -> dict[str, str]:
    """Return the paths of a run's damaged files, each with the reason.

    Manifest, records and rounds contain their own digest, and a record its samples' digest. All
    other files are compared with the digests from the end of the run, if there are any. A record
    and its samples are valid or damaged together.
    """
    sums, found = _sums(directory)
    entries = RunDirectory(directory).entries()
    there = {path for path, _ in entries}
    found |= {path: "is missing" for path in sums if path not in there}
    samples: dict[str, str] = {}
    for path, fault in entries:  # records come before samples
        reason = fault or _fault(directory, path, sums, samples)
        if reason is not None:
            found[path] = reason
    for path in samples.keys() - there:
        found.setdefault(path, "is missing")
    _condemn_pairs(found, there)
    return found


def damaged_logs(directory: Path) -> dict[str, str]:
    """Return the damaged logs, which no record has a digest of."""
    sums, _ = _sums(directory)
    return {
        path: reason
        for path, fault in RunDirectory(directory).entries()
        if path.startswith("logs/") and (reason := fault or _fault(directory, path, sums, {}))
    }


def _sums(directory: Path) -> tuple[Mapping[str, str], dict[str, str]]:
    """Return the run's list of digests, and its fault."""
    try:
        return read_sums(directory), {}
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError) as error:
        return {}, {SUMS: str(error)}


def _fault(
    directory: Path, path: str, sums: Mapping[str, str], samples: dict[str, str]
) -> str | None:
    """Return the fault of a regular file, or None; store the digest of a record's samples."""
    try:
        data = read_below(directory, path)
        if path == MANIFEST:
            parsed_manifest(data, os.fspath(directory / path))
        elif path.startswith("records/"):
            record = parse_record(data)
            if record.samples_sha256 is not None:
                samples[f"samples/{cell_of(path)}.parquet"] = record.samples_sha256
        elif path.startswith("rounds/"):
            parse_round(data)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, RunDirectoryError) as error:
        return str(error)
    if path != SUMS and not is_sealed(data):
        wanted = samples.get(path, sums.get(path))
        if wanted is not None and sha256(data).hexdigest() != wanted:
            return "is not what its digest says; it was changed"
    return None


def _condemn_pairs(found: dict[str, str], there: Collection[str]) -> None:
    """Add the records of damaged samples, and the samples of damaged records."""
    for path, reason in list(found.items()):
        folder, cell = path.partition("/")[0], cell_of(path)
        other = {
            "records": f"samples/{cell}.parquet",
            "samples": f"records/{cell}.json",
        }.get(folder)
        if other is not None and other in there:
            found.setdefault(other, f"belongs to {path}, which is damaged: {reason}")
