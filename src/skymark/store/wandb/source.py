"""Reading of runs from Weights & Biases: files of a W&B run, or of an artifact."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from skymark.model.errors import UsageError
from skymark.store.store import RunSource
from skymark.store.wandb.client import Client
from skymark.store.wandb.limits import Limits
from skymark.store.wandb.messages import CALLS

_PART = r"[\w.-]+"
_RUN = re.compile(rf"wandb://({_PART})/({_PART})/runs/({_PART})", re.ASCII)
_ARTIFACT = re.compile(rf"wandb://({_PART}/{_PART}/{_PART}:{_PART})", re.ASCII)


class RunFiles:
    """Files of one run, kept with the W&B run of its name."""

    parallel = CALLS

    def __init__(self, entity: str | None, project: str, id: str, limits: Limits) -> None:
        """Name the run; an entity that is not named is the key's default."""
        self.project = project
        self.id = id
        self._entity = entity
        self._limits = limits
        self._client = Client(limits)

    @property
    def url(self) -> str:
        """The run's address; before the first contact, without an entity that was not named."""
        return f"wandb://{self._entity}/{self.project}/runs/{self.id}" if self._entity else "wandb"

    def get(self, path: str) -> bytes:
        """Read one file."""
        return self._client.call("get", run=self._run, path=path)[1]

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every file of the run."""
        sizes: dict[str, int] = self._client.call("sizes", run=self._run)[0]
        return sizes

    def close(self) -> None:
        """End wandb's service and remove what it wrote."""
        self._client.close()

    @property
    def _place(self) -> tuple[str, str]:
        if self._entity is None:
            self._entity = str(self._client.call("entity")[0])
        return self._entity, self.project

    @property
    def _run(self) -> list[str]:
        return [*self._place, self.id]


class ArtifactFiles:
    """Files of an artifact, downloaded once. Implements `skymark.store.store.RunSource`."""

    parallel = 1

    def __init__(self, name: str, limits: Limits) -> None:
        """Name the artifact, as ``entity/project/artifact:alias``; contacts nobody yet."""
        self.url = f"wandb://{name}"
        self._name = name
        self._limits = limits
        self._client = Client(limits)
        self._root: Path | None = None
        self._paths: frozenset[str] = frozenset()

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every file; references to files elsewhere are left out."""
        try:
            found, _ = self._client.call("artifact", name=self._name)
        except FileNotFoundError:
            return {}
        return {path: entry["size"] for path, entry in found["entries"].items()}

    def get(self, path: str) -> bytes:
        """Read one file. The first call downloads all, which takes as long as reading back."""
        if self._root is None:
            self._download()
        if path not in self._paths or self._root is None:
            raise FileNotFoundError(f"{self.url} has no file {path}")
        return (self._root / path).read_bytes()

    def close(self) -> None:
        """End wandb's service and remove what was downloaded."""
        self._client.close()
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _download(self) -> None:
        limit_s = self._limits.read_s + self._limits.per_file_s * len(self.sizes())
        root = Path(tempfile.mkdtemp(prefix="skymark-wandb-"))
        try:
            paths, _ = self._client.call(
                "artifact_download", limit_s=limit_s, name=self._name, root=str(root)
            )
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
        self._root, self._paths = root, frozenset(paths)


def open_artifact(url: str, limits: Limits | None = None) -> RunSource:
    """Open an artifact, or the files of a run that did not end, for reading.

    What comes from there is untrusted: names and bytes, of at most `LARGEST_FILE_BYTES` each.

    Args:
        url: ``wandb://entity/project/artifact:alias`` or ``wandb://entity/project/runs/RUN-ID``.
        limits: how long wandb may take.

    Raises:
        UsageError: the address is neither.
    """
    limits = limits or Limits()
    if found := _RUN.fullmatch(url):
        entity, project, id = found.groups()
        return RunFiles(entity, project, id, limits)
    if found := _ARTIFACT.fullmatch(url):
        return ArtifactFiles(found[1], limits)
    raise UsageError(
        f"{url} must be wandb://ENTITY/PROJECT/ARTIFACT:ALIAS or wandb://ENTITY/PROJECT/runs/RUN-ID"
    )
