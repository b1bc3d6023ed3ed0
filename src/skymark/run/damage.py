"""Damage of a run's files: each is compared with its own digest, else with the run's list."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path

from skymark.model.errors import RunDirectoryError
from skymark.model.schema import parse_record
from skymark.model.sealed import is_sealed
from skymark.plain_files import read_below
from skymark.run.directory import RunDirectory, parse_round
from skymark.run.layout import MANIFEST, SUMS, cell_of
from skymark.run.reader import parsed_manifest, read_sums


def damages(directory: Path) -> dict[str, str]:
    """Return the paths of a run's files that are not as they were written, each with the reason.

    Manifest, records and rounds have digests of their own, and a record that of its samples. The
    others are compared with the digests that the run made at its end, where there are any. A record
    and its samples are whole or damaged together.
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
    """Return the same of logs alone, which no record vouches for."""
    sums, _ = _sums(directory)
    return {
        path: reason
        for path, fault in RunDirectory(directory).entries()
        if path.startswith("logs/") and (reason := fault or _fault(directory, path, sums, {}))
    }


def _sums(directory: Path) -> tuple[Mapping[str, str], dict[str, str]]:
    """Return the run's list of digests, and what is wrong with it."""
    try:
        return read_sums(directory), {}
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError) as error:
        return {}, {SUMS: str(error)}


def _fault(
    directory: Path, path: str, sums: Mapping[str, str], samples: dict[str, str]
) -> str | None:
    """Return what is wrong with a regular file, or None; notes the digest of a record's samples."""
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
