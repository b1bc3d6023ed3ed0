"""Writer of a run's directory, which writes each file whole; it refuses another plan's run."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from skymark.model.base import Frozen
from skymark.model.errors import RunDirectoryError, StorageFullError
from skymark.model.manifest import Manifest
from skymark.model.metric import ColumnType
from skymark.model.plan import Plan
from skymark.model.record import Cell, Record, RoundResult
from skymark.model.schema import sealed, unsealed
from skymark.model.sizes import count_of, size_text
from skymark.plain_files import (
    LARGEST_FILE_BYTES,
    PART,
    TooLargeError,
    entries_below,
    explained,
    read_below,
    read_regular,
    remove_below,
    require_plain_folders,
    write_below,
)
from skymark.rundir.layout import FOLDERS, MANIFEST, RUN_FILE, SUMS
from skymark.rundir.reader import read_manifest, read_record, read_sums
from skymark.rundir.row import sample_origin, samples_file
from skymark.rundir.writer_locks import LOCK

WRITES = 10
"""Attempts at a file or record while another run that measures the same cell replaces or removes
its parts; a resumed run measures again what is not whole after them."""

NOT_REGULAR = "is no regular file"
TOO_LARGE = f"is larger than {size_text(LARGEST_FILE_BYTES)}"

Changed = Callable[[str, Sequence[str]], None]
"""Gets the paths of written or removed files, with the cell's id, or ``""`` without a cell."""


class KeptRound(Frozen):
    """Stored round of a cell without a record."""

    cell_hash: str
    hardware_key: str | None
    versions: dict[str, str]
    result: RoundResult


