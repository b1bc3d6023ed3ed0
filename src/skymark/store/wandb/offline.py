"""Offline W&B run of a directory: logged, read back from its ``.wandb`` file, uploaded.

It is kept below the cache (`skymark.store.wandb.content`). wandb sends an offline run's artifact
once only, so each upload starts from a run logged anew.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import time
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.model.sizes import some_of
from skymark.store.wandb.client import TimeLimits, WandbClient, python_module, run_bounded
from skymark.store.wandb.content import LINK, RunContent, home_of, wandb_id

Place = tuple[str | None, str]
"""Entity, if it is known, and project."""

TAIL_CHARACTERS = 500
SUMMARY_PATIENCE_S = 15.0
"""A server may take a moment to show the figures that it has been sent."""
POLL_S = 0.5


class IncompleteError(StoreUnavailableError):
    """Error of a W&B server that holds only a part of the run."""


def log_and_read_offline(content: RunContent, place: Place, limits: TimeLimits) -> Path:
    """Log the run offline, and read it back; returns its folder.

    Raises:
        StoreRefusedError: it cannot be written.
        StoreUnavailableError: it was not written in time, or is not what was to be written.
    """
    logged = log_offline(content, place, limits)
    if not _agrees(logged, content, place, limits):
        raise StoreUnavailableError(f"W&B: the offline run {logged} is not what was to be written")
    return logged


def log_offline(content: RunContent, place: Place, limits: TimeLimits) -> Path:
    """Log the run offline, unread, in place of an earlier one; returns its folder.

    Raises:
        StoreRefusedError: it cannot be written.
        StoreUnavailableError: it was not written, or not in time.
    """
    directory, home = content.directory.resolve(), home_of(content)
    entity, project = place
    shutil.rmtree(home / "wandb", ignore_errors=True)
    try:
        (home / "wandb").mkdir(exist_ok=True)
        (home / LINK).unlink(missing_ok=True)
        (home / LINK).symlink_to(directory)
        in_time, printed = run_bounded(
            python_module("skymark.store.wandb.content", str(directory), project),
            home,
            _limit_s(content, limits),
            {"WANDB_MODE": "offline"} | ({"WANDB_ENTITY": entity} if entity else {}),
        )
    except OSError as error:
        raise StoreRefusedError(
            f"cannot write {home / 'wandb'}: {error.strerror}; free some space, then "
            f"skymark export {shlex.quote(str(directory))} --to wandb"
        ) from error
    runs = list((home / "wandb").glob("offline-run-*"))
    if not in_time or len(runs) != 1:
        late = "" if in_time else " in time"
        raise StoreUnavailableError(f"W&B: the offline run was not written{late}: {_tail(printed)}")
    return runs[0]


def read_offline(path: Path, home: Path, limit_s: float) -> list[dict[str, Any]]:
    """Return the entries of an offline run's ``.wandb`` file, by wandb's own reader.

    Raises:
        StoreUnavailableError: the reader did not end in time.
    """
    entries = home / "wandb" / "entries.jsonl"
    inspect = python_module("wandb", "leet", "inspect", "--json", str(path))
    try:
        in_time, _ = run_bounded(
            ["sh", "-c", 'exec "$@" > "$0"', str(entries), *inspect], home, limit_s
        )
        lines = entries.read_text("utf-8", errors="replace").splitlines()
    finally:
        entries.unlink(missing_ok=True)
    if not in_time:
        raise StoreUnavailableError(f"W&B: {path} was not read within {limit_s:.0f} s")
    return [json.loads(line) for line in lines if line.startswith('{"num"')]


def _agrees(path: Path, content: RunContent, place: Place, limits: TimeLimits) -> bool:
    """Whether an offline run ended, and holds the artifact and the figures of the directory."""
    entries = read_offline(path, home_of(content), _limit_s(content, limits))
    by_type: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_type.setdefault(entry["type"], []).append(entry[entry["type"]])
    run = by_type.get("run", [{}])[0]
    known = (run.get("run_id"), (run.get("entity") or None, run.get("project")))
    if known != (wandb_id(content.manifest.run_id), place) or "exit" not in by_type:
        return False
    summary: dict[str, Any] = {}
    for part in by_type.get("summary", []):
        summary |= part.get("update", {})
    wanted = content.md5s()
    logged = [
        {entry["path"]: entry["digest"] for entry in artifact["manifest"]["contents"]}
        for artifact in by_type.get("artifact", [])
        if artifact["name"] == content.artifact
    ]
    return logged == [wanted] and content.summary().items() <= summary.items()


def _limit_s(content: RunContent, limits: TimeLimits) -> float:
    return limits.log_s + limits.per_file_s * len(content.files)


def sync(logged: Path, content: RunContent, place: tuple[str, str], limits: TimeLimits) -> str:
    """Upload an offline run with wandb's command line; return its complaint or "". Proves nothing.

    Args:
        logged: folder of the offline run.
        content: the run's directory.
        place: entity and project.
        limits: how long it may take.
    """
    limit_s = limits.sync_s + limits.per_file_s * len(content.files)
    entity, project = place
    where = ("--entity", entity, "--project", project, "--include-synced", str(logged))
    command = python_module("wandb", "sync", *where)
    in_time, printed = run_bounded(command, home_of(content), limit_s, with_key=True)
    if not in_time:
        return f"`wandb sync` was ended after {limit_s:.0f} s"
    return f"`wandb sync` said: {_tail(printed)}"


def read_back(
    content: RunContent, place: tuple[str, str], client: WandbClient, limits: TimeLimits
) -> str:
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
    with tempfile.TemporaryDirectory(dir=client.home) as received:
        try:
            artifact = client.call("artifact", name=name)
            client.call("artifact_files", limit_s, name=name, root=received)
            run = _summarised(content, [entity, project, id], client)
        except FileNotFoundError as error:
            raise IncompleteError(f"W&B: {error}") from error
        _compare(content, artifact["entries"], Path(received))
    for copies in ("cache", "data"):  # wandb's own copies of what is now known to be stored
        shutil.rmtree(home_of(content) / "wandb" / copies, ignore_errors=True)
    version = artifact["version"]
    return f"W&B: {run['url']}, artifact {entity}/{project}/{content.artifact}:{version}"


def _compare(content: RunContent, entries: Mapping[str, Mapping[str, Any]], received: Path) -> None:
    lacking = []
    for path, md5 in content.md5s().items():
        data = (content.directory / path).read_bytes()
        entry = entries.get(path, {})
        # Servers may use another digest than MD5; the bytes are compared in any case.
        other = len(b64decode(entry.get("digest", ""))) == 16 and entry["digest"] != md5
        copy = received / path
        if other or not copy.is_file() or copy.read_bytes() != data:
            lacking.append(path)
    if lacking:
        raise IncompleteError(f"W&B: the artifact lacks, or differs in, {some_of(lacking)}")


def _summarised(content: RunContent, run: list[str], client: WandbClient) -> dict[str, Any]:
    wanted = content.summary()
    deadline = time.monotonic() + SUMMARY_PATIENCE_S
    while True:
        shown: dict[str, Any] = client.call("run", run=run)
        figures = _flat(shown["summary"])
        lacking = [name for name, value in wanted.items() if figures.get(name) != value]
        if not lacking:
            return shown
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


def _tail(printed: str) -> str:
    return printed.strip()[-TAIL_CHARACTERS:] or "wandb printed nothing"
