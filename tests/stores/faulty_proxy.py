"""An HTTP proxy on loopback that goes wrong on demand, in front of any HTTP server.

    with faulty_proxy(server.endpoint) as proxy:
        proxy.answer(500, method="PUT", times=3)   # then all is well again
        proxy.stay_silent()                        # accept, and never answer
        proxy.heal()

The client's ``Host`` header goes through unchanged, so addresses that the server makes from it lead
through the proxy too. Setting a fault replaces the one before; it is meant for requests that begin
afterwards, and connections that an earlier fault held are cut.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import urlsplit

CODES = {403: "AccessDenied", 429: "SlowDown", 500: "InternalError", 503: "SlowDown"}
BLOCK_BYTES = 1 << 16
UPSTREAM_S = 60.0


@dataclass(frozen=True)
class Request:
    """The head of one request, as it came."""

    method: str
    path: str
    lines: tuple[bytes, ...]

    def header(self, name: str) -> str | None:
        """Return a header's value, None where there is none."""
        for line in self.lines:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None


Action = Callable[[Request, BinaryIO, socket.socket], bool]
"""Deals with a request; returns whether it still has to be passed on."""


@dataclass
class Fault:
    """What goes wrong, for which requests, and how often (None: until something else is set)."""

    act: Action
    method: str | None = None
    path: str | None = None
    times: int | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def concerns(self, request: Request) -> bool:
        """Return whether the request is meant."""
        return self.method in {None, request.method} and (
            self.path is None or re.search(self.path, request.path) is not None
        )


