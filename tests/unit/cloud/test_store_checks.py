"""Stores that results leave a machine for are tried before it is rented."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from skymark.cloud.rented_run import check_stores
from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError

KEY = "0123456789abcdef0123456789abcdef01234567"
FORBIDDEN = "<Error><Code>SignatureDoesNotMatch</Code><Message>wrong key</Message></Error>"


class Server:
    """A server that answers every request alike, and remembers them."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, "", {}
        self.asked: list[tuple[str, str, str | None]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.asked.append((self.command, self.path, self.headers.get("Authorization")))
                body = server.body.encode()
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.do_any)
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("skymark.cloud.rented_run.LONGEST_WAIT_S", 0.01)
    server = Server()
    yield server
    server.close()


def wandb(server) -> dict[str, str]:
    return {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": server.url}


def test_a_bucket_that_refuses_the_key_is_found_before_anything_is_rented(server, monkeypatch):
    server.status, server.body = 403, FORBIDDEN
    variables = {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "wrong",
        "AWS_REGION": "us-east-1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreRefusedError, match="rented: s3://results/one") as refused:
        check_stores(("s3://results",), "one", variables)
    assert refused.value.exit_code == 2


def test_a_w_and_b_key_that_is_known_leaves_nothing_there(server):
    server.body = json.dumps({"data": {"viewer": {"id": "1", "username": "lab"}}})
    check_stores((), "one", wandb(server))
    sent = "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode()
    assert server.asked == [("POST", "/graphql", sent)]


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, "{}"), (403, "no"), (200, '{"data": {"viewer": null}}'), (200, "[]"), (302, "")],
)
def test_a_wrong_w_and_b_key_is_found_before_anything_is_rented(server, status, body):
    server.status, server.body = status, body
    server.headers = {"Location": "http://127.0.0.1:9/"} if status == 302 else {}
    with pytest.raises((StoreRefusedError, StoreUnavailableError), match="rented: W&B"):
        check_stores((), "one", wandb(server))


@pytest.mark.parametrize(("status", "body"), [(503, ""), (200, "no JSON")])
def test_w_and_b_that_is_away_is_asked_again(server, status, body):
    server.status, server.body = status, body
    with pytest.raises(StoreUnavailableError, match="try again later"):
        check_stores(("wandb",), "one", wandb(server))
    assert len(server.asked) == 3


def test_an_address_that_is_none_is_told_without_the_key():
    variables = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": "file:///etc/passwd"}
    with pytest.raises(StoreRefusedError, match="is no address") as refused:
        check_stores((), "one", variables)
    assert KEY not in str(refused.value)
    with pytest.raises(UsageError, match="names no store"):
        check_stores(("gs://bucket",), "one", {})


def test_what_is_on_the_machine_s_own_disk_is_not_tried_here():
    check_stores(("file:///nowhere/on/this/machine", "wandb"), "one", {})
