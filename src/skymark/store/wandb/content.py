"""Content of a W&B run and its names, its directories, and the process that logs it offline.

    python -P -m skymark.store.wandb.content DIRECTORY PROJECT

`skymark.store.wandb.offline` starts it with the variables that keep wandb below the cache, and
without a key. All else is taken from the run's directory alone, without wandb.

A run's directory may come from somebody else, and the client takes its server's address from files
in the directory that it works in.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cached_property
from hashlib import md5, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.cache.location import own_cache
from skymark.machine.private_directory import own_folder, private_directory
from skymark.model.base import digest_of
from skymark.model.errors import CacheError, StoreRefusedError, UsageError
from skymark.model.record import Record
from skymark.rundir.directory import TOO_LARGE, RunDirectory
from skymark.rundir.mending import damages
from skymark.rundir.reader import Run, open_run, read_manifest
from skymark.rundir.row import names_of_metric, rows_of

if TYPE_CHECKING:
    import wandb
    from wandb.sdk.artifacts.artifact_manifest import ArtifactManifest
    from wandb.sdk.artifacts.artifact_manifest_entry import ArtifactManifestEntry

ARTIFACT_TYPE = "benchmark-results"
SHORT_COMMIT = 12
IDENTITY = (
    "cell", "scenario", "variant", "axes", "adapter", "status", "cause", "rounds", "verified",
    "warnings", "versions",
)  # fmt: skip
"""Columns of the table before the figures; `axes` and `versions` are JSON, missing is null."""
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
        self.manifest = read_manifest(directory)

    def require_whole(self) -> None:
        """Refuse a damaged run: its artifact would hold false data.

        Raises:
            StoreRefusedError: a file of the artifact is not as it was written.
        """
        damage = damages(self.directory)
        damaged = [path for path in damage if _is_sent(path) and damage[path] != TOO_LARGE]
        if damaged:
            raise StoreRefusedError(
                f"W&B takes a run as a whole, and {damaged[0]} {damage[damaged[0]]}; nothing was "
                "logged there"
            )

    @cached_property
    def run(self) -> Run:
        """The run with its records."""
        return open_run(self.directory)

    @property
    def records(self) -> tuple[Record, ...]:
        """The readable records, in the plan's order; damaged ones go as files only."""
        return self.run.records

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Columns of figures: every metric, intervals of compared ones, the price."""
        shared = self.run.declaration.shared
        names = (
            names_of_metric(metric) if metric.compared else (metric.name,) for metric in shared
        )
        return (*(name for some in names for name in some), "price_usd")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table."""
        return (*IDENTITY, *self.figures)

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
        """Paths of the artifact's files; rounds of unfinished cells stay behind."""
        paths = RunDirectory(self.directory).files()
        return [path for path in paths if _is_sent(path)]

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
        """Return the run's configuration and its machine."""
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
        """Return every figure of every cell as ``CELL/FIGURE``; leaves out missing ones."""
        rows = rows_of(self.records, self.run.declaration)
        summary: dict[str, Any] = {}
        for record, row in zip(self.records, rows, strict=True):
            own = {name: metric.value for name, metric in record.metrics.items() if name not in row}
            figures = {name: row[name] for name in self.figures} | own
            summary |= {f"{record.cell.id}/{name}": value for name, value in figures.items()}
        return {name: value for name, value in summary.items() if value is not None}

    def rows(self) -> list[list[Any]]:
        """Return the table: a row per record, in the order of `columns`."""
        names = [NAMES.get(name, name) for name in self.columns]
        rows = rows_of(self.records, self.run.declaration)
        return [[row[name] for name in names] for row in rows]

    def bars(self) -> dict[str, list[list[Any]]]:
        """Return the primary metric of each cell, by scenario."""
        primary = self.run.declaration.primary
        bars: dict[str, list[list[Any]]] = {}
        for record in self.records:
            if (figure := record.metrics.get(primary)) is not None:
                name = record.cell.id.removeprefix(f"{record.cell.suite}.{record.cell.scenario}.")
                bars.setdefault(record.cell.scenario, []).append([name, figure.value])
        return bars


