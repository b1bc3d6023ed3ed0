"""What the local W&B server knows and does, and how it is asked over HTTP.

    python -m tests.stores.wandb_backend STATE-DIRECTORY PORT

A field that it does not know is null. Its state lies in a directory and outlives the process.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import flask
from werkzeug.serving import make_server

from tests.stores.wandb_graphql import Request

KEY = "skymark_test_key_0123456789_0123456789_0123456789"
ENTITY = "lab"


class Backend:
    """What the server knows and does. One lock makes every request whole."""

    def __init__(self, directory: Path, base_url: str) -> None:
        self.directory = directory
        self.base_url = base_url
        self.lock = threading.Lock()
        self.state = json.loads((directory / "state.json").read_text())

    def save(self) -> None:
        part = self.directory / "state.json.part"
        part.write_text(json.dumps(self.state))
        part.replace(self.directory / "state.json")

    def url(self, name: str) -> str:
        return f"{self.base_url}/storage/{quote(name)}"

    def blob(self, name: str) -> Path:
        return self.directory / "blobs" / hashlib.sha256(name.encode()).hexdigest()

    def store(self, name: str, data: bytes) -> None:
        self.blob(name).write_bytes(data)
        md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
        self.state["blobs"][name] = {"size": len(data), "md5": md5}

    # Queries

    def query(self) -> dict[str, Any]:
        features = {"name": "MARK_RUN_FILES_UPLOADED", "isEnabled": True}
        return {
            "serverInfo": {"features": [features], "latestLocalVersionInfo": None},
            "viewer": {
                "id": "user-1",
                "entity": ENTITY,
                "username": ENTITY,
                "email": "lab@localhost",
                "flags": "{}",
                "teams": {"edges": [{"node": {"name": ENTITY}}]},
                "apiKeys": {"edges": []},
            },
            "entity": lambda name=None: {"name": name, "organization": None, "user": None},
            "project": lambda **given: self.project(given.get("entityName"), given["name"]),
            "model": lambda **given: self.project(given.get("entityName"), given["name"]),
            "artifact": lambda **given: self.artifact(self.state["artifacts"].get(given["id"])),
        }

    def project(self, entity: str | None, name: str) -> dict[str, Any]:
        entity = entity or ENTITY
        return {
            "id": f"{entity}/{name}",
            "internalId": "1",
            "name": name,
            "readOnly": False,
            "entity": {"id": entity, "name": entity},
            "run": lambda **given: self.run(entity, name, given["name"]),
            "bucket": lambda **given: self.run(entity, name, given["name"]),
            "artifactType": lambda name: {"name": name, "id": name},
            "artifactCollection": lambda **given: self.collection(entity, name, given["name"]),
            "artifactCollectionMembership": lambda **given: self.membership(
                entity, name, *given["name"].split(":")
            ),
        }

    def run(self, entity: str, project: str, name: str) -> dict[str, Any] | None:
        key = f"{entity}/{project}/{name}"
        run = self.state["runs"].get(key)
        if run is None:
            return None
        return run | {
            "project": self.project(entity, project),
            "projectId": "1",
            "user": {"name": ENTITY, "username": ENTITY},
            "wandbConfig": lambda **_: json.dumps({"t": {}}),
            "historyTail": "[]",
            "eventsTail": "[]",
            "logLineCount": 0,
            "eventsLineCount": 0,
            "fileCount": len(self.run_files(key)),
            "files": lambda **given: self.page(self.run_files(key), given),
        }

    def run_files(self, key: str) -> list[dict[str, Any]]:
        prefix = f"runs/{key}/"
        return [
            {
                "id": name,
                "name": name.removeprefix(prefix),
                "url": lambda name=name, **_: self.url(name),
                "directUrl": self.url(name),
                "sizeBytes": stored["size"],
                "mimetype": "application/octet-stream",
                "md5": stored["md5"],
            }
            for name, stored in sorted(self.state["blobs"].items())
            if name.startswith(prefix)
        ]

    def page(self, nodes: list[dict[str, Any]], given: dict[str, Any]) -> dict[str, Any]:
        """Return the page after a cursor, which is the number of nodes that came before."""
        if names := given.get("names"):
            nodes = [node for node in nodes if node["name"] in names]
        begin = int(given.get("after") or 0)
        end = begin + (given.get("first") or 50)
        edges = [{"node": n, "cursor": str(i + 1)} for i, n in enumerate(nodes)][begin:end]
        info = {
            "__typename": "PageInfo",
            "endCursor": str(begin + len(edges)),
            "hasNextPage": end < len(nodes),
        }
        return {"edges": edges, "pageInfo": info, "totalCount": len(nodes)}

    def collection(self, entity: str, project: str, name: str) -> dict[str, Any] | None:
        versions = self.versions(entity, project, name)
        if not versions:
            return None
        return {
            "__typename": "ArtifactSequence",
            "id": f"{entity}/{project}/{name}",
            "name": name,
            "project": self.project(entity, project),
            "digestAlgorithm": "MANIFEST_MD5",
            "artifactMembership": lambda **given: self.membership(
                entity, project, name, given["aliasName"]
            ),
        }

    def versions(self, entity: str, project: str, name: str) -> list[dict[str, Any]]:
        place = [entity, project, name]
        return [one for one in self.state["artifacts"].values() if one["collection"] == place]

    def membership(
        self, entity: str, project: str, name: str, alias: str = "latest"
    ) -> dict[str, Any] | None:
        for found in reversed(self.versions(entity, project, name)):
            committed = found["state"] == "COMMITTED"
            if committed and alias in {f"v{found['versionIndex']}", *found["aliases"]}:
                return {
                    "__typename": "ArtifactCollectionMembership",
                    "id": found["id"],
                    "versionIndex": found["versionIndex"],
                    "createdAt": found["createdAt"],
                    "aliases": self.aliases(found),
                    "artifactCollection": self.collection(entity, project, name),
                    "artifact": self.artifact(found),
                    "files": lambda found=found, **given: self.page(
                        self.artifact_files(found), given
                    ),
                }
        return None

    def aliases(self, artifact: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"__typename": "ArtifactAlias", "id": alias, "alias": alias}
            | {"artifactCollection": self.collection(*artifact["collection"])}
            for alias in artifact["aliases"]
        ]

    def artifact(self, found: dict[str, Any] | None) -> dict[str, Any] | None:
        if found is None:
            return None
        entity, project, name = found["collection"]
        manifest = f"manifests/{found.get('manifest')}"
        stored = self.state["blobs"].get(manifest)
        entries = self.artifact_files(found)
        return found | {
            "__typename": "Artifact",
            "artifactSequence": {
                "__typename": "ArtifactSequence",
                "id": f"{entity}/{project}/{name}",
                "name": name,
                "project": self.project(entity, project),
                "latestArtifact": self.latest(entity, project, name),
            },
            "artifactType": {"name": found["type"]},
            "aliases": self.aliases(found),
            "tags": [],
            "ttlIsInherited": True,
            "ttlDurationSeconds": -1,
            "digestAlgorithm": "MANIFEST_MD5",
            "size": sum(entry["sizeBytes"] for entry in entries),
            "fileCount": len(entries),
            "currentManifest": stored
            and {"id": found["manifest"], "file": {"directUrl": self.url(manifest)}},
            "filesByManifestEntries": lambda **_: self.page(entries, {"first": 10**6}),
        }

    def latest(self, entity: str, project: str, name: str) -> dict[str, Any] | None:
        for one in reversed(self.versions(entity, project, name)):
            if one["state"] == "COMMITTED":
                return {"id": one["id"], "versionIndex": one["versionIndex"]}
        return None

    def artifact_files(self, found: dict[str, Any]) -> list[dict[str, Any]]:
        prefix = f"artifacts/{found['id']}/"
        return [
            {
                "__typename": "File",
                "id": name,
                "name": name.removeprefix(prefix),
                "displayName": name.removeprefix(prefix),
                "storagePath": name,
                "directUrl": self.url(name),
                "url": lambda name=name, **_: self.url(name),
                "sizeBytes": stored["size"],
                "mimetype": "application/octet-stream",
                "digest": stored["md5"],
                "md5": stored["md5"],
            }
            for name, stored in sorted(self.state["blobs"].items())
            if name.startswith(prefix)
        ]

    # Mutations

    def mutation(self) -> dict[str, Any]:
        changes = (
            self.upsert_bucket,
            self.create_artifact_type,
            self.create_artifact,
            self.create_artifact_manifest,
            self.update_artifact_manifest,
            self.create_artifact_files,
            self.commit_artifact,
            self.create_run_files,
            self.mark_run_files_uploaded,
            self.delete_files,
        )
        return {
            re.sub(r"_(\w)", lambda found: found[1].upper(), change.__name__): (
                lambda change=change, **given: change(given["input"])
            )
            for change in changes
        }

    def upsert_bucket(self, given: dict[str, Any]) -> dict[str, Any]:
        entity = given.get("entityName") or ENTITY
        project = given.get("modelName") or "uncategorized"
        key = f"{entity}/{project}/{given.get('name')}"
        if (id := given.get("id")) is not None:
            key = next(name for name, run in self.state["runs"].items() if run["id"] == id)
        inserted = key not in self.state["runs"]
        run = self.state["runs"].setdefault(
            key,
            {
                "id": f"run-{len(self.state['runs'])}",
                "name": key.rpartition("/")[2],
                "state": "running",
                "config": "{}",
                "summaryMetrics": "{}",
                "systemMetrics": "{}",
                "tags": [],
                "history": {},
                "historyLineCount": 0,
                "createdAt": "2026-01-15T09:30:00Z",
            },
        )
        asked = ("displayName", "notes", "config", "tags", "state", "summaryMetrics", "commit")
        run |= {name: given[name] for name in asked if given.get(name) is not None}
        return {"bucket": self.run(*key.split("/")), "inserted": inserted}

    def create_artifact_type(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"artifactType": {"id": given["name"], "name": given["name"]}}

    def create_artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        names = given.get("artifactCollectionNames") or [given.get("artifactCollectionName")]
        place = [given["entityName"], given["projectName"], names[0]]
        aliases = [alias["alias"] for alias in given.get("aliases") or []]
        versions = self.versions(*place)
        for one in versions:
            if one["digest"] == given["digest"]:
                self.move_aliases(one, aliases)
                return {"artifact": self.artifact(one)}
        id = base64.b64encode(f"Artifact:{len(self.state['artifacts'])}".encode()).decode()
        made = self.state["artifacts"][id] = {
            "id": id,
            "collection": place,
            "type": given["artifactTypeName"],
            "run": given.get("runName"),
            "digest": given["digest"],
            "state": "PENDING",
            "versionIndex": len(versions),
            "aliases": [],
            "metadata": given.get("metadata"),
            "description": given.get("description"),
            "createdAt": "2026-01-15T09:30:00Z",
            "commitHash": "",
        }
        self.move_aliases(made, aliases)
        return {"artifact": self.artifact(made)}

    def move_aliases(self, artifact: dict[str, Any], aliases: list[str]) -> None:
        for one in self.versions(*artifact["collection"]):
            one["aliases"] = [alias for alias in one["aliases"] if alias not in aliases]
        artifact["aliases"] = list(dict.fromkeys([*artifact["aliases"], *aliases, "latest"]))

    def create_artifact_manifest(self, given: dict[str, Any]) -> dict[str, Any]:
        id = f"manifest-{len(self.state['manifests'])}"
        self.state["manifests"][id] = given["artifactID"]
        return self.manifest(id)

    def update_artifact_manifest(self, given: dict[str, Any]) -> dict[str, Any]:
        return self.manifest(given["artifactManifestID"])

    def manifest(self, id: str) -> dict[str, Any]:
        self.state["artifacts"][self.state["manifests"][id]]["manifest"] = id
        file = {"id": id, "uploadUrl": self.url(f"manifests/{id}"), "uploadHeaders": []}
        return {"artifactManifest": {"id": id, "file": file}}

    def create_artifact_files(self, given: dict[str, Any]) -> dict[str, Any]:
        nodes = [
            {
                "storagePath": f"artifacts/{one['artifactID']}/{one['name']}",
                "uploadUrl": self.url(f"artifacts/{one['artifactID']}/{one['name']}"),
                "uploadHeaders": [],
                "artifact": {"id": one["artifactID"]},
            }
            for one in given["artifactFiles"]
        ]
        return {"files": {"edges": [{"node": node} for node in nodes]}}

    def commit_artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        found = self.state["artifacts"][given["artifactID"]]
        if not faults(self.directory).get("pending"):
            found["state"] = "COMMITTED"
        return {"artifact": self.artifact(found)}

    def create_run_files(self, given: dict[str, Any]) -> dict[str, Any]:
        key = "/".join((given["entityName"], given["projectName"], given["runName"]))
        run = self.state["runs"].get(key)
        files = [
            {"name": name, "uploadUrl": self.url(f"runs/{key}/{name}")} for name in given["files"]
        ]
        return {"runID": run and run["id"], "uploadHeaders": [], "files": files}

    def mark_run_files_uploaded(self, given: dict[str, Any]) -> dict[str, Any]:
        del given
        return {"success": True}

    def delete_files(self, given: dict[str, Any]) -> dict[str, Any]:
        for name in given["files"]:
            del self.state["blobs"][name]
            self.blob(name).unlink()
        return {"success": True}

    def stream(self, key: str, body: dict[str, Any]) -> None:
        """Take a file-stream message: lines at offsets, and the exit code at the end."""
        run = self.state["runs"][key]
        for name, part in (body.get("files") or {}).items():
            lines = run["history"].setdefault(name, [])
            lines[part["offset"] : part["offset"] + len(part["content"])] = part["content"]
            if name == "wandb-summary.json":
                run["summaryMetrics"] = part["content"][-1]
        run["historyLineCount"] = len(run["history"].get("wandb-history.jsonl", []))
        if body.get("complete"):
            run["state"] = "finished" if body.get("exitcode") == 0 else "failed"
        self.save()


def faults(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "faults.json").read_text())


def application(directory: Path, base_url: str) -> Any:
    """Return the WSGI application."""
    backend = Backend(directory, base_url)
    app = flask.Flask("wandb")
    log = os.open(directory / "requests.log", os.O_WRONLY | os.O_APPEND)

    def name_of_request() -> str:
        request = flask.request
        if request.path == "/graphql":
            body = request.get_json()
            if body.get("operationName"):
                return str(body["operationName"])
            return body["query"].split("(")[0].split("{")[0].split()[-1]
        return f"{request.method} {unquote(request.path)}"

    @app.before_request
    def note() -> Any:
        if flask.request.path == "/ready":
            return "ready"
        name = name_of_request()
        os.write(log, f"{name}\n".encode())
        wrong = faults(directory)
        if any(name.startswith(prefix) for prefix in wrong.get("stall", [])):
            threading.Event().wait()
        for prefix, status in wrong.get("status", {}).items():
            if name.startswith(prefix):
                return flask.jsonify(error=f"told to answer {status}"), status
        signed = flask.request.path.startswith("/storage/")
        given = flask.request.authorization
        if not signed and (given is None or given.password != KEY):
            return flask.jsonify(errors=[{"message": "invalid API key"}]), 401
        return None

    @app.post("/graphql")
    def graphql() -> Any:
        body = flask.request.get_json()
        operation = body.get("operationName") or None
        request = Request(body["query"], body.get("variables") or {}, operation)
        with backend.lock:
            root = backend.mutation() if request.is_mutation else backend.query()
            data = request.answer(root)
            if request.is_mutation:
                backend.save()
        return flask.jsonify(data=data)

    @app.post("/files/<entity>/<project>/<run>/file_stream")
    def file_stream(entity: str, project: str, run: str) -> Any:
        with backend.lock:
            backend.stream(f"{entity}/{project}/{run}", flask.request.get_json())
        return flask.jsonify({})

    @app.put("/storage/<path:name>")
    def put(name: str) -> Any:
        data = flask.request.get_data()
        with backend.lock:
            backend.store(name, data)
            backend.save()
        return ""

    @app.get("/storage/<path:name>")
    def get(name: str) -> Any:
        blob = backend.blob(name)
        if not blob.exists():
            return "no such object", 404
        return flask.send_file(blob, mimetype="application/octet-stream")

    return app


def main() -> None:
    directory, port = Path(sys.argv[1]), int(sys.argv[2])
    base_url = f"http://127.0.0.1:{port}"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until a killed one has gone
        make_server(
            "127.0.0.1", port, application(directory, base_url), threaded=True
        ).serve_forever()


if __name__ == "__main__":
    main()
