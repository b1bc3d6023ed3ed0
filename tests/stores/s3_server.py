"""A real S3 server for tests: moto in a process of its own, on a free loopback port.

moto checks a condition (``If-None-Match``, ``If-Match``) and stores in two steps, so two writers
can both win. Here one lock stands around everything that writes. It also keeps what S3 promises and
moto does not: a body that was cut off leaves no object.
"""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

KEY_ID = "test-key-id"
SECRET = "test-secret-that-no-message-may-show"
SIGNED_IN = {
    "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
}
"""What makes a bare HTTP request the owner's; moto does not verify signatures."""
STARTED_WITHIN_S = 120
FILL = "/-/fill"
"""Not S3: see `S3Server.fill`."""


@dataclass(frozen=True)
class S3Server:
    """A running server. `pid` is its process; nothing in it survives that process."""

    endpoint: str
    pid: int

    @property
    def variables(self) -> dict[str, str]:
        """The environment that points a client at this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> str:
        """Make a bucket; returns its address ``s3://name``."""
        self._request("PUT", f"/{name}")
        return f"s3://{name}"

    def put_object(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object under any key, also one that a client would refuse to write."""
        self._request("PUT", f"/{bucket}/{quote(key)}", data)

    def fill(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Write many objects of text at once, past the API: thousands in a second."""
        texts = {key: data.decode() for key, data in objects.items()}
        self._request("POST", FILL, json.dumps({"bucket": bucket, "objects": texts}).encode())

    def _request(self, method: str, path: str, body: bytes | None = None) -> None:
        address = urlsplit(self.endpoint)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        try:
            connection.request(method, path, body=body, headers=SIGNED_IN)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text!r}")
        finally:
            connection.close()


@contextmanager
def s3_server(host: str = "127.0.0.1", python: str = sys.executable) -> Iterator[S3Server]:
    """Run a server for the length of a ``with`` block. It also ends when this process does.

    Args:
        host: the address of this machine at which it listens.
        python: an interpreter that has moto.
    """
    process = subprocess.Popen(
        [python, "-W", "ignore", __file__, host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        started = _first_line(process)
        yield S3Server(endpoint=f"http://{host}:{started['port']}", pid=process.pid)
    finally:
        process.kill()
        process.communicate()


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Wait for the server's word that it listens; a server that does not start is killed."""
    watchdog = threading.Timer(STARTED_WITHIN_S, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    if not line:
        raise RuntimeError("the S3 server did not start; run tests/stores/s3_server.py to see why")
    return json.loads(line)


Application = Callable[[dict, Callable], Iterable[bytes]]


class LockedWrites:
    """Hand requests on to an application; one at a time if they write, whole or not at all."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.lock = threading.Lock()

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            return self.application(environ, start_response)
        # Read before locking, so that a slow upload does not hold up the others.
        body = self._body(environ)
        if body is None:
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        with self.lock:
            if environ["PATH_INFO"] == FILL:
                _fill(**json.loads(body))
                start_response("200 OK", [("Content-Length", "0")])
                return []
            return list(self.application(environ, start_response))

    @staticmethod
    def _body(environ: dict) -> bytes | None:
        if environ.get("wsgi.input_terminated"):
            return environ["wsgi.input"].read()
        expected = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(expected)
        return body if len(body) == expected else None


def _fill(bucket: str, objects: dict[str, str]) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for key, text in objects.items():
        backend.put_object(bucket, key, text.encode())


def serve(host: str = "127.0.0.1") -> None:
    """Serve until standard input ends; says the port in one line of JSON first."""
    import logging
    import os

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = DomainDispatcherApplication(create_backend_app)
    server = make_server(host, 0, LockedWrites(moto), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.port}), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
