"""A local Weights & Biases server for wandb's own client, with its state on disk.

It answers what client 0.31 asks when it syncs an offline run, uploads files into a run and reads
both back (`tests.stores.wandb_backend`), in a process of its own that a test can take away.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.stores.wandb_backend import ENTITY, KEY

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 120.0


class WandbServer:
    """A server in a process of its own, as a test sees it."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment that leads wandb's client here."""
        return {"WANDB_BASE_URL": self.base_url, "WANDB_API_KEY": KEY, "WANDB_ENTITY": ENTITY}

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """Runs by ``entity/project/id``; `config` and `summaryMetrics` are JSON texts."""
        return self._state()["runs"]

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """Artifact versions by id, with `collection`, `state`, `versionIndex` and `aliases`."""
        return self._state()["artifacts"]

    @property
    def requests(self) -> list[str]:
        """What was asked: GraphQL operations by name, and ``METHOD /path`` of all else."""
        return (self.directory / "requests.log").read_text().splitlines()

    def files(self, run: str) -> dict[str, bytes]:
        """Return the uploaded files of a run, by name."""
        return self._uploaded(f"runs/{run}/")

    def artifact_files(self, id: str) -> dict[str, bytes]:
        """Return the bytes of an artifact's entries, by path."""
        return self._uploaded(f"artifacts/{id}/")

    def stored(self, name: str) -> Path:
        """Return the file that holds the bytes of ``artifacts/ID/PATH`` or ``manifests/ID``."""
        return self._blob(name)

    def misbehave(self, **faults: Any) -> None:
        """Answer wrongly from now on; no arguments end it.

        `status`: {path prefix or GraphQL operation: HTTP status}; `stall`: a list of the same that
        are never answered; `pending`: artifacts are said to be committed and are not.
        """
        (self.directory / "faults.json.part").write_text(json.dumps(faults))
        (self.directory / "faults.json.part").replace(self.directory / "faults.json")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.directory / "server.log").open("ab")
        module = ["-m", "tests.stores.wandb_backend"]
        command = [sys.executable, *module, str(self.directory), str(self.port)]
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urlopen(f"{self.base_url}/ready", timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError((self.directory / "server.log").read_text())

    def stop(self) -> None:
        """Kill it at once; connections are cut, its state stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def was_asked(self, request: str) -> bool:
        """Return whether a request that begins so was made."""
        return any(line.startswith(request) for line in self.requests)

    def wait_for(self, request: str, limit_s: float = 60.0) -> None:
        """Wait until a request that begins so was made."""
        deadline = time.monotonic() + limit_s
        while not self.was_asked(request):
            if time.monotonic() > deadline:
                raise TimeoutError(request)
            time.sleep(0.01)

    def _state(self) -> dict[str, Any]:
        return json.loads((self.directory / "state.json").read_text())

    def _blob(self, name: str) -> Path:
        return self.directory / "blobs" / hashlib.sha256(name.encode()).hexdigest()

    def _uploaded(self, prefix: str) -> dict[str, bytes]:
        return {
            name.removeprefix(prefix): self._blob(name).read_bytes()
            for name in self._state()["blobs"]
            if name.startswith(prefix)
        }


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """Run a server on a free loopback port; its state goes with it."""
    with (
        socket.socket() as kept,
        tempfile.TemporaryDirectory(prefix="wandb-server-") as directory,
    ):
        # Bound, and never listening: nobody else is given the port while the server is away, who
        # asks there is refused, and the server, which reuses addresses as well, can have it again.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        server = WandbServer(Path(directory), kept.getsockname()[1])
        prepare(server.directory)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def prepare(directory: Path) -> None:
    """Make an empty state."""
    (directory / "blobs").mkdir()
    (directory / "requests.log").touch()
    (directory / "faults.json").write_text("{}")
    empty = {"runs": {}, "artifacts": {}, "blobs": {}, "manifests": {}}
    (directory / "state.json").write_text(json.dumps(empty))
