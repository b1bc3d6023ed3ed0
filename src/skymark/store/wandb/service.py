"""Worker in wandb's process: operations of its public API, several at a time.

    python -P -m skymark.store.wandb.service REQUEST-LIMIT-S CALLS

reads calls from standard input and answers on standard output, a line of JSON each, in the order in
which they are done. Files pass through directories. It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import resource
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.layout import MOST_FILES, RUN_FILE

REFUSED_STATUSES = {400, 401, 403, 404}
FOLDER = "skymark/"
"""Folder of the run's files among wandb's own files of a W&B run."""
DOWNLOADS = 8
PAGE = 1000


class AbsentError(Exception):
    """Error of an absent run, file or artifact."""


class OversizedError(Exception):
    """Error of a file that is larger than allowed, or than its artifact says."""


class Service:
    """Operations of wandb's API. `run` is ``(project, id)`` or ``(entity, project, id)``."""

    def __init__(self, request_s: int) -> None:
        self._request_s = request_s
        self._runs: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def _api(self) -> Any:
        with self._lock:
            return self._made_api

    @cached_property
    def _made_api(self) -> Any:
        import wandb

        return wandb.Api(timeout=self._request_s)

    def has_key(self) -> bool:
        """Return whether wandb finds credentials for its server, wherever they are kept."""
        import wandb
        from wandb.sdk.lib import wbauth

        host = wandb.setup().settings.base_url
        return wbauth.authenticate_session(host=host, source="skymark", prompt=False) is not None

    def entity(self) -> Any:
        """Return the entity of runs: of WANDB_ENTITY, the settings, or the key's default."""
        return self._api.settings["entity"] or self._api.default_entity

    def put(self, run: list[str], path: str, root: str) -> None:
        """Upload one file of a run from a directory; makes the run if it is absent."""
        self._run(run, make=True).upload_file(str(Path(root, FOLDER, path)), root=root)

    def get(self, run: list[str], path: str, root: str) -> None:
        """Download one file of a run below a directory."""
        _download(self._file(run, path), Path(root))

    def sizes(self, run: list[str]) -> dict[str, int]:
        """Return the sizes of a run's files by path; empty for an absent run."""
        try:
            files = self._run(run).files(per_page=PAGE)
        except AbsentError:
            return {}
        return {
            file.name.removeprefix(FOLDER): file.size
            for file in files
            if file.name.startswith(FOLDER)
        }

    def delete(self, run: list[str], path: str) -> None:
        """Remove one file of a run, if it is there."""
        with contextlib.suppress(AbsentError):
            self._file(run, path).delete()

    def run(self, run: list[str]) -> dict[str, Any]:
        """Return a run's address and summary figures."""
        loaded = self._run(run, fresh=True)
        return {"url": loaded.url, "summary": dict(loaded.summary_metrics)}

    def artifact(self, name: str) -> dict[str, Any]:
        """Return an artifact's version and, by path, its entries' digest and size."""
        artifact = self._artifact(name)
        return {
            "version": artifact.version,
            "entries": {
                str(path): {"digest": entry.digest, "size": entry.size}
                for path, entry in artifact.manifest.entries.items()
                if entry.ref is None  # a reference may name any file of this machine
            },
        }

    def artifact_files(self, name: str, root: str) -> list[str]:
        """Download an artifact's files below a directory, and return their paths.

        Not by `Artifact.download`: without the cache its threads share the place they write to.
        """
        artifact = self._artifact(name)
        entries = artifact.manifest.entries
        sizes = {
            path: entry.size
            for path, entry in entries.items()
            if entry.ref is None and RUN_FILE.fullmatch(path) and entry.size <= LARGEST_FILE_BYTES
        }
        listed = itertools.islice(artifact.files(per_page=PAGE), MOST_FILES)
        files = [file for file in listed if file.name in sizes]
        for file in files:  # the caller has refused sizes that no run has
            if file.size != sizes[file.name]:
                raise OversizedError(
                    f"{file.name} is listed with {file.size:,} bytes, and otherwise"
                )
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            under_way = [pool.submit(_download, file, Path(root)) for file in files]
            try:
                for download in under_way:
                    download.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        return [file.name for file in files]

    def _run(self, run: list[str], *, make: bool = False, fresh: bool = False) -> Any:
        path = "/".join(run)
        with self._lock:
            if fresh or path not in self._runs:
                try:
                    self._runs[path] = self._loaded(path)
                except AbsentError:
                    if not make:
                        raise
                    entity, project, id = run
                    self._api.create_run(run_id=id, project=project, entity=entity)
                    self._runs[path] = self._loaded(path)
            return self._runs[path]

    def _loaded(self, path: str) -> Any:
        try:
            loaded = self._api.run(path)
            loaded.load(force=True)
        except Exception as error:
            if "Could not find" in str(error):
                raise AbsentError(f"there is no run {path}") from error
            raise
        return loaded

    def _file(self, run: list[str], path: str) -> Any:
        name = FOLDER + path
        for file in self._run(run).files(names=[name]):
            if file.name == name:
                return file
        raise AbsentError(f"{'/'.join(run)} has no file {path}")

    def _artifact(self, name: str) -> Any:
        try:
            return self._api.artifact(name)
        except Exception as error:
            if "not found" in str(error).lower():
                raise AbsentError(f"there is no artifact {name}") from error
            raise


