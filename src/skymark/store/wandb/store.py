"""Weights & Biases as a store: a run's files while it goes, then a W&B run with an artifact."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.store.store import Source, Store
from skymark.store.wandb.content import RunContent
from skymark.store.wandb.offline import kept_offline, log_offline, offline_run
from skymark.store.wandb.process import CALLS, Client, Limits, safe_name
from skymark.store.wandb.upload import IncompleteError, read_back, sync

DEFAULT_PROJECT = "skymark"
PROBE = b"skymark"

_PART = r"[\w.-]+"
_RUN = re.compile(rf"wandb://({_PART})/({_PART})/runs/({_PART})", re.ASCII)
_ARTIFACT = re.compile(rf"wandb://({_PART}/{_PART}/{_PART}:{_PART})", re.ASCII)


class RunFiles:
    """The files of one run, kept with the W&B run of its name: the reading side."""

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
        """End wandb's client and remove what it wrote."""
        self._client.close()

    @property
    def _place(self) -> tuple[str, str]:
        if self._entity is None:
            self._entity = str(self._client.call("entity")[0])
        return self._entity, self.project

    @property
    def _run(self) -> list[str]:
        return [*self._place, self.id]


class OnlineRun(RunFiles):
    """A W&B run that can be written. Implements `skymark.store.store.Store`."""

    live = True

    def check(self) -> None:
        """Prove that a file can be written into the W&B run and read."""
        if self._client.call("probe", PROBE, run=self._run)[1] != PROBE:
            raise StoreUnavailableError(f"{self.url} gave back other bytes than it was sent")

    def put(self, path: str, data: bytes) -> None:
        """Write one file; the W&B run is made on first use."""
        self._client.call("put", data, run=self._run, path=path)

    def delete(self, path: str) -> None:
        """Remove one file."""
        self._client.call("delete", run=self._run, path=path)

    def complete(self, directory: Path) -> str | None:
        """Log the run offline, upload it, and read everything back.

        An upload that lost something is not tried again from the same offline run, because wandb
        sends an artifact once; the run is logged anew. What was just logged is not read on disk: it
        is read where it arrives.
        """
        content = RunContent(directory)
        try:
            place = self._place
        except StoreUnavailableError:
            offline_run(content, (self._entity, self.project), self._limits)
            raise
        offline = kept_offline(content, place, self._limits)
        if offline is not None and offline.synced:
            try:
                return read_back(content, place, self._client, self._limits)
            except IncompleteError:
                offline = None
        offline = offline or log_offline(content, place, self._limits)
        with suppress(FileNotFoundError):  # a server that is away is told before the upload waits
            self._client.call("run", run=self._run)
        said = sync(offline, content, place, self._limits)
        try:
            return read_back(content, place, self._client, self._limits)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(f"{error}. {said}") from error


class OfflineStore:
    """A W&B run on disk, for lack of a key. Implements `skymark.store.store.Store`."""

    live = False
    parallel = 1
    url = "wandb"

    def __init__(self, place: tuple[str | None, str], reason: str, limits: Limits) -> None:
        self._place = place
        self._reason = reason
        self._limits = limits

    def check(self) -> None:
        """There is nobody to ask."""

    def put(self, path: str, data: bytes) -> None:
        """Refuse: files cannot be put one by one.

        Raises:
            StoreRefusedError: always.
        """
        del data
        raise StoreRefusedError(f"W&B is offline ({self._reason}): {path} goes with the whole run")

    def get(self, path: str) -> bytes:
        """Find nothing.

        Raises:
            FileNotFoundError: always.
        """
        raise FileNotFoundError(path)

    def sizes(self) -> Mapping[str, int]:
        """Hold nothing."""
        return {}

    def delete(self, path: str) -> None:
        """Find nothing to remove."""

    def complete(self, directory: Path) -> str | None:
        """Write the offline run, and read it back."""
        run = offline_run(RunContent(directory), self._place, self._limits)
        return (
            f"W&B: offline ({self._reason}), the run is in {run.path}; once a key is set, upload "
            f"it with: skymark export {shlex.quote(str(directory))} --to wandb"
        )

    def close(self) -> None:
        """Nothing is held."""


class ArtifactFiles:
    """The files of an artifact, downloaded once. Implements `skymark.store.store.Source`."""

    parallel = 1

    def __init__(self, name: str, limits: Limits) -> None:
        """Name it, as ``entity/project/artifact:alias``; nothing is contacted yet."""
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
        """End wandb's client and remove what was downloaded."""
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


def open_run_files(url: str, run_id: str, limits: Limits | None = None) -> Store:
    """Open W&B for a run: online where there is a key, else offline.

    Args:
        url: ``wandb``; entity and project come from WANDB_ENTITY and WANDB_PROJECT.
        run_id: the run's name, also of the W&B run.
        limits: how long wandb may take.

    Raises:
        UsageError: the address says more, wandb is not installed, or WANDB_MODE is ``disabled``.
    """
    if url != "wandb":
        raise UsageError(
            f"--store {url} must be wandb alone; set WANDB_ENTITY and WANDB_PROJECT for the place"
        )
    _need_client()
    limits = limits or Limits()
    entity = os.environ.get("WANDB_ENTITY") or None
    project = os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT
    mode = os.environ.get("WANDB_MODE", "")
    if mode == "disabled":
        raise UsageError("WANDB_MODE is disabled, so nothing can go to W&B; unset it")
    if mode in {"offline", "dryrun"}:
        return OfflineStore((entity, project), f"WANDB_MODE is {mode}", limits)
    if not _has_key(limits):
        return OfflineStore((entity, project), "there is no WANDB_API_KEY", limits)
    return OnlineRun(entity, project, safe_name(run_id), limits)


def open_artifact(url: str, limits: Limits | None = None) -> Source:
    """Open an artifact, or the files of a run that did not end, for reading.

    What comes from there is untrusted: names and bytes, of at most `LARGEST_FILE_BYTES` each.

    Args:
        url: ``wandb://entity/project/artifact:alias`` or ``wandb://entity/project/runs/RUN-ID``.
        limits: how long wandb may take.

    Raises:
        UsageError: the address is neither, or wandb is not installed.
    """
    _need_client()
    limits = limits or Limits()
    if found := _RUN.fullmatch(url):
        entity, project, id = found.groups()
        return RunFiles(entity, project, id, limits)
    if found := _ARTIFACT.fullmatch(url):
        return ArtifactFiles(found[1], limits)
    raise UsageError(
        f"{url} must be wandb://ENTITY/PROJECT/ARTIFACT:ALIAS or wandb://ENTITY/PROJECT/runs/RUN-ID"
    )


def _has_key(limits: Limits) -> bool:
    """Whether wandb has credentials; asked of its client where the variable does not say."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    with closing(Client(limits)) as client:
        return bool(client.call("has_key")[0])


def _need_client() -> None:
    if find_spec("wandb") is None:
        raise UsageError("wandb is not installed; install it with: pip install 'skymark[wandb]'")
