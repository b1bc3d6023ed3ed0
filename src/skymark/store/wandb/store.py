"""Store in Weights & Biases: files while a run goes, then an artifact; both are read back."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.store.kinds import RunSource, Store
from skymark.store.wandb.client import CALLS, TimeLimits, WandbClient
from skymark.store.wandb.content import RunContent, wandb_id
from skymark.store.wandb.kind import DISABLED_MODE, KEY_VARIABLE, OFFLINE_MODES
from skymark.store.wandb.offline import (
    IncompleteError,
    log_and_read_offline,
    log_offline,
    read_back,
    sync,
)
from skymark.store.wandb.service import FOLDER

_PART = r"[\w.-]+"
_RUN = re.compile(rf"wandb://({_PART})/({_PART})/runs/({_PART})", re.ASCII)
_ARTIFACT = re.compile(rf"wandb://({_PART}/{_PART}/{_PART}:{_PART})", re.ASCII)


class RunFiles(RunSource):
    """Files of one run, kept with the W&B run of its name."""

    parallel = CALLS

    def __init__(self, entity: str | None, project: str, id: str, limits: TimeLimits) -> None:
        """Name the run; without an entity it is the key's default."""
        self.project = project
        self.id = id
        self._entity = entity
        self._limits = limits
        self._client = WandbClient(limits)

    @property
    def url(self) -> str:
        """The run's address; plain ``wandb`` until its entity is known."""
        return f"wandb://{self._entity}/{self.project}/runs/{self.id}" if self._entity else "wandb"

    def get(self, path: str) -> bytes:
        """Read one file."""
        with tempfile.TemporaryDirectory(dir=self._client.home) as root:
            self._client.call("get", run=self._run, path=path, root=root)
            return Path(root, FOLDER, path).read_bytes()

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every file of the run."""
        sizes: dict[str, int] = self._client.call("sizes", run=self._run)
        return sizes

    def close(self) -> None:
        """End wandb's worker and remove what it wrote."""
        self._client.close()

    @property
    def _place(self) -> tuple[str, str]:
        if self._entity is None:
            self._entity = str(self._client.call("entity"))
        return self._entity, self.project

    @property
    def _run(self) -> list[str]:
        return [*self._place, self.id]


class ArtifactFiles(RunSource):
    """Files of an artifact, downloaded once."""

    def __init__(self, name: str, limits: TimeLimits) -> None:
        """Name the artifact, as ``entity/project/artifact:alias``; contacts nobody yet."""
        self._name = name
        self._limits = limits
        self._client = WandbClient(limits)
        self._paths: frozenset[str] | None = None
        """Of the files that were downloaded."""

    @property
    def url(self) -> str:
        """The artifact's address."""
        return f"wandb://{self._name}"

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every file, without references to external files."""
        try:
            artifact = self._client.call("artifact", name=self._name)
        except FileNotFoundError:
            return {}
        return {path: entry["size"] for path, entry in artifact["entries"].items()}

    def get(self, path: str) -> bytes:
        """Read one file. The first call downloads all, which takes as long as reading back."""
        if self._paths is None:
            limit_s = self._limits.read_s + self._limits.per_file_s * len(self.sizes())
            self._root.mkdir(exist_ok=True)
            root = str(self._root)
            paths = self._client.call("artifact_files", limit_s, name=self._name, root=root)
            self._paths = frozenset(paths)
        if path not in self._paths:
            raise FileNotFoundError(f"{self.url} has no file {path}")
        return (self._root / path).read_bytes()

    def close(self) -> None:
        """End wandb's worker and remove what was downloaded."""
        self._client.close()

    @property
    def _root(self) -> Path:
        return self._client.home / "artifact"


def open_artifact(url: str, limits: TimeLimits | None = None) -> RunSource:
    """Open an artifact, or the files of a run that did not end, for reading.

    Names and bytes from there are untrusted; a file has at most `LARGEST_FILE_BYTES`.

    Args:
        url: ``wandb://entity/project/artifact:alias`` or ``wandb://entity/project/runs/RUN-ID``.
        limits: how long wandb may take.

    Raises:
        UsageError: the address is neither.
    """
    limits = limits or TimeLimits()
    if named := _RUN.fullmatch(url):
        entity, project, id = named.groups()
        return RunFiles(entity, project, id, limits)
    if named := _ARTIFACT.fullmatch(url):
        return ArtifactFiles(named[1], limits)
    raise UsageError(
        f"{url} must be wandb://ENTITY/PROJECT/ARTIFACT:ALIAS or wandb://ENTITY/PROJECT/runs/RUN-ID"
    )


