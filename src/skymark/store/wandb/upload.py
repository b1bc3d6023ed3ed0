"""Upload of an offline run to W&B, and comparison of what arrived."""

from __future__ import annotations

import shutil
import time
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from skymark.model.errors import StoreUnavailableError
from skymark.store.wandb.client import Client
from skymark.store.wandb.content import RunContent
from skymark.store.wandb.home import home_of
from skymark.store.wandb.limits import Limits
from skymark.store.wandb.names import wandb_id
from skymark.store.wandb.offline import LOG, OfflineRun, log_tail
from skymark.store.wandb.processes import python_module, run_bounded

NAMED = 5
SUMMARY_PATIENCE_S = 15.0
"""A server may take a moment to show the figures that it has been sent."""
POLL_S = 0.5


class IncompleteError(StoreUnavailableError):
    """Error of a W&B server that answers and does not hold all of the run."""


def sync(offline: OfflineRun, content: RunContent, place: tuple[str, str], limits: Limits) -> str:
    """Upload an offline run with wandb's command line; return its complaint or "". Proves nothing.

    Args:
        offline: what to upload.
        content: the run's directory.
        place: entity and project.
        limits: how long it may take.
    """
    home = home_of(content)
    limit_s = limits.sync_s + limits.per_file_s * len(content.files)
    entity, project = place
    command = python_module(
        "skymark.store.wandb.tool", "sync", "--entity", entity, "--project", project
    )
    command += ["--include-synced", str(offline.path)]
    code = run_bounded(command, home, home / LOG, limit_s, with_key=True)
    if code is None:
        return f"`wandb sync` was ended after {limit_s:.0f} s"
    return f"`wandb sync` said: {log_tail(content)}"


def read_back(content: RunContent, place: tuple[str, str], client: Client, limits: Limits) -> str:
    """Compare the run in W&B with the directory; return a message with its address.

    The artifact's manifest, the bytes of every entry, and the summary figures are compared.

    Raises:
        IncompleteError: something is missing, or differs.
        StoreUnavailableError: W&B did not answer in time.
        StoreRefusedError: W&B may not be read.
    """
    entity, project = place
    id = wandb_id(content.manifest.run_id)
    name = f"{entity}/{project}/{content.artifact}:{id}"
    limit_s = limits.read_s + limits.per_file_s * len(content.files)
    try:
        found, _ = client.call("artifact", name=name)
        digests, _ = client.call("artifact_digests", limit_s=limit_s, name=name)
        run = _summarised(content, [entity, project, id], client)
    except FileNotFoundError as error:
        raise IncompleteError(f"W&B: {error}") from error
    _compare(content, found["entries"], digests)
    for copies in ("cache", "data"):  # wandb's own copies of what is now known to be stored
        shutil.rmtree(home_of(content) / "wandb" / copies, ignore_errors=True)
    return f"W&B: {run['url']}, artifact {entity}/{project}/{content.artifact}:{found['version']}"


def _compare(
    content: RunContent, entries: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]
) -> None:
    lacking = []
    for path, md5 in content.md5s().items():
        data = (content.directory / path).read_bytes()
        entry = entries.get(path, {})
        # Servers may use another digest than MD5; the bytes are compared in any case.
        other = len(b64decode(entry.get("digest", ""))) == 16 and entry["digest"] != md5
        if other or entry.get("size") != len(data) or digests.get(path) != sha256(data).hexdigest():
            lacking.append(path)
    if lacking:
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        raise IncompleteError(
            f"W&B: the artifact lacks, or differs in, {', '.join(lacking[:NAMED])}{more}"
        )


def _summarised(content: RunContent, run: list[str], client: Client) -> dict[str, Any]:
    wanted = content.summary()
    deadline = time.monotonic() + SUMMARY_PATIENCE_S
    while True:
        found: dict[str, Any]
        found, _ = client.call("run", run=run)
        shown = _flat(found["summary"])
        lacking = [name for name, value in wanted.items() if shown.get(name) != value]
        if not lacking:
            return found
        if time.monotonic() > deadline:
            raise IncompleteError(
                f"W&B: the run's summary lacks {len(lacking)} figures, the first {lacking[0]}"
            )
        time.sleep(POLL_S)


def _flat(summary: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return a summary with full names: a server may show names with dots as nested."""
    flat: dict[str, Any] = {}
    for name, value in summary.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = value
    return flat