class RunDirectory:
    """Directory of one run. Every write is a temporary file, an fsync and a rename."""

    def __init__(
        self,
        path: Path,
        hardware_key: str | None = None,
        sample_columns: Mapping[str, ColumnType] = MappingProxyType({}),
        run_id: str | None = None,
    ) -> None:
        """Name a directory; nothing is read or written yet.

        Args:
            path: where it lies.
            hardware_key: of this machine; rounds measured on another are not continued.
            sample_columns: of the files of raw samples, as the suite declares them.
            run_id: that the files of raw samples name.
        """
        self.path = path
        self.hardware_key = hardware_key
        self.sample_columns = sample_columns
        self.run_id = run_id
        self.changed: Changed = lambda *_: None
        """Called after each write and removal."""

    @classmethod
    def of(cls, path: Path, manifest: Manifest) -> RunDirectory:
        """Name the directory of a run with this manifest; nothing is read or written yet."""
        columns = manifest.declaration.sample_columns
        return cls(path, manifest.machine.hardware_key, columns, manifest.run_id)

    @classmethod
    def create(cls, path: Path, manifest: Manifest, *, resume: bool) -> RunDirectory:
        """Start a run's directory, or continue a run of the same plan.

        The manifest lists other hardware and other stores of a continued run.

        Raises:
            RunDirectoryError: it holds another plan, or this plan without `resume`, or is not
                writable.
        """
        run = cls.of(path, manifest)
        if os.path.lexists(path / MANIFEST):
            theirs = run.manifest()
            require_same_plan(theirs, manifest, os.fspath(path), resume=resume)
            if (update := _continuation(theirs, manifest)) != theirs:
                run.write_manifest(update)
            (path / SUMS).unlink(missing_ok=True)  # true again when the run has ended
            return run
        if path.is_dir() and not all(map(_may_be_left, path.iterdir())):
            raise RunDirectoryError(f"{path} is not empty and no run; choose another --output")
        try:
            run.write_manifest(manifest)
        except StorageFullError as error:
            raise RunDirectoryError(
                f"cannot write to {path}: {error.__cause__}; choose another --output"
            ) from error
        return run

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            RunDirectoryError: the manifest is absent or damaged.
        """
        return read_manifest(self.path)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest."""
        self._write(MANIFEST, sealed(manifest))
        self.changed("", [MANIFEST])

    def write_sums(self, damaged: Collection[str] = ()) -> None:
        """Write the digests of all files, for ``sha256sum --check`` and for readers of stores.

        A file that is too large has none.

        Args:
            damaged: paths whose content is not the measured one; they keep their old digest, if
                any.
        """
        known = {}
        if damaged:
            with contextlib.suppress(OSError, ValueError):
                known = read_sums(self.path)
        sums = {path: known[path] for path in damaged if path in known}
        for path in self.files():
            if path != SUMS and path not in damaged:
                # A round has a record now, or a log has grown.
                with contextlib.suppress(FileNotFoundError, TooLargeError):
                    sums[path] = sha256(read_below(self.path, path)).hexdigest()
        self._write(SUMS, "".join(f"{sums[path]}  {path}\n" for path in sorted(sums)).encode())
        self.changed("", [SUMS])

    def files(self) -> list[str]:
        """Return the paths of the run's valid files, the manifest first."""
        return [path for path, fault in self.entries() if fault is None]

    def oversized(self) -> list[str]:
        """Return the paths of files that are too large to be read, sent or fetched."""
        return [path for path, fault in self.entries() if fault == TOO_LARGE]

    def entries(self) -> list[tuple[str, str | None]]:
        """Return the entries at paths of run files, each with the reason if it is unusable."""
        others = [
            (f"{folder}/{name}", _fault(entry))
            for folder in FOLDERS
            for name, entry in entries_below(self.path / folder)
            if RUN_FILE.fullmatch(f"{folder}/{name}")
        ]
        heads = [
            (name, NOT_REGULAR if path.is_symlink() or not path.is_file() else None)
            for name in (MANIFEST, SUMS)
            if os.path.lexists(path := self.path / name)
        ]
        return [*heads, *sorted(others)]

    def log_path(self, cell: Cell) -> Path:
        """Return the path of a cell's log."""
        return self.path / "logs" / f"{cell.id}.log"

    def open_log(self, cell: Cell) -> Path:
        """Make a cell's log if there is none, for a worker to append to; returns its path."""
        path = self.log_path(cell)
        with explained(path):
            require_plain_folders(self.path, f"logs/{path.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
                path.unlink()
            path.touch()
        return path

    def write_log(self, cell: Cell, text: str) -> None:
        """Write the log of a cell that no worker ran."""
        self._write(f"logs/{cell.id}.log", text.encode())

    def record_path(self, cell: Cell) -> Path:
        """Return the path of a cell's record."""
        return self.path / "records" / f"{cell.id}.json"

    def samples_path(self, cell: Cell) -> Path:
        """Return the path of a cell's raw samples."""
        return self.path / "samples" / f"{cell.id}.parquet"

    def result_paths(self, cell: Cell) -> tuple[str, str]:
        """Return the paths of a cell's record and samples."""
        return f"records/{cell.id}.json", f"samples/{cell.id}.parquet"

    def record(self, cell: Cell) -> Record | None:
        """Return the cell's record if it is readable, has the same hash and its own samples."""
        with contextlib.suppress(OSError, ValueError):
            require_plain_folders(self.path, "records/*.json")
            record = read_record(self.record_path(cell))
            if record.cell_hash == cell.hash and self._has_samples(record):
                return record
        return None

    def _has_samples(self, record: Record) -> bool:
        if record.samples_sha256 is None:
            return True
        samples = read_below(self.path, f"samples/{record.cell.id}.parquet")
        return sha256(samples).hexdigest() == record.samples_sha256

    def write_record(self, record: Record, rounds: Sequence[RoundResult] = ()) -> Record:
        """Write a finished cell: its raw samples first, then its record; drop the rounds.

        Samples of an earlier record are replaced, or removed without rounds. On a file system
        without locks, another run may write the same cell at the same time. Then both files are
        written again until a record matches its samples, from either run.

        Returns:
            The record as written, with its samples' digest and this machine's hardware.
        """
        cell = record.cell
        record = record.model_copy(update={"hardware_key": self.hardware_key})
        origin = sample_origin(record, self.run_id)
        samples = samples_file(rounds, self.sample_columns, origin) if rounds else None
        digest = None if samples is None else sha256(samples).hexdigest()
        record = record.model_copy(update={"samples_sha256": digest})
        for _ in range(WRITES):
            self._write_samples(cell, samples)
            self._write(f"records/{cell.id}.json", sealed(record))
            if self.record(cell) is not None:
                break
        kept = [f"rounds/{cell.id}/{path.name}" for path in self._round_files(cell)]
        if kept:
            shutil.rmtree(self._rounds_path(cell), ignore_errors=True)
        written = (f"samples/{cell.id}.parquet", f"logs/{cell.id}.log", f"records/{cell.id}.json")
        self.changed(cell.id, [*written, *kept])
        return record

    def take_record(self, source: RunDirectory, cell: Cell) -> Record | None:
        """Copy a cell's record and files from another run that measured the same cell.

        Returns:
            The record; None if the other run has no intact record that ended well.
        """
        record = source.record(cell)
        if record is None or record.status.is_bad:
            return None
        record_path, samples_path = self.result_paths(cell)
        log_path = f"logs/{cell.id}.log"
        for path in (samples_path, log_path, record_path):
            with contextlib.suppress(FileNotFoundError, TooLargeError):
                self._write(path, read_below(source.path, path))
        self.changed(cell.id, [samples_path, log_path, record_path])
        return record

    def rewrite_record(self, record: Record) -> None:
        """Rewrite the record of a finished cell with later information."""
        path = f"records/{record.cell.id}.json"
        self._write(path, sealed(record))
        self.changed(record.cell.id, [path])

    def write_round(self, cell: Cell, result: RoundResult, versions: dict[str, str]) -> None:
        """Store a round of an unfinished cell, so that an interrupted run repeats little."""
        kept = KeptRound(
            cell_hash=cell.hash, hardware_key=self.hardware_key, versions=versions, result=result
        )
        path = f"rounds/{cell.id}/{result.round}.json"
        self._write(path, sealed(kept, indent=None))
        self.changed(cell.id, [path])

    def rounds(self, cell: Cell) -> Iterator[tuple[RoundResult, dict[str, str]]]:
        """Yield the stored rounds of an unfinished cell on this hardware, with versions.

        They come in the order of measurement; damaged rounds are skipped.
        """
        paths = [path for path in self._round_files(cell) if path.stem.isdecimal()]
        for path in sorted(paths, key=lambda path: int(path.stem)):
            with contextlib.suppress(OSError, ValueError):
                kept = parse_round(read_regular(path))
                if (kept.cell_hash, kept.hardware_key) == (cell.hash, self.hardware_key):
                    yield kept.result, kept.versions

    def _rounds_path(self, cell: Cell) -> Path:
        return self.path / "rounds" / cell.id

    def _round_files(self, cell: Cell) -> list[Path]:
        try:
            require_plain_folders(self.path, f"rounds/{cell.id}/*.json")
        except OSError:
            return []
        return list(self._rounds_path(cell).glob("*.json"))

    def _write_samples(self, cell: Cell, data: bytes | None) -> None:
        """Write a cell's file of raw samples, or remove it without samples."""
        path = f"samples/{cell.id}.parquet"
        if data is not None:
            self._write(path, data)
            return
        with explained(self.path / path):
            remove_below(self.path, path)

    def _write(self, target: str, data: bytes) -> None:
        with explained(self.path / target):
            for _ in range(WRITES - 1):
                # Another run that finished the cell may have removed the directory.
                with contextlib.suppress(FileNotFoundError):
                    write_below(self.path, target, data)
                    return
            write_below(self.path, target, data)


def _fault(entry: os.DirEntry[str]) -> str | None:
    """Return the reason why a file is unusable; None for a valid file."""
    if not entry.is_file(follow_symlinks=False):
        return NOT_REGULAR
    with contextlib.suppress(FileNotFoundError):  # its reader reports the error
        if entry.stat(follow_symlinks=False).st_size > LARGEST_FILE_BYTES:
            return TOO_LARGE
    return None


def parse_round(data: bytes) -> KeptRound:
    """Read one stored round.

    Raises:
        ValueError: it is no round, or its digest does not match.
    """
    return KeptRound.model_validate_json(unsealed(data))


def require_same_plan(theirs: Manifest, ours: Manifest, place: str, *, resume: bool) -> None:
    """Refuse an existing run of another plan or comparison, or without `resume`.

    Args:
        theirs: manifest of the existing run.
        ours: manifest of the new run.
        place: location of the existing run, for messages: a directory or a store's address.
        resume: whether to continue a run of this plan.

    Raises:
        RunDirectoryError: it holds another plan or comparison, or this plan without `resume`.
    """
    if theirs.plan_hash != ours.plan_hash:
        differs = plan_differences(theirs.plan, ours.plan)
        raise RunDirectoryError(
            f"{place} holds another plan ({theirs.profile}, {count_of(len(theirs.cells), 'cell')})"
            f"{differs and f': {differs}'}; choose another --output, or the options that made it"
        )
    if not resume:
        raise RunDirectoryError(
            f"{place} holds this plan already; add --resume to continue it, "
            "or choose another --output"
        )
    if theirs.duet != ours.duet:
        raise RunDirectoryError(
            f"{place} holds {_part_in_words(theirs)}, and this is {_part_in_words(ours)}; "
            "choose another --output, or the options that made it"
        )


def _part_in_words(manifest: Manifest) -> str:
    duet = manifest.duet
    if duet is None:
        return "a run by itself"
    return f"the {duet.side} of a comparison --against {duet.commit[:12]} with {duet.partner}"


def _may_be_left(entry: Path) -> bool:
    """Return whether a run that was killed before its manifest can leave this entry."""
    return entry.name.startswith(LOCK) or (entry.name.startswith(".") and entry.suffix == PART)


def _continuation(begun: Manifest, now: Manifest) -> Manifest:
    """Return the manifest of a continued run, with this machine and the current stores."""
    known = {machine.hardware_key for machine in (begun.machine, *begun.continued_on)}
    here = now.machine
    machines = () if here.hardware_key in known else (here,)
    stores = tuple(dict.fromkeys((*begun.stores, *now.stores)))
    return begun.model_copy(
        update={"continued_on": (*begun.continued_on, *machines), "stores": stores}
    )


NAMED = 3
"""Most differences, or names in a difference, that are shown; the rest is counted."""
LONGEST_VALUE = 40


def plan_differences(theirs: Plan, ours: Plan) -> str:
    """Describe the differences of two plans with different hashes.

    Args:
        theirs: plan of the existing run.
        ours: the new plan.

    Returns:
        Such as ``adapters: numpy only there, grain only here``; empty if no difference is found.
    """
    return "; ".join(_few([*_names(theirs, ours), *_efforts(theirs, ours), *_cells(theirs, ours)]))


def _names(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the adapters and scenarios of only one plan, or else of its combinations."""
    there, here = ([planned.cell for planned in plan.cells] for plan in (theirs, ours))
    told = [
        *_only("adapters", {cell.adapter for cell in there}, {cell.adapter for cell in here}),
        *_only("scenarios", {cell.label for cell in there}, {cell.label for cell in here}),
    ]
    yield from told or _only("cells", {cell.id for cell in there}, {cell.id for cell in here})


def _only(kind: str, there: set[str], here: set[str]) -> Iterator[str]:
    sides = (("there", there - here), ("here", here - there))
    named = [f"{', '.join(_few(sorted(names)))} only {side}" for side, names in sides if names]
    if named:
        yield f"{kind}: {', '.join(named)}"


def _efforts(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the names of two efforts, or the differences of efforts with the same name."""
    there, here = theirs.effort, ours.effort
    if there.name != here.name:
        yield f"effort is {there.name} there and {here.name} here"
        return
    dumps = [effort.model_dump(mode="json", exclude={"cell_timeout_s"}) for effort in (there, here)]
    yield from _values("effort", *dumps)


def _cells(theirs: Plan, ours: Plan) -> Iterator[str]:
    """Yield the differences of cells with the same id, each once."""
    there = {planned.cell.id: planned.cell for planned in theirs.cells}
    differences: dict[str, None] = {}
    for planned in ours.cells:
        cell = there.get(planned.cell.id)
        if cell is not None and cell.hash != planned.cell.hash:
            dumps = [one.model_dump(mode="json") for one in (cell, planned.cell)]
            for name in ("settings", "specification"):
                differences.update(dict.fromkeys(_values(name, dumps[0][name], dumps[1][name])))
    yield from differences


def _values(
    path: str, there: Mapping[str, JsonValue], here: Mapping[str, JsonValue]
) -> Iterator[str]:
    """Yield each different value of nested JSON objects."""
    for name in sorted(there.keys() | here.keys()):
        one, other = there.get(name), here.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _values(f"{path}.{name}", one, other)
        elif one != other:
            yield f"{path}.{name} is {_short(one)} there and {_short(other)} here"


def _short(value: JsonValue) -> str:
    text = "not set" if value is None else str(value) or "empty"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _few(names: Sequence[str]) -> list[str]:
    """Return the first names, and the number of further names."""
    more = len(names) - NAMED
    return [*names[:NAMED], *([f"{more} more"] if more > 0 else [])]
