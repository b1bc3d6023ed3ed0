"""What W&B is told of a run: configuration, table, summary figures, tags, and the artifact's files.

Taken from the run's directory alone; wandb is not needed here.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from hashlib import md5
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skymark.model.record import Record
from skymark.model.row import row_of
from skymark.run.directory import RunDirectory

ARTIFACT_TYPE = "benchmark-results"
SHORT_COMMIT = 12
IDENTITY = (
    "cell", "scenario", "variant", "axes", "adapter", "status", "cause", "rounds", "verified",
    "warnings", "versions",
)  # fmt: skip
FIGURES = (
    "samples_per_s", "samples_per_s_low", "samples_per_s_high", "bytes_per_s", "first_batch_ns",
    "wait_p50_ns", "wait_p95_ns", "wait_p99_ns", "utilisation", "cpu_s_per_1000_samples",
    "peak_pss_bytes", "price_usd",
)  # fmt: skip
COLUMNS = (*IDENTITY, *FIGURES)
"""Of the table; `axes` and `versions` are JSON, missing is null."""
NAMES = {"cell": "cell_id", "cause": "cause_message"}
"""Columns that have another name in a record's row."""


class RunContent:
    """A run's directory, as W&B is to show it."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; its manifest is read at once.

        Raises:
            RunDirectoryError: it is no run, or damaged.
        """
        self.directory = directory
        self.manifest = RunDirectory(directory).manifest()

    @cached_property
    def records(self) -> list[Record]:
        """The records that can be read, in the plan's order; damaged ones go as files only."""
        found = []
        run = RunDirectory(self.directory)
        for cell in self.manifest.cells.values():
            with contextlib.suppress(OSError, ValidationError):
                found.append(Record.model_validate_json(run.record_path(cell).read_bytes()))
        return found

    @property
    def artifact(self) -> str:
        """The artifact's name: by commit, else by skymark's version."""
        git = self.manifest.git
        if git is None:
            return f"{ARTIFACT_TYPE}-{self.manifest.machine.skymark.replace('+', '-')}"
        return f"{ARTIFACT_TYPE}-{git.commit}{'-dirty' if git.dirty else ''}"

    @property
    def tags(self) -> list[str]:
        """The profile and the short commit."""
        git = self.manifest.git
        return [self.manifest.profile, *([git.commit[:SHORT_COMMIT]] if git else [])]

    @property
    def files(self) -> list[str]:
        """Paths of all that the artifact holds; rounds of unfinished cells stay behind."""
        paths = RunDirectory(self.directory).files()
        return [path for path in paths if not path.startswith("rounds/")]

    def md5s(self) -> dict[str, str]:
        """Return the base64 MD5 of every file by path: the digest in an artifact's manifest."""
        from base64 import b64encode

        return {
            path: b64encode(
                md5((self.directory / path).read_bytes(), usedforsecurity=False).digest()
            ).decode()
            for path in self.files
        }

    def configuration(self) -> dict[str, Any]:
        """Return what the run was asked to do, and where it ran."""
        manifest = self.manifest
        told = manifest.model_dump(
            mode="json",
            include={
                "schema_version", "run_id", "created_at", "ended_at", "plan_hash", "machine",
                "continued_on", "counts", "hourly_price_usd", "price_usd",
            },
        )  # fmt: skip
        versions = {record.cell.adapter: record.versions for record in self.records}
        return told | {
            "profile": manifest.profile,
            "effort": manifest.effort.model_dump(mode="json"),
            "settings": manifest.plan.settings,
            "versions": versions,
            "git": manifest.git and manifest.git.model_dump(mode="json"),
        }

    def summary(self) -> dict[str, Any]:
        """Return every figure of every cell as ``CELL/FIGURE``; what is missing is left out."""
        return {
            f"{record.cell.id}/{name}": value
            for record in self.records
            for name, value in row_of(record).items()
            if name in FIGURES and value is not None
        }

    def rows(self) -> list[list[Any]]:
        """Return the table: a row per record, in the order of `COLUMNS`."""
        return [
            [row[NAMES.get(name, name)] for name in COLUMNS] for row in map(row_of, self.records)
        ]

    def bars(self) -> dict[str, list[list[Any]]]:
        """Return, by scenario, the speed in samples/s of each of its cells that has one."""
        found: dict[str, list[list[Any]]] = {}
        for record in self.records:
            if record.figures is not None:
                name = record.cell.id.removeprefix(f"{record.cell.scenario}.")
                speed = record.figures.samples_per_s.value
                found.setdefault(record.cell.scenario, []).append([name, speed])
        return found
