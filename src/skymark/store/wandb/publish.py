"""Process that logs a run with wandb's library, offline and below the cache.

    python -P -m skymark.store.wandb.publish DIRECTORY PROJECT

`skymark.store.wandb.offline` starts it with the variables that keep wandb there, and without a key.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.store.wandb.content import ARTIFACT_TYPE, LINK, RunContent, wandb_id

if TYPE_CHECKING:
    import wandb
    from wandb.sdk.artifacts.artifact_manifest import ArtifactManifest
    from wandb.sdk.artifacts.artifact_manifest_entry import ArtifactManifestEntry


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
