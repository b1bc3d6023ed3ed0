"""No byte goes to an API server of another user on this machine, and none of theirs is read."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from functools import partial

import pytest
import requests

from skymark.cloud.sky.internals import StrangersServerError, guard, require_own
from tests.examples import examples
from tests.other_user import program_of_another_user

LISTEN = """
how, at = sys.argv[1:]
family = socket.AF_INET6 if ":" in at else socket.AF_INET
server = socket.socket(family)
if how == "dual":
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind((at, 0)); server.listen(200)
print(server.getsockname()[1], flush=True)
got = 0
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nevil"
while True:
    if how == "silent":
        sys.stdin.readline()
        break
    connection, _ = server.accept()
    if how == "hasty":  # answers before it is asked, and is gone
        connection.sendall(answer); connection.close()
        continue
    connection.settimeout(5)
    try:
        got += len(connection.recv(100))
        connection.sendall(answer)
    except OSError:
        pass
    print(got, flush=True)
"""


def session():
    made = requests.Session()
    made.trust_env = False
    guard(made)
    return made


@pytest.mark.needs("root")
@pytest.mark.parametrize("attempt", range(examples("SKYMARK_NEIGHBOURS")))
@pytest.mark.parametrize(
    ("how", "binds", "asks"),
    [
        ("plain", "127.0.0.1", "127.0.0.1"),
        ("plain", "0.0.0.0", "127.0.0.1"),
        ("plain", "::1", "[::1]"),
        ("dual", "::", "127.0.0.1"),
        ("plain", "127.0.0.1", "localhost"),
        ("hasty", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_server_of_another_user_gets_and_says_nothing(how, binds, asks, attempt):
    with program_of_another_user(LISTEN, how, binds) as stranger, session() as client:
        port = int(stranger.stdout.readline())
        with pytest.raises((StrangersServerError, requests.ConnectionError)) as refused:
            client.get(f"http://{asks}:{port}/api/health?{attempt}", timeout=5)
        if how != "hasty":
            assert "nobody" in str(refused.value), refused
            assert stranger.stdout.readline() == "0\n"


@pytest.mark.needs("root")
def test_a_server_that_never_accepts_is_a_stranger_s_all_the_same():
    with program_of_another_user(LISTEN, "silent", "127.0.0.1") as stranger:
        port = int(stranger.stdout.readline())
        connection = socket.create_connection(("127.0.0.1", port))
        with closing(connection), pytest.raises((StrangersServerError, ConnectionError)):
            require_own(connection)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_server_of_one_s_own_answers(family):
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family) as server, session() as client:
        server.bind((host, 0))
        server.listen()
        thread = threading.Thread(target=partial(answer_once, server))
        thread.start()
        address = f"[{host}]" if ":" in host else host
        assert client.get(f"http://{address}:{server.getsockname()[1]}/", timeout=9).text == "mine"
        thread.join()


def answer_once(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
