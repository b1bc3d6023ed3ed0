"""SkyPilot's API server, alone in namespaces of its own, with the simulated cloud for the real one.

Its view of ``/etc/hosts`` sends the cloud's name to the simulated cloud, whose certificate it
trusts. So SkyPilot runs as it is, and cannot reach the real cloud even by mistake.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from skymark.cloud.rehearsal.errors import PortTakenError, RehearsalError
from skymark.cloud.rehearsal.namespaces import Namespaced

PROGRAM = Path(__file__).with_name("namespace_keeper.py")
START_TIMEOUT_S = 300.0
PORT_ATTEMPTS = 5


class ApiServer:
    """A running API server of SkyPilot.

    Args:
        directory: for its log and settings; the log is ``api-server.log``.
        hosts: the ``/etc/hosts`` that it sees.
        variables: its environment variables, all of them.
        port: where it listens, on the loopback interface.
    """

    def __init__(self, directory: Path, hosts: Path, variables: dict[str, str], port: int) -> None:
        self.port = port
        self.log = directory / "api-server.log"
        self._spec = directory / "api-server.json"
        command = [sys.executable, "-P", "-u", "-m", "sky.server.server", "--port", str(port)]
        self._spec.write_text(
            json.dumps(
                {
                    "binds": {"/etc/hosts": os.fspath(hosts)},
                    "command": command,
                    "variables": variables,
                }
            )
        )
        self._process: Namespaced | None = None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            PortTakenError: its port, or that of its queue, which follows from it, is in use.
            RehearsalError: it does not; the message ends with its log.
        """
        self._process = Namespaced(("--mount-proc",), PROGRAM, self._spec, self.log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._healthy():
            if not self._process.alive or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                self.stop()
                error = PortTakenError if "already in use" in tail else RehearsalError
                raise error(f"SkyPilot's API server did not start: {tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it with everything it started, at once; safe to call again."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _healthy(self) -> bool:
        address = f"http://127.0.0.1:{self.port}/api/health"
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(address, timeout=5.0) as answer,
        ):
            return bool(json.load(answer).get("status") == "healthy")
        return False


def started_api_server(
    make: Callable[[int], ApiServer], stack: ExitStack, free_port: Callable[[], int]
) -> ApiServer:
    """Return a running server, on another port where somebody was quicker to take one.

    Args:
        make: makes one for a port.
        stack: ends it.
        free_port: finds a port.

    Raises:
        RehearsalError: none starts.
    """

    def start() -> ApiServer:
        server = make(free_port())
        stack.callback(server.stop)
        server.start()
        return server

    attempts = Retrying(
        retry=retry_if_exception_type(PortTakenError),
        stop=stop_after_attempt(PORT_ATTEMPTS),
        reraise=True,
    )
    return attempts(start)


def free_port() -> int:
    """Return a port of the loopback interface that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
