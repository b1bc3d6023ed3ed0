"""A small Hub of datasets and models on this machine, for its real client."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class HubHandler(BaseHTTPRequestHandler):
    """The paths that `dataset_info`, `HfFileSystem` and `hf_hub_download` ask for."""

    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        api = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path)
        file = re.fullmatch(r"(?:/datasets)?/([^/]+/[^/]+)/resolve/(\w{40}|main)/(.+)", path)
        if api is not None:
            self.answer_api(*api.groups())
        elif file is not None:
            self.answer_file(*file.groups())
        else:
            self.answer(404, b"{}")

    def do_HEAD(self):
        self.do_GET()

    def answer_api(self, name, kind, rest):
        revisions = self.server.datasets.get(name)
        if revisions is None:
            code = self.server.refusals.get(name, "RepoNotFound")
            self.answer(403 if code == "GatedRepo" else 404, b"{}", {"X-Error-Code": code})
            return
        by_commit = {commit_of(revision): files for revision, files in revisions.items()}
        if kind == "tree":
            commit, _, folder = rest.partition("/")
            files = by_commit.get(commit) or revisions[commit]
            listing = [
                {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
                for path, data in files.items()
                if self.is_listed(path.rpartition("/")[0], folder)
            ]
            self.answer_json(listing)
            return
        revision = rest or "main"
        files = revisions.get(revision) or by_commit.get(revision)
        if files is None:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        commit = revision if revision in by_commit else commit_of(revision)
        siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
        self.answer_json({"id": name, "sha": commit, "siblings": siblings, "tags": []})

    def is_listed(self, place, folder):
        if place == folder:
            return True
        below = not folder or place.startswith(f"{folder}/")
        return below and "recursive=true" in urlsplit(self.path).query.lower()

    def answer_file(self, name, commit, path):
        revisions = self.server.datasets.get(name, {"main": {}})
        revision, files = next((r, f) for r, f in revisions.items() if commit in {r, commit_of(r)})
        if path not in files:
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        commit, data = commit_of(revision), files[path]
        etag = hashlib.sha256(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if self.command == "GET":
            self.server.fetched.append(path)
        if wanted is None:
            self.answer(200, data, headers)
            return
        first, last = int(wanted[1]), int(wanted[2] or len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}"
        self.answer(206, data[first : last + 1], headers)

    def answer_json(self, value):
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def answer(self, status, data, headers=None):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *arguments):
        """Say nothing: the tests' output is not the place."""


class HubServer(ThreadingHTTPServer):
    """Serves datasets, and the files of models: name to revision to path to bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.datasets: dict[str, dict[str, dict[str, bytes]]] = {}
        self.refusals: dict[str, str] = {}
        self.fetched: list[str] = []


def commit_of(revision: str) -> str:
    return revision.encode().hex().ljust(40, "0")[:40]


@contextmanager
def serving() -> Iterator[HubServer]:
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