DEFAULT_PROJECT = "skymark"
PROBE = "probe"


class OnlineRun(RunFiles, Store):
    """W&B run on a server."""

    several_writers = False

    def check(self) -> None:
        """Prove that a file can be written into the W&B run and read."""
        self.put(PROBE, PROBE.encode())
        given_back = self.get(PROBE)
        self.delete(PROBE)
        if given_back != PROBE.encode():
            raise StoreUnavailableError(f"{self.url} gave back other bytes than it was sent")

    def put(self, path: str, data: bytes) -> None:
        """Write one file; the W&B run is made on first use."""
        with tempfile.TemporaryDirectory(dir=self._client.home) as root:
            file = Path(root, FOLDER, path)
            file.parent.mkdir(parents=True)
            file.write_bytes(data)
            self._client.call("put", run=self._run, path=path, root=root)

    def delete(self, path: str) -> None:
        """Remove one file."""
        self._client.call("delete", run=self._run, path=path)

    def complete(self, directory: Path) -> str | None:
        """Log the run offline, upload it, and read everything back, unless all is there already.

        The new log is not read on disk, but on the server.
        """
        content = RunContent(directory)
        content.require_whole()
        with suppress(IncompleteError):
            return read_back(content, self._place, self._client, self._limits)
        logged = log_offline(content, self._place, self._limits)
        said = sync(logged, content, self._place, self._limits)
        try:
            return read_back(content, self._place, self._client, self._limits)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(f"{error}. {said}") from error


class OfflineStore(Store):
    """W&B run on disk, for lack of a key."""

    live = False
    several_writers = False
    url = "wandb"

    def __init__(self, place: tuple[str | None, str], reason: str, limits: TimeLimits) -> None:
        self._place = place
        self._reason = reason
        self._limits = limits

    def check(self) -> None:
        """Check nothing: no server is involved."""

    def put(self, path: str, data: bytes) -> None:
        """Refuse: files cannot be put one by one.

        Raises:
            StoreRefusedError: always.
        """
        del data
        raise StoreRefusedError(f"W&B is offline ({self._reason}): {path} goes with the whole run")

    def get(self, path: str) -> bytes:
        """Find no file, because W&B stores none separately.

        Raises:
            FileNotFoundError: always.
        """
        raise FileNotFoundError(path)

    def sizes(self) -> Mapping[str, int]:
        """Return nothing: no file is kept by itself."""
        return {}

    def delete(self, path: str) -> None:
        """Do nothing: no file is kept by itself."""

    def complete(self, directory: Path) -> str | None:
        """Write the offline run, and read it back."""
        content = RunContent(directory)
        content.require_whole()
        logged = log_and_read_offline(content, self._place, self._limits)
        return (
            f"W&B: offline ({self._reason}), the run is in {logged}; once a key is set, upload "
            f"it with: skymark export {shlex.quote(str(directory))} --to wandb"
        )


def open_run_files(url: str, run_id: str, limits: TimeLimits | None = None) -> Store:
    """Open W&B for a run: online where there is a key, else offline.

    Args:
        url: ``wandb``; entity and project come from WANDB_ENTITY and WANDB_PROJECT.
        run_id: the run's name, also of the W&B run.
        limits: how long wandb may take.

    Raises:
        UsageError: the address says more, or WANDB_MODE is ``disabled``.
    """
    if url != "wandb":
        raise UsageError(
            f"--store {url} must be wandb alone; set WANDB_ENTITY and WANDB_PROJECT for the place"
        )
    limits = limits or TimeLimits()
    entity = os.environ.get("WANDB_ENTITY") or None
    project = os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT
    mode = os.environ.get("WANDB_MODE", "")
    if mode == DISABLED_MODE:
        raise UsageError("WANDB_MODE is disabled, so nothing can go to W&B; unset it")
    if mode in OFFLINE_MODES:
        return OfflineStore((entity, project), f"WANDB_MODE is {mode}", limits)
    if not _has_key(limits):
        return OfflineStore((entity, project), f"there is no {KEY_VARIABLE}", limits)
    return OnlineRun(entity, project, wandb_id(run_id), limits)


def _has_key(limits: TimeLimits) -> bool:
    """Whether wandb has credentials, by the variable or else by its library."""
    if os.environ.get(KEY_VARIABLE):
        return True
    with closing(WandbClient(limits)) as client:
        return bool(client.call("has_key"))