def _is_sent(path: str) -> bool:
    return not path.startswith("rounds/")


LONGEST = 64
LINK = "run"
"""Link to the run's directory, in the working directory of wandb's commands."""


def wandb_id(run_id: str) -> str:
    """Return a run's id as W&B takes it: letters, digits, ``_``, ``-`` and ``.``, at most 64."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", run_id)
    if plain == run_id and len(plain) <= LONGEST:
        return plain
    return f"{plain[:55]}-{sha256(run_id.encode()).hexdigest()[:8]}"


KEY_LENGTH = 12


def home_of(content: RunContent) -> Path:
    """Return the directory for a run's id and plan, made on first use and this user's alone.

    Raises:
        StoreRefusedError: it cannot be made, or somebody else may write there.
    """
    manifest = content.manifest
    key = digest_of([manifest.run_id, manifest.plan_hash])[:KEY_LENGTH]
    try:
        homes = private_directory([own_folder(own_cache()) / "wandb"])
        return private_directory([homes / f"{wandb_id(manifest.run_id)}-{key}"])
    except (CacheError, UsageError) as error:
        raise StoreRefusedError(str(error)) from error


def publish(directory: Path, project: str) -> None:
    """Write the offline run: configuration, table, plots, summary, artifact."""
    import wandb

    _name_files_from_here()
    content = RunContent(directory)
    id = wandb_id(content.manifest.run_id)
    run = wandb.init(
        project=project,
        id=id,
        name=content.manifest.run_id,
        resume="allow",
        mode="offline",
        job_type="benchmark",
        tags=content.tags,
        config=content.configuration(),
        settings=_quiet(),
    )
    primary = content.run.declaration.primary_metric
    bars = {
        f"{primary.name}_{scenario}": wandb.plot.bar(
            wandb.Table(columns=["cell", primary.name], data=bars),
            "cell",
            primary.name,
            title=f"{scenario}: {primary.heading}",
        )
        for scenario, bars in content.bars().items()
    }
    cells = wandb.Table(columns=list(content.columns), data=content.rows(), allow_mixed_types=True)
    run.log({"cells": cells, **bars})
    run.summary.update(content.summary())
    artifact = wandb.Artifact(
        content.artifact, type=ARTIFACT_TYPE, metadata={"run_id": content.manifest.run_id}
    )
    for path in content.files:
        # Immutable: the file itself is uploaded later, and its bytes are not copied before.
        artifact.add_file(f"{LINK}/{path}", path, policy="immutable")
    run.log_artifact(artifact, aliases=["latest", id])
    run.finish()


def _name_files_from_here() -> None:
    """Let artifacts name local files by their way from the working directory.

    Their places get into the manifests that W&B keeps, which tell nothing of this machine then.
    wandb has no setting for that.
    """
    from wandb.sdk.artifacts import artifact_manifest

    add = artifact_manifest.ArtifactManifest.add_entry

    def add_entry(
        manifest: ArtifactManifest,
        entry: ArtifactManifestEntry,
        overwrite: bool = False,  # as wandb has it
    ) -> None:
        if entry.local_path:
            entry.local_path = os.path.relpath(entry.local_path)
        add(manifest, entry, overwrite)

    artifact_manifest.ArtifactManifest.add_entry = add_entry  # type: ignore[method-assign, assignment]


def _quiet() -> wandb.Settings:
    """Return settings by which wandb adds nothing of its own: no console, metrics or code."""
    import wandb

    return wandb.Settings(
        console="off",
        silent=True,
        save_code=False,
        disable_git=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


if __name__ == "__main__":
    publish(Path(sys.argv[1]), sys.argv[2])
