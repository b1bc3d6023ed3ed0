"""The test servers themselves: what tests of stores rest on."""

from __future__ import annotations

import http.client
import os
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest

from tests.stores.faulty_proxy import faulty_proxy
from tests.stores.s3_server import SIGNED_IN, s3_server


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        running.make_bucket("things")
        yield running


@pytest.fixture
def proxy(server):
    with faulty_proxy(server.endpoint) as running:
        yield running


@pytest.fixture
def connection(proxy):
    opened = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=60)
    yield opened
    opened.close()


def status_of(connection, method, path, body=None, **headers):
    connection.request(method, path, body=body, headers=SIGNED_IN | headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_chunked_bodies_pass(connection):
    blocks = (b"x" * 100_000 for _ in range(3))
    assert status_of(connection, "PUT", "/things/long", blocks) == 200
    connection.request("GET", "/things/long", headers=SIGNED_IN)
    assert connection.getresponse().read() == b"x" * 300_000


class KeepsConnections(BaseHTTPRequestHandler):
    """Answers in chunks, on connections that stay open; moto ends each after one answer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")

    def log_message(self, *_):
        pass


def test_a_connection_is_kept_through_answers_of_either_side():
    with ThreadingHTTPServer(("127.0.0.1", 0), KeepsConnections) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with faulty_proxy(f"http://127.0.0.1:{server.server_port}") as proxy:
            kept = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=60)
            kept.connect()
            socket = kept.sock
            proxy.answer(503, path="/busy")
            for path, status, body in [("/", 200, b"onetwo"), ("/busy", 503, None)] * 2:
                kept.request("GET", path)
                answer = kept.getresponse()
                assert answer.status == status
                assert answer.read() == body or body is None
            assert kept.sock is socket
            kept.close()
        server.shutdown()


def test_a_fault_meets_the_method_and_path_it_is_for_so_often_as_told(connection, proxy):
    proxy.answer(500, method="PUT", path="/things/a", times=2)
    assert status_of(connection, "PUT", "/things/b", b"x") == 200
    assert status_of(connection, "HEAD", "/things/a") == 404
    told = [status_of(connection, "PUT", "/things/a", b"x") for _ in range(3)]
    assert told == [500, 500, 200]


def test_a_client_that_asks_before_sending_is_told_to_go_on(connection):
    connection.putrequest("PUT", "/things/asked")
    connection.putheader("Content-Length", "1")
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    connection.send(b"x")
    assert connection.getresponse().status == 200


def test_an_upload_that_was_cut_leaves_no_object(server, connection, proxy):
    proxy.cut_uploads(after_bytes=10)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        status_of(connection, "PUT", "/things/cut", b"x" * 1000)
    proxy.heal()
    connection.close()
    assert status_of(connection, "HEAD", "/things/cut") == 404


def test_a_contested_object_has_one_creator(server):
    def create(number):
        own = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=60)
        try:
            return [
                status_of(own, "PUT", f"/things/contested-{key}", b"%d" % number, **create_only)
                for key in range(10)
            ]
        finally:
            own.close()

    create_only = {"If-None-Match": "*"}
    with ThreadPoolExecutor(8) as pool:
        tries = list(pool.map(create, range(8)))
    assert [sorted(one) for one in zip(*tries, strict=True)] == [[200, *[412] * 7]] * 10


def test_a_server_ends_with_its_block():
    with s3_server() as one:
        os.kill(one.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(one.pid, 0)
