"""Store in Weights & Biases: files while a run goes, then a W&B run with an artifact."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.store.store import Store
from skymark.store.wandb.client import Client
from skymark.store.wandb.content import RunContent
from skymark.store.wandb.limits import Limits
from skymark.store.wandb.names import wandb_id
from skymark.store.wandb.offline import kept_offline, log_offline, offline_run
from skymark.store.wandb.source import RunFiles
from skymark.store.wandb.upload import IncompleteError, read_back, sync
from skymark.store.wandb.variables import DISABLED_MODE, KEY_VARIABLE, OFFLINE_MODES

DEFAULT_PROJECT = "skymark"
PROBE = b"skymark"


class OnlineRun(RunFiles):
    """W&B run on a server. Implements `skymark.store.store.Store`."""

    live = True
    several_writers = False

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
        content.require_whole()
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
    """W&B run on disk, for lack of a key. Implements `skymark.store.store.Store`."""

    live = False
    several_writers = False
    parallel = 1
    url = "wandb"

    def __init__(self, place: tuple[str | None, str], reason: str, limits: Limits) -> None:
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
        """Find no file: none is kept by itself.

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
        run = offline_run(content, self._place, self._limits)
        return (
            f"W&B: offline ({self._reason}), the run is in {run.path}; once a key is set, upload "
            f"it with: skymark export {shlex.quote(str(directory))} --to wandb"
        )

    def close(self) -> None:
        """Do nothing: no process is held."""


def open_run_files(url: str, run_id: str, limits: Limits | None = None) -> Store:
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
    limits = limits or Limits()
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


def _has_key(limits: Limits) -> bool:
    """Whether wandb has credentials; asked of its library where the variable does not say."""
    if os.environ.get(KEY_VARIABLE):
        return True
    with closing(Client(limits)) as client:
        return bool(client.call("has_key")[0])
