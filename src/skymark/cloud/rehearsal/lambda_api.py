"""The simulated Lambda Cloud's REST API over HTTPS, as SkyPilot's Lambda provider calls it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from skymark.cloud.rehearsal.lambda_cloud import Instance, LambdaCloud, RefusedError

BASE = "/api/v1"

Answerer = Callable[[LambdaCloud, Any], Any]
Routes = Mapping[str, Answerer]


@dataclass(frozen=True)
class Call:
    """One request that was answered. The key that came with it is not kept."""

    at_s: float
    client: str
    method: str
    path: str
    status: int
    body: Any


class LambdaApi(ThreadingHTTPServer):
    """Serves a `LambdaCloud`. Use as a context manager.

    Args:
        cloud: what is served.
        api_key: the only key that is let in.
        address: where to listen; port 0 takes a free one.
        certificate: certificate and private key in one file; None serves plain HTTP.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        cloud: LambdaCloud,
        api_key: str,
        address: tuple[str, int],
        certificate: Path | None = None,
    ) -> None:
        super().__init__(address, _Handler)
        self.cloud = cloud
        self.api_key = api_key
        self.files: dict[str, str] = {}
        """Texts that anybody may fetch, by path: what the machines find elsewhere on the net."""
        self._calls: list[Call] = []
        self._rate_limited = 0
        self._broken_until_s = 0.0
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def calls(self) -> list[Call]:
        """Every request so far, oldest first."""
        with self._lock:
            return list(self._calls)

    def limit_rate(self, times: int) -> None:
        """Answer the next `times` requests with 429, whatever they ask."""
        with self._lock:
            self._rate_limited = times

    def take_rate_limit(self) -> bool:
        """Return whether this request is one too many."""
        with self._lock:
            limited = self._rate_limited > 0
            self._rate_limited -= limited
            return limited

    def break_down(self, seconds: float) -> None:
        """Answer every request with 500 for so long, whatever it asks."""
        with self._lock:
            self._broken_until_s = time.time() + seconds

    @property
    def broken(self) -> bool:
        """Whether it answers nothing but 500."""
        with self._lock:
            return time.time() < self._broken_until_s

    def note(self, call: Call) -> None:
        """Keep a request for `calls`."""
        with self._lock:
            self._calls.append(call)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Talk TLS in the connection's own thread, so that no client holds up the others."""
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away in the middle: machines are killed on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: LambdaApi

    def do_HEAD(self) -> None:
        """Answer that the network is up."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """Answer a question."""
        if (text := self.server.files.get(self.path)) is not None:
            self._send(200, "text/plain", text.encode())
            return
        self._answer(_QUESTIONS)

    def do_POST(self) -> None:
        """Carry out an order."""
        self._answer(_ORDERS)

    def do_PUT(self) -> None:
        """Replace a list."""
        self._answer(_REPLACEMENTS)

    def _answer(self, routes: Routes) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        path = urlsplit(self.path).path.removeprefix(BASE)
        body: Any = None
        try:
            self._admit()
            body = json.loads(text) if text else None
            status, answer = 200, {"data": _route(routes, path)(self.server.cloud, body)}
        except RefusedError as refusal:
            status = refusal.status
            answer = {"error": {"code": refusal.code, "message": str(refusal)}}
        except (ValueError, KeyError, TypeError) as error:
            status = 400
            message = f"{type(error).__name__}: {error}"
            answer = {"error": {"code": "global/invalid-parameters", "message": message}}
        client = str(self.client_address[0])
        self.server.note(Call(time.time(), client, self.command, path, status, body))
        self._send(status, "application/json", json.dumps(answer).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _admit(self) -> None:
        if self.server.broken:
            raise RefusedError("global/internal-error", "boom", 500)
        if self.server.take_rate_limit():
            raise RefusedError("global/rate-limited", "Too many requests.", 429)
        if self.headers.get("Authorization") != f"Bearer {self.server.api_key}":
            raise RefusedError("global/invalid-api-key", "API key was invalid.", 403)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: `LambdaApi.calls` has it."""


def _route(routes: Routes, path: str) -> Answerer:
    if path not in routes:
        raise RefusedError("global/object-does-not-exist", f"no {path}", 404)
    return routes[path]


def _instance_types(cloud: LambdaCloud, _: Any) -> dict[str, Any]:
    return {
        one.name: {
            "instance_type": {
                "name": one.name,
                "description": f"{one.gpus}x {one.gpu_name}" if one.gpu_name else "CPU only",
                "price_cents_per_hour": round(one.hourly_price_usd * 100),
                "specs": {
                    "vcpus": one.cpus,
                    "memory_gib": one.memory_gib,
                    "storage_gib": 512,
                    "gpus": one.gpus,
                },
            },
            "regions_with_capacity_available": [
                {"name": region, "description": region} for region in regions
            ],
        }
        for one, regions in cloud.types()
    }


def _instance(one: Instance) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": one.id,
        "name": one.name,
        "status": one.status,
        "region": {"name": one.region, "description": one.region},
        "instance_type": {"name": one.type.name},
        "ssh_key_names": [],
    }
    if one.machine is not None:
        shown |= {"ip": one.machine.address, "private_ip": one.machine.address}
    return shown


def _instances(cloud: LambdaCloud, _: Any) -> list[dict[str, Any]]:
    return [_instance(one) for one in cloud.listed()]


def _launch(cloud: LambdaCloud, body: Any) -> dict[str, Any]:
    hired = [
        cloud.launch(
            body["instance_type_name"],
            body["region_name"],
            body.get("name") or "unnamed",
            body["ssh_key_names"],
        )
        for _ in range(body.get("quantity", 1))
    ]
    return {"instance_ids": [one.id for one in hired]}


def _terminate(cloud: LambdaCloud, body: Any) -> dict[str, Any]:
    ended = cloud.terminate(body["instance_ids"])
    return {"terminated_instances": [_instance(one) for one in ended]}


def _ssh_keys(cloud: LambdaCloud, _: Any) -> list[dict[str, str]]:
    return [{"id": name, "name": name, "public_key": key} for name, key in cloud.ssh_keys.items()]


def _add_ssh_key(cloud: LambdaCloud, body: Any) -> dict[str, str]:
    cloud.ssh_keys[body["name"]] = body["public_key"]
    return {"id": body["name"], "name": body["name"], "public_key": body["public_key"]}


def _firewall_rules(cloud: LambdaCloud, _: Any) -> list[dict[str, object]]:
    return list(cloud.firewall_rules)


def _set_firewall_rules(cloud: LambdaCloud, body: Any) -> list[dict[str, object]]:
    cloud.firewall_rules[:] = body["data"]
    return list(cloud.firewall_rules)


_QUESTIONS = {
    "/instance-types": _instance_types,
    "/instances": _instances,
    "/ssh-keys": _ssh_keys,
    "/firewall-rules": _firewall_rules,
}
_ORDERS = {
    "/instance-operations/launch": _launch,
    "/instance-operations/terminate": _terminate,
    "/ssh-keys": _add_ssh_key,
}
_REPLACEMENTS = {"/firewall-rules": _set_firewall_rules}