class FaultyProxy:
    """A proxy that can be told at any time what to do with the requests that come next."""

    def __init__(self, upstream: str) -> None:
        """Listen on a free port.

        Args:
            upstream: ``http://host:port`` of the server.
        """
        address = urlsplit(upstream)
        self._upstream = (address.hostname, address.port)
        self._fault: Fault | None = None
        self._seen: list[Request] = []
        self._open: set[socket.socket] = set()
        self._state = threading.Condition()
        self._listener: socket.socket | None = None
        self.port = 0
        self._listen()

    @property
    def endpoint(self) -> str:
        """Where a client finds it; the same after `refuse` and `heal`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, those included that got no answer."""
        with self._state:
            return list(self._seen)

    def wait_for_requests(self, number: int, timeout_s: float = 120.0) -> None:
        """Wait until so many requests have come.

        Raises:
            TimeoutError: they did not.
        """
        with self._state:
            if not self._state.wait_for(lambda: len(self._seen) >= number, timeout_s):
                raise TimeoutError(f"{len(self._seen)} of {number} requests came")

    # What to do. All take `method`, `path` (a regular expression found in it) and `times`.

    def heal(self) -> None:
        """Pass everything on; listen again after `refuse`."""
        self._set(None)
        self._listen()

    def answer(self, status: int, body: bytes | None = None, **which: str | int | None) -> None:
        """Answer with a status, in S3's form of an error, without asking the server."""
        code = CODES.get(status, f"Test{status}")
        text = body or f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
        head = f"HTTP/1.1 {status} Told\r\nContent-Type: application/xml\r\n"
        whole = f"{head}Content-Length: {len(text)}\r\n\r\n".encode()

        def act(request: Request, incoming: BinaryIO, client: socket.socket) -> bool:
            for _ in _body(request, incoming):
                pass
            client.sendall(whole if request.method == "HEAD" else whole + text)
            return False

        self._set(Fault(act, **which))

    def delay(self, seconds: float, **which: str | int | None) -> None:
        """Pass requests on after so many seconds each."""

        def act(request: Request, incoming: BinaryIO, client: socket.socket) -> bool:
            fault.over.wait(seconds)
            return True

        fault = Fault(act, **which)
        self._set(fault)

    def cut_uploads(self, after_bytes: int = BLOCK_BYTES, **which: str | int | None) -> None:
        """Pass on so many bytes of a request's body, then cut both connections."""

        def act(request: Request, incoming: BinaryIO, client: socket.socket) -> bool:
            with self._connect() as server:
                server.sendall(_head(request))
                passed = 0
                for block in _body(request, incoming):
                    server.sendall(block[: after_bytes - passed])
                    passed += len(block)
                    if passed >= after_bytes:
                        break
            raise ConnectionAbortedError

        self._set(Fault(act, **which))

    def stay_silent(self, **which: str | int | None) -> None:
        """Take requests and never answer; connections are cut once another fault is set."""

        def act(request: Request, incoming: BinaryIO, client: socket.socket) -> bool:
            fault.over.wait()
            raise ConnectionAbortedError

        fault = Fault(act, **which)
        self._set(fault)

    def refuse(self) -> None:
        """Close the port and every connection: nobody is there."""
        self._set(None)
        with self._state:
            listener, self._listener = self._listener, None
            held = [*self._open, *([listener] if listener else [])]
        for one in held:
            _end(one)

    def close(self) -> None:
        """End for good."""
        self.refuse()

    # How

    def _set(self, fault: Fault | None) -> None:
        with self._state:
            before, self._fault = self._fault, fault
        if before is not None:
            before.over.set()

    def _taken(self, request: Request) -> Fault | None:
        """Note a request; return the fault that is to happen to it, counted down."""
        with self._state:
            self._seen.append(request)
            self._state.notify_all()
            fault = self._fault
            if fault is None or fault.times == 0 or not fault.concerns(request):
                return None
            if fault.times is not None:
                fault.times -= 1
            return fault

    def _listen(self) -> None:
        with self._state:
            if self._listener is not None:
                return
            listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self.port = listener.getsockname()[1]
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        return socket.create_connection(self._upstream, timeout=UPSTREAM_S)

    def _serve(self, client: socket.socket) -> None:
        """Serve one connection until either side ends it."""
        with self._state:
            self._open.add(client)
            refused = self._listener is None
        if refused:
            _end(client)
        try:
            # A broken connection is what this proxy is for; nobody is to be told.
            with suppress(OSError, ValueError), client, client.makefile("rb") as incoming:
                server = self._connect()
                with server, server.makefile("rb") as outgoing:
                    while self._one(incoming, client, server, outgoing):
                        pass
        finally:
            with self._state:
                self._open.discard(client)

    def _one(
        self, incoming: BinaryIO, client: socket.socket, server: socket.socket, outgoing: BinaryIO
    ) -> bool:
        """Deal with one request; return whether another one may follow."""
        request = _read_request(incoming)
        if request is None:
            return False
        if (request.header("expect") or "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        fault = self._taken(request)
        if fault is not None and not fault.act(request, incoming, client):
            return True
        server.sendall(_head(request))
        for block in _body(request, incoming):
            server.sendall(block)
        return _relay_answer(request, outgoing, client)


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """Run a proxy in front of ``http://host:port`` for the length of a ``with`` block."""
    proxy = FaultyProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


def _read_request(incoming: BinaryIO) -> Request | None:
    first = incoming.readline()
    if not first.strip():
        return None
    method, path, _ = first.decode("latin-1").split(" ", 2)
    return Request(method, path, (first, *_header_lines(incoming)))


def _header_lines(stream: BinaryIO) -> list[bytes]:
    lines = []
    while (line := stream.readline()).strip():
        lines.append(line)
    return lines


def _head(request: Request) -> bytes:
    """Return the head to pass on; the client has been told to continue already."""
    kept = [line for line in request.lines if not line.lower().startswith(b"expect:")]
    return b"".join(kept) + b"\r\n"


def _body(message: Request, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the raw bytes of a body, the framing of chunks included.

    Raises:
        ConnectionError: it ended too early.
    """
    if (message.header("transfer-encoding") or "").lower() == "chunked":
        yield from _chunks(stream)
        return
    yield from _exactly(stream, int(message.header("content-length") or 0))


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        line = stream.readline()
        size = int(line.partition(b";")[0], 16)
        yield line
        if size == 0:
            yield b"".join(_header_lines(stream)) + b"\r\n"
            return
        yield from _exactly(stream, size + 2)


def _exactly(stream: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left:
        block = stream.read1(min(left, BLOCK_BYTES))
        if not block:
            raise ConnectionError("the body ended too early")
        left -= len(block)
        yield block


def _relay_answer(request: Request, outgoing: BinaryIO, client: socket.socket) -> bool:
    """Pass one answer back; return whether the server keeps the connection."""
    first = outgoing.readline()
    if not first:
        return False
    status = int(first.split(b" ", 2)[1])
    answer = Request("", "", (first, *_header_lines(outgoing)))
    client.sendall(b"".join(answer.lines) + b"\r\n")
    if status < 200:
        return _relay_answer(request, outgoing, client)
    if request.method != "HEAD" and status not in {204, 304}:
        framed = answer.header("content-length") or answer.header("transfer-encoding")
        if not framed:  # the body ends with the connection
            while block := outgoing.read1(BLOCK_BYTES):
                client.sendall(block)
            return False
        for block in _body(answer, outgoing):
            client.sendall(block)
    return (answer.header("connection") or "").lower() != "close"


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        one.close()