def main() -> None:
    """Answer calls until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # wandb prints
    # Whatever a server sends, no file grows beyond this, in wandb's own process neither.
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE_BYTES, LARGEST_FILE_BYTES))
    request_s, calls = map(int, sys.argv[1:])
    service, pool, answering = Service(request_s), ThreadPoolExecutor(calls), threading.Lock()

    def answer(number: int, operation: str, arguments: dict[str, Any]) -> None:
        try:
            told = {"result": getattr(service, operation)(**arguments)}
        except Exception as error:  # the process boundary: all becomes a message
            told = refusal_of(error)
        with answering:
            print(json.dumps({"number": number, **told}), file=answers, flush=True)

    for line in sys.stdin:
        pool.submit(answer, **json.loads(line))
    os._exit(0)  # wandb's own exit waits for requests that get no answer


def refusal_of(error: Exception) -> dict[str, str]:
    """Return an error of wandb's as a message and its kind: absent, refused or unavailable.

    wandb raises the same types for both, so the HTTP status decides: its own attribute where there
    is one, else the one named in the message.
    """
    if isinstance(error, AbsentError | OversizedError):
        absent = isinstance(error, AbsentError)
        return {"refusal": "absent" if absent else "oversized", "message": str(error)}
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    told = " ".join(str(link) for link in chain)
    statuses = {int(status) for status in re.findall(r"(?:status:|error) (\d{3})\b", told)}
    statuses |= {
        getattr(getattr(link, "response", None), "http_status", None) or 0 for link in chain
    }
    no_login = re.search(r"API key must|invalid API key|No API key|not allowed", told)
    refused = bool(statuses & REFUSED_STATUSES or no_login)
    if any(isinstance(link, TimeoutError) for link in chain):
        # wandb calls this a busy service, or credentials that could not be verified.
        return {"refusal": "unavailable", "message": "the server did not answer in time"}
    message = f"{type(error).__name__}: {str(error).strip()}"[:500]
    return {"refusal": "refused" if refused else "unavailable", "message": message}


def _download(file: Any, root: Path) -> None:
    if file.size > LARGEST_FILE_BYTES:
        raise OversizedError(f"{file.name} has {file.size:,} bytes; skymark writes no such file")
    file.download(root=str(root), replace=True).close()
    if (root / file.name).stat().st_size != file.size:
        raise ValueError(f"{file.name} was not received whole")


if __name__ == "__main__":
    main()
