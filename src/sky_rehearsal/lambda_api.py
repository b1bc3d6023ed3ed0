"""The simulated Lambda Cloud's REST API over HTTPS, for SkyPilot's Lambda provider."""

from __future__ import annotations

import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sky_rehearsal.lambda_cloud import Instance, LambdaCloud, RefusedError

BASE = "/api/v1"

Route = Callable[[LambdaCloud, Any], Any]
"""A function from the cloud and a request's body to the answer's data."""


@dataclass(frozen=True)
class Call:
    """A request that was answered. The key that came with it is not kept."""

    at_s: float
    client: str
    method: str
    path: str
    status: int
    body: Any


class LambdaApi(ThreadingHTTPServer):
    """Server of a `LambdaCloud`. Use as a context manager.

    Args:
        cloud: the cloud that answers.
        api_key: the only key that is let in.
        address: host and port to listen at; port 0 takes a free one.
        certificate: certificate and private key in one file; None serves plain HTTP.
        files: texts that anybody may fetch, by path: parts of the internet for the machines.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        cloud: LambdaCloud,
        api_key: str,
        address: tuple[str, int],
        certificate: Path | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(address, _Handler)
        self.cloud = cloud
        self.api_key = api_key
        self.files = files or {}
        self._calls: list[Call] = []
        self._rate_limited: float = 0
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
        """All requests, oldest first."""
        with self._lock:
            return list(self._calls)

    def limit_rate(self, times: float = math.inf) -> None:
        """Answer the next `times` requests with 429, for any path; 0 ends it."""
        with self._lock:
            self._rate_limited = times

    def break_down(self, seconds: float) -> None:
        """Answer every request with 500 for a time, for any path."""
        with self._lock:
            self._broken_until_s = time.time() + seconds

    def admit(self, authorization: str | None) -> None:
        """Return if a request is to be answered.

        Raises:
            RefusedError: the API is broken or asked too often, or the key is wrong.
        """
        with self._lock:
            if time.time() < self._broken_until_s:
                raise RefusedError("global/internal-error", "boom", 500)
            if self._rate_limited > 0:
                self._rate_limited -= 1
                raise RefusedError("global/rate-limited", "Too many requests.", 429)
        if authorization != f"Bearer {self.api_key}":
            raise RefusedError("global/invalid-api-key", "API key was invalid.", 403)

    def note(self, call: Call) -> None:
        """Keep a request for `calls`."""
        with self._lock:
            self._calls.append(call)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Talk TLS in the connection's own thread, so that no client delays another."""
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: machines are killed on purpose, in the middle of a request."""


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
        """Return a file, or answer a question."""
        if (text := self.server.files.get(self.path)) is not None:
            self._send(200, "text/plain", text.encode())
        else:
            self._answer()

    def do_POST(self) -> None:
        """Carry out an order."""
        self._answer()

    def do_PUT(self) -> None:
        """Replace a list."""
        self._answer()

    def _answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path.removeprefix(BASE)
        body: Any = None
        try:
            self.server.admit(self.headers.get("Authorization"))
            body = json.loads(text) if text else None
            status, answer = 200, {"data": _route(self.command, path)(self.server.cloud, body)}
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

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: `LambdaApi.calls` has it."""


def _route(method: str, path: str) -> Route:
    if (method, path) not in ROUTES:
        raise RefusedError("global/object-does-not-exist", f"no {path}", 404)
    return ROUTES[method, path]


def _instance_types(cloud: LambdaCloud, _: Any) -> dict[str, Any]:
    return {
        type.name: {
            "instance_type": {
                "name": type.name,
                "description": f"{type.gpus}x {type.gpu_name}" if type.gpus else "CPU only",
                "price_cents_per_hour": round(type.hourly_price_usd * 100),
                "specs": {
                    "vcpus": type.cpus,
                    "memory_gib": type.memory_gib,
                    "storage_gib": 512,
                    "gpus": type.gpus,
                },
            },
            "regions_with_capacity_available": [
                {"name": region, "description": region} for region in regions
            ],
        }
        for type, regions in cloud.types()
    }


def _instance(instance: Instance) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": instance.id,
        "name": instance.name,
        "status": instance.status,
        "region": {"name": instance.region, "description": instance.region},
        "instance_type": {"name": instance.type.name},
        "ssh_key_names": [],
    }
    if instance.machine is not None:
        shown |= {"ip": instance.machine.address, "private_ip": instance.machine.address}
    return shown


def _instances(cloud: LambdaCloud, _: Any) -> list[dict[str, Any]]:
    return [_instance(instance) for instance in cloud.listed()]


def _launch(cloud: LambdaCloud, body: Any) -> dict[str, Any]:
    rented = [
        cloud.launch(
            body["instance_type_name"],
            body["region_name"],
            body.get("name") or "unnamed",
            body["ssh_key_names"],
        )
        for _ in range(body.get("quantity", 1))
    ]
    return {"instance_ids": [instance.id for instance in rented]}


def _terminate(cloud: LambdaCloud, body: Any) -> dict[str, Any]:
    ended = cloud.terminate(body["instance_ids"])
    return {"terminated_instances": [_instance(instance) for instance in ended]}


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


ROUTES: Mapping[tuple[str, str], Route] = {
    ("GET", "/instance-types"): _instance_types,
    ("GET", "/instances"): _instances,
    ("POST", "/instance-operations/launch"): _launch,
    ("POST", "/instance-operations/terminate"): _terminate,
    ("GET", "/ssh-keys"): _ssh_keys,
    ("POST", "/ssh-keys"): _add_ssh_key,
    ("GET", "/firewall-rules"): _firewall_rules,
    ("PUT", "/firewall-rules"): _set_firewall_rules,
}
