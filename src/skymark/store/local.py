"""A run on disk: manifest, records, raw samples and logs, each file written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from skymark.model.cell import Cell
from skymark.model.errors import RunDirectoryError, StorageFullError
from skymark.model.manifest import Manifest
from skymark.model.record import Record, RoundResult

if TYPE_CHECKING:
    from skymark.model.plan import Plan

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class RunDirectory:
    """One run's directory. Every write is a temporary file, an fsync and a rename."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, manifest: Manifest, plan: Plan, *, resume: bool) -> RunDirectory:
        """Start a run's directory, or take up one of the same plan.

        Raises:
            RunDirectoryError: it holds another plan, or this plan without `resume`, or cannot be
                written.
        """
        run = cls(path)
        if path.exists() and not path.is_dir():
            raise RunDirectoryError(f"{path} is a file; choose another --output")
        if (path / "manifest.json").exists():
            theirs = run.manifest()
            if theirs.plan_hash != plan.hash:
                raise RunDirectoryError(
                    f"{path} holds another plan ({theirs.profile}, {len(theirs.cells)} cells); "
                    "choose another --output, or the options that made it"
                )
            if not resume:
                raise RunDirectoryError(
                    f"{path} holds this plan already; add --resume to continue it, "
                    "or choose another --output"
                )
            return run
        if path.exists() and any(path.iterdir()):
            raise RunDirectoryError(f"{path} is not empty and no run; choose another --output")
        try:
            for name in ("records", "samples", "logs", "rounds"):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write to {path}: {error.strerror}; choose another --output"
            ) from error
        run.write_manifest(manifest)
        return run

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            RunDirectoryError: there is none, or it is damaged.
        """
        try:
            return Manifest.model_validate_json((self.path / "manifest.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise RunDirectoryError(f"{self.path} is no readable run: {error}") from error

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest."""
        self._write("manifest.json", manifest.model_dump_json(indent=1).encode())

    def log_path(self, cell: Cell) -> Path:
        """Return where a cell's output goes."""
        return self.path / "logs" / f"{cell.id}.log"

    def open_log(self, cell: Cell) -> Path:
        """Make a cell's log if there is none, for a worker to append to; returns its path."""
        path = self.log_path(cell)
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return path

    def write_log(self, cell: Cell, text: str) -> None:
        """Write the log of a cell that no worker ran."""
        self._write(f"logs/{cell.id}.log", text.encode())

    def record_path(self, cell: Cell) -> Path:
        """Return where a cell's record goes."""
        return self.path / "records" / f"{cell.id}.json"

    def samples_path(self, cell: Cell) -> Path:
        """Return where a cell's raw samples go."""
        return self.path / "samples" / f"{cell.id}.parquet"

    def record(self, cell: Cell) -> Record | None:
        """Return the cell's record if there is a readable one with the same hash."""
        with contextlib.suppress(OSError, ValidationError):
            found = Record.model_validate_json(self.record_path(cell).read_bytes())
            if found.cell_hash == cell.hash:
                return found
        return None

    def write_record(self, record: Record, rounds: Sequence[RoundResult] = ()) -> None:
        """Write a finished cell: its raw samples first, then its record; drops the rounds.

        Samples of an earlier record of the cell are replaced, or removed where there are no rounds.
        """
        if rounds:
            self._write_samples(record.cell, rounds)
        else:
            self.samples_path(record.cell).unlink(missing_ok=True)
        self._write(f"records/{record.cell.id}.json", record.model_dump_json(indent=1).encode())
        shutil.rmtree(self._rounds_path(record.cell), ignore_errors=True)

    def write_round(self, cell: Cell, result: RoundResult, versions: dict[str, str]) -> None:
        """Keep one round of an unfinished cell, so that an interrupted run repeats little."""
        content = {
            "cell_hash": cell.hash,
            "versions": versions,
            "result": result.model_dump(mode="json"),
        }
        self._write(f"rounds/{cell.id}/{result.round}.json", json.dumps(content).encode())

    def rounds(self, cell: Cell) -> Iterator[tuple[RoundResult, dict[str, str]]]:
        """Yield the rounds kept of an unfinished cell that have the same hash, with versions.

        They come in the order in which they were measured; damaged ones are left out.
        """
        paths = [p for p in self._rounds_path(cell).glob("*.json") if p.stem.isdecimal()]
        for path in sorted(paths, key=lambda path: int(path.stem)):
            with contextlib.suppress(OSError, ValueError, KeyError):
                content = json.loads(path.read_bytes())
                if content["cell_hash"] == cell.hash:
                    yield RoundResult.model_validate(content["result"]), content["versions"]

    def _rounds_path(self, cell: Cell) -> Path:
        return self.path / "rounds" / cell.id

    def _write_samples(self, cell: Cell, rounds: Sequence[RoundResult]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            "round": pa.array([r.round for r in rounds for _ in r.wait_ns], pa.int16()),
            "epoch": pa.array([e for r in rounds for e in r.epoch], pa.int32()),
            "wait_ns": pa.array([w for r in rounds for w in r.wait_ns], pa.int64()),
            "elements": pa.array([n for r in rounds for n in r.batch_elements], pa.int32()),
            "warm_up": pa.array([e < r.warmup_epochs for r in rounds for e in r.epoch], pa.bool_()),
        }
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), buffer, compression="zstd")
        self._write(f"samples/{self.samples_path(cell).name}", buffer.getvalue().to_pybytes())

    def _write(self, target: str, data: bytes) -> None:
        path = self.path / target
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            temporary = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn a refused write into an error that says what is safe and what to do."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in FULL else (error.strerror or str(error))
        raise StorageFullError(
            f"cannot write {path}: {reason}; what was written before is intact. "
            "Free some space and run the same command with --resume"
        ) from error
