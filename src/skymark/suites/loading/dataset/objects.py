"""Elements from object storage over HTTP: the server as IO-1 starts it, and a reader."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

from skymark.model.errors import DataError, UsageError
from skymark.suites.loading.dataset import object_server
from skymark.suites.loading.dataset.canonical import Dataset, Element
from skymark.suites.loading.dataset.files import (
    Listing,
    PerThread,
    Reader,
    element_path,
    from_bytes,
)
from skymark.suites.loading.storage_formats import HTTP

URL_VARIABLE = "SKYMARK_OBJECT_URL"
"""Variable with the address of the served storage directory, without a slash at the end."""

PROXIES = ("HTTP_PROXY", "http_proxy")
"""Not all clients obey ``NO_PROXY``, and none needs a proxy to reach this machine."""

STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class ObjectStore:
    """A running object server."""

    url: str
    pid: int
    sent_bytes: Callable[[], int]
    """Returns the total bytes of objects that it has sent."""


@contextmanager
def serving(
    directory: Path,
    latency_ms: float,
    bandwidth_mb_s: float,
    *,
    latency_tail: float = 1.0,
    concurrency: int | None = None,
    seed: int = 0,
) -> Iterator[ObjectStore]:
    """Serve a directory from a process of its own, with `URL_VARIABLE` set meanwhile, no proxy.

    Args:
        directory: directory to serve.
        latency_ms: median of the time from a request to the first byte of its answer.
        bandwidth_mb_s: 10⁶ bytes per second over all connections together.
        latency_tail: 99th percentile of that time over the median.
        concurrency: most requests to answer at a time; None for all.
        seed: seed of the times.

    Raises:
        DataError: the server did not start.
    """
    command = [sys.executable, "-P", object_server.__file__, os.fspath(directory)]
    command += ["--latency-ms", str(latency_ms), "--bandwidth-mb-s", str(bandwidth_mb_s)]
    command += ["--latency-tail", str(latency_tail), "--seed", str(seed)]
    command += [] if concurrency is None else ["--concurrency", str(concurrency)]
    proxies = drop_proxies()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    to_server, from_server = cast("IO[str]", server.stdin), cast("IO[str]", server.stdout)
    try:
        port = from_server.readline().strip()
        if not port:
            raise DataError(f"the object server for {directory} did not start; see the cell's log")
        sent_bytes = partial(_sent_bytes, to_server, from_server)
        store = ObjectStore(f"http://127.0.0.1:{port}", server.pid, sent_bytes)
        os.environ[URL_VARIABLE] = store.url
        yield store
    finally:
        os.environ.pop(URL_VARIABLE, None)
        os.environ.update(proxies)
        # A loader's forked processes may hold the other end of its input open, so end it outright.
        server.terminate()
        to_server.close()
        from_server.close()
        try:
            server.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def drop_proxies() -> dict[str, str]:
    """Take proxies for plain HTTP out of the environment, and return them."""
    return {name: os.environ.pop(name) for name in PROXIES if name in os.environ}


def stored_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _sent_bytes(to_server: IO[str], from_server: IO[str]) -> int:
    to_server.write("\n")
    to_server.flush()
    return int(from_server.readline())


def object_url() -> str:
    """Return where the storage directory is served, for clients of a library's own.

    Raises:
        UsageError: no server was started for this cell.
    """
    try:
        return os.environ[URL_VARIABLE]
    except KeyError as error:
        raise UsageError(
            f"{URL_VARIABLE} is not set: only the HTTP formats ({', '.join(sorted(HTTP))}) are "
            "served, while the bench drives the loader"
        ) from error


class Connection(http.client.HTTPConnection):
    """A connection that ends with the thread or the reader that holds it."""

    def __del__(self) -> None:
        self.close()


class HttpReader(Reader):
    """Random access by one GET per element and column, over one connection per thread.

    The address is taken when the reader is made and travels with it to worker processes.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._listing = Listing(dataset)
        self._address = urlsplit(object_url()).netloc
        self._connections = PerThread()

    def __len__(self) -> int:
        return len(self._listing)

    def __getitem__(self, index: int) -> Element:
        element = self._listing[index]
        for column in self._listing.objects:
            element[column.name] = from_bytes(column, self._get(element_path(index, column)))
        return element

    def _get(self, path: str) -> bytes:
        connection = self._connection()
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise DataError(
                f"GET http://{self._address}/{path} answered {response.status}; "
                "remove the cached dataset and run again"
            )
        return body

    def _connection(self) -> Connection:
        """Return this thread's connection; a forked process must not share its parent's."""
        mine = self._connections
        if getattr(mine, "process", None) != os.getpid():
            mine.process = os.getpid()
            mine.connection = Connection(self._address)
        connection: Connection = mine.connection
        return connection
