"""SkyPilot's client sends nothing to an API server of another user, whatever the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.other_user import program_of_another_user

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("other_home")]

LISTEN = """
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.settimeout(9)
    with contextlib.suppress(OSError):
        print(len(connection.recv(99)), flush=True)
"""
UPLOAD = """
from skymark.cloud.sky.client import sdk
sdk()
from sky.client import common
from skymark.cloud.sky.internals import StrangersServerError
import os, sys
try:
    with common.httpx.Client(timeout=common.httpx.Timeout(9)) as client:
        client.post(sys.argv[1], content=b"secret")
except StrangersServerError as error:
    sys.exit(str(error))
"""


@pytest.mark.needs("root")
@pytest.mark.parametrize("command", ["status", "upload"])
def test_a_server_of_another_user_is_told_nothing(command: str) -> None:
    with program_of_another_user(LISTEN) as stranger:
        assert stranger.stdout is not None
        port = stranger.stdout.readline().strip()
        words = ["-m", "skymark", *command.split()]
        if command == "upload":
            words = ["-c", UPLOAD, f"http://127.0.0.1:{port}/upload"]
        done = subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "SKYPILOT_API_SERVER_LOCAL_PORT": port},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert re.search(rf"\bnobody\b.*\b127\.0\.0\.1\b.*\b{port}\b", done.stdout + done.stderr)
        stranger.kill()
        heard = stranger.stdout.read().split()
        assert heard, done
        assert set(heard) == {"0"}
