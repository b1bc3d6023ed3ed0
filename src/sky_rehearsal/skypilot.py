"""SkyPilot in the simulated cloud: its API server, and the settings of its server and clients.

The server's view of ``/etc/hosts`` sends the provider's name to the simulated cloud, whose
certificate it trusts. Thus an unchanged SkyPilot runs, and cannot reach the real provider by
mistake.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sky_rehearsal.namespaces import Namespaced
from sky_rehearsal.requirements import PortTakenError, RehearsalError, UnfitError

PROGRAM = Path(__file__).with_name("namespace_keeper.py")
START_TIMEOUT_S = 300.0
PORT_ATTEMPTS = 5

KEPT_VARIABLES = ("PATH", "LANG", "TZ", "TERM", "USER", "LOGNAME", "SHELL")
PACKAGE_VARIABLES = ("PIP_", "UV_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""The only variables of this process that SkyPilot's API server sees: no credential passes."""

SERVER_MEMORY_GIB = "8"
"""Memory that the API server sizes itself for: with all of 24 GiB it starts 12 job controllers."""

ASK = """\
import sky
from sky.provision.lambda_cloud import lambda_utils
from sky.skylet import constants

print(lambda_utils.API_ENDPOINT, constants.CATALOG_SCHEMA_VERSION, sky.__version__)
"""

TRACES = tuple(
    Path("/tmp", name)  # noqa: S108 SkyPilot's choice
    for name in (
        "jobs_ha_recovery.log",
        "pool_ha_recovery.log",
        "skypilot_graceful_shutdown.lock",
    )
)
"""Files that every API server of SkyPilot writes at fixed places."""


@dataclass(frozen=True)
class Installed:
    """The SkyPilot of this Python."""

    provider_host: str
    catalog_version: str
    release: str


class ApiServer:
    """A running API server of SkyPilot.

    Args:
        directory: for its log and settings; the log is ``api-server.log``.
        hosts: the ``/etc/hosts`` that it sees.
        variables: its environment variables, all of them.
        port: its port on the loopback interface.
    """

    def __init__(self, directory: Path, hosts: Path, variables: dict[str, str], port: int) -> None:
        self.port = port
        self.log = directory / "api-server.log"
        self._spec = directory / "api-server.json"
        command = [sys.executable, "-P", "-u", "-m", "sky.server.server", "--port", str(port)]
        binds = {"/etc/hosts": os.fspath(hosts)}
        spec = {"binds": binds, "command": command, "variables": variables}
        self._spec.write_text(json.dumps(spec))
        self._process: Namespaced | None = None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            PortTakenError: its port, or that of its queue, which follows from it, is in use.
            RehearsalError: it does not answer; the message ends with its log.
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
    make: Callable[[int], ApiServer], stack: ExitStack, find_port: Callable[[], int]
) -> ApiServer:
    """Return a running server, on another port if another process took the first.

    Args:
        make: makes a server for a port.
        stack: ends the server.
        find_port: finds a port.

    Raises:
        RehearsalError: none starts.
    """
    attempts_left = PORT_ATTEMPTS
    while True:
        attempts_left -= 1
        server = make(find_port())
        stack.callback(server.stop)
        try:
            server.start()
        except PortTakenError:
            if not attempts_left:
                raise
        else:
            return server


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def installed_skypilot(home: Path) -> Installed:
    """Return the facts about this Python's SkyPilot that a simulated cloud needs.

    Args:
        home: the home directory that SkyPilot sees.

    Raises:
        UnfitError: this version of SkyPilot is not supported.
    """
    asked = subprocess.run(
        [sys.executable, "-P", "-c", ASK],
        env={**_kept_variables(), "HOME": os.fspath(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise UnfitError(
            f"this SkyPilot cannot be rehearsed: {asked.stderr.strip().splitlines()[-1:]}; "
            "install the version that skymark[rehearsal] names"
        )
    endpoint, version, release = asked.stdout.split()[-3:]
    return Installed(str(urlsplit(endpoint).hostname), version, release)


def write_settings(
    home: Path, key: str, clouds: Sequence[str], probe: str, *, managed_jobs: bool
) -> None:
    """Write SkyPilot's settings below a home.

    Args:
        home: the home directory of the API server.
        key: of the provider's API.
        clouds: the clouds that SkyPilot may use.
        probe: the address that tells whether the network is up.
        managed_jobs: whether the API server runs the controllers of managed jobs.
    """
    settings = {
        "allowed_clouds": list(clouds),
        "jobs": {"controller": {"consolidation_mode": managed_jobs}},
    }
    plugin = {"class": "sky_rehearsal.plugin.RehearsalPlugin", "parameters": {"probe": probe}}
    files = {
        ".lambda_cloud/lambda_keys": f"api_key = {key}\n",
        # JSON is YAML, and needs no library.
        ".sky/config.yaml": json.dumps(settings),
        ".sky/plugins.yaml": json.dumps({"plugins": [plugin]}),
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def client_variables(home: Path, user: str, bundle: Path, port: int) -> dict[str, str]:
    """Return the variables of SkyPilot's clients.

    Args:
        home: their home directory.
        user: SkyPilot's identifier of their user.
        bundle: the certificates that they trust.
        port: of the API server.
    """
    return {
        "HOME": os.fspath(home),
        "REQUESTS_CA_BUNDLE": os.fspath(bundle),
        "SKYPILOT_API_SERVER_LOCAL_PORT": str(port),
        # A client that finds no server would start one itself, outside the simulated cloud.
        "SKYPILOT_DISABLE_LOCAL_API_SERVER": "1",
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        "SKYPILOT_USER_ID": user,
        "SKYPILOT_USER": "rehearsal",
    }


def server_variables(client: dict[str, str], directory: Path, bundle: Path) -> dict[str, str]:
    """Return all variables of the API server.

    Args:
        client: the variables of its clients.
        directory: for its temporary files.
        bundle: the certificates that it trusts.
    """
    return {
        **_kept_variables(),
        **client,
        "SKYPILOT_POD_MEMORY_GB_LIMIT": SERVER_MEMORY_GIB,
        "TMPDIR": os.fspath(directory),
        "SSL_CERT_FILE": os.fspath(bundle),
    }


def _kept_variables() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if key in KEPT_VARIABLES or key.upper().startswith(PACKAGE_VARIABLES)
    }
