"""An object store over HTTP for IO-1: serves a directory with a given latency and bandwidth.

Every client gets objects and ranges of them by their paths. Clients of S3 can list a folder of the
directory as a bucket.

It runs as a process of its own, which separates its work from the loader's, and uses only the
standard library, so that it starts quickly.
``python object_server.py DIR --latency-ms 20 --latency-tail 4 --bandwidth-mb-s 200`` prints its
port on standard output. It answers every line of standard input with the total bytes of objects and
lists sent, and serves until standard input is closed.

A bucket is a folder, and its objects are the files below it. It implements ListObjectsV2 (Amazon S3
API reference, 2006-03-01) without groups of keys, because readers of data sets do not use them.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import re
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
MOST_KEYS = 1000
"""Most keys of one page, whatever the request."""

ERROR_CODES = {
    HTTPStatus.NOT_FOUND: "NoSuchKey",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "InvalidRange",
    HTTPStatus.NOT_IMPLEMENTED: "NotImplemented",
}


def entity_tag(status: os.stat_result) -> str:
    """Return a file's entity tag, which changes with the file."""
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def listing(bucket: Path, query: Mapping[str, str]) -> bytes:
    """Return one page of a bucket's objects, in the order of their keys.

    Args:
        bucket: folder of the bucket, whose files do not change.
        query: optional ``prefix``, ``max-keys``, and ``continuation-token`` of the previous page.

    Raises:
        ValueError: the query has other parameters.
    """
    if query.get("list-type") != "2" or query.get("delimiter"):
        raise ValueError(f"only a plain ListObjectsV2 is answered, not {dict(query)}")
    prefix, token = query.get("prefix", ""), query.get("continuation-token", "")
    most = min(int(query.get("max-keys", MOST_KEYS)), MOST_KEYS)
    keys = keys_of(bucket)
    first = bisect_right(keys, token) if token else bisect_left(keys, prefix)
    found = [key for key in keys[first : first + most + 1] if key.startswith(prefix)]
    page, goes_on = found[:most], len(found) > most > 0
    root = ET.Element("ListBucketResult", xmlns=NAMESPACE)
    add(root, Name=bucket.name, Prefix=prefix, MaxKeys=str(most), KeyCount=str(len(page)))
    add(root, IsTruncated=str(goes_on).lower())
    if goes_on:
        add(root, NextContinuationToken=page[-1])
    for key in page:
        status = (bucket / key).stat()
        changed = datetime.fromtimestamp(int(status.st_mtime), UTC)
        contents = ET.SubElement(root, "Contents")
        add(contents, Key=key, LastModified=changed.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
        add(contents, ETag=entity_tag(status), Size=str(status.st_size), StorageClass="STANDARD")
    return document(root)


@cache
def keys_of(bucket: Path) -> list[str]:
    """Return the keys of all objects, sorted; files are looked for once."""
    paths = (path for path in bucket.rglob("*") if path.is_file())
    return sorted(path.relative_to(bucket).as_posix() for path in paths)


def refusal(status: HTTPStatus, object_bytes: int | None = None) -> bytes:
    """Return the body of a refusal.

    Args:
        status: one of `ERROR_CODES`.
        object_bytes: the size of an object that is smaller than the requested range; it tells
            clients an empty object from a mistake.
    """
    root = ET.Element("Error")
    add(root, Code=ERROR_CODES[status], Message=status.description)
    if object_bytes is not None:
        add(root, ActualObjectSize=str(object_bytes))
    return document(root)


def add(parent: ET.Element, **fields: str) -> None:
    """Add fields to an answer, in order."""
    for name, text in fields.items():
        ET.SubElement(parent, name).text = text


def document(root: ET.Element) -> bytes:
    """Return the bytes of a response."""
    written: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return written


PIECE_BYTES = 64 * 1024
"""The link is shared in pieces of this size, so that no body waits for the whole of another."""


NORMAL_P99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""


class Latency:
    """Times to the first byte, log-normal as object stores have them.

    The same seed gives the same times, answer by answer, whoever asks.

    Args:
        median_s: half of all answers begin sooner.
        tail: the 99th percentile over the median; 1 where all take the median.
        seed: of the times.
    """

    def __init__(self, median_s: float, tail: float, seed: int) -> None:
        self._median_s = median_s
        self._spread = math.log(tail) / NORMAL_P99
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def next_s(self) -> float:
        """Return the time of the next answer."""
        with self._lock:
            place = self._random.gauss(0.0, 1.0)
        return self._median_s * math.exp(self._spread * place)


class Link:
    """A network link shared by all connections, which delivers in order and counts its bytes.

    Args:
        bytes_per_s: what the link carries in total.
        clock: monotonic seconds.
        sleep: how to let time pass.
    """

    def __init__(
        self,
        bytes_per_s: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()
        self.carried_bytes = 0

    def carry(self, size: int, since: float) -> None:
        """Wait until `size` bytes have gone over the link.

        They were ready to go at the moment `since`, so that a sleep that lasted too long is made
        up for by the next piece of the same body.
        """
        with self._lock:
            self._free_at = max(self._free_at, since) + size / self._bytes_per_s
            arrives_at = self._free_at
            self.carried_bytes += size
        wait_until(arrives_at, self._clock, self._sleep)


def wait_until(
    moment: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Sleep until the clock shows a moment in seconds."""
    if (left := moment - clock()) > 0:
        sleep(left)


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return ``(start, stop)`` of a Range header (RFC 9110, section 14), None for the whole.

    A header of several ranges, or of another unit, is ignored, as the RFC allows.

    Raises:
        ValueError: the range lies outside the object.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (header or "").strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
    if start >= stop:
        raise ValueError(f"{header} of an object of {size} bytes")
    return start, stop


class ObjectServer(ThreadingHTTPServer):
    """An HTTP server of the files below a directory, on a free port of the loopback interface.

    Args:
        directory: directory to serve; files outside it are not.
        latency: time from a request to the first byte of its answer.
        bandwidth_mb_s: 10⁶ bytes per second over all connections together.
        concurrency: most requests to answer at a time, while the rest wait; None for all.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, directory: Path, latency: Latency, bandwidth_mb_s: float, concurrency: int | None
    ) -> None:
        super().__init__(("127.0.0.1", 0), ObjectHandler)
        self.directory = directory.resolve()
        self.latency = latency
        self.turn: AbstractContextManager[object] = (
            nullcontext() if concurrency is None else threading.Semaphore(concurrency)
        )
        self.link = Link(bandwidth_mb_s * 1e6)


class ObjectHandler(BaseHTTPRequestHandler):
    """One connection: GET and HEAD of objects, whole or a range, and lists of them, kept alive."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2 * PIECE_BYTES
    server: ObjectServer

    def handle(self) -> None:
        """Answer until the client hangs up, which it may do in the middle of an answer."""
        with suppress(ConnectionError):
            super().handle()

    def finish(self) -> None:
        """Close the connection; what the client has not taken is lost."""
        with suppress(ConnectionError):
            super().finish()

    def do_GET(self) -> None:
        """Answer with an object or a range of it, or with a list of a bucket's objects."""
        with self.server.turn:
            self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with an object's size."""
        with self.server.turn:
            self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        answers_at = time.perf_counter() + self.server.latency.next_s()
        asked = urlsplit(self.path)
        path = (self.server.directory / unquote(asked.path).strip("/")).resolve()
        inside = path.is_relative_to(self.server.directory)
        if inside and path.is_file():
            self._answer_with_object(answers_at, path, with_body=with_body)
        elif inside and path.is_dir() and asked.query and with_body:
            self._answer_with_list(answers_at, path, dict(parse_qsl(asked.query)))
        else:
            body = refusal(HTTPStatus.NOT_FOUND) if with_body else b""
            self._refuse(answers_at, HTTPStatus.NOT_FOUND, body)

    def _answer_with_object(self, answers_at: float, path: Path, *, with_body: bool) -> None:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            try:
                chosen = byte_range(self.headers.get("Range"), size)
            except ValueError:
                code = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                body = refusal(code, size) if with_body else b""
                self._refuse(answers_at, code, body, {"Content-Range": f"bytes */{size}"})
                return
            start, stop = chosen or (0, size)
            head = {
                "Content-Length": str(stop - start),
                "Accept-Ranges": "bytes",
                "ETag": entity_tag(status),
                "Last-Modified": self.date_time_string(status.st_mtime),
            }
            if chosen:
                head["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
            code = HTTPStatus.PARTIAL_CONTENT if chosen else HTTPStatus.OK
            self._send_head(answers_at, code, head)
            if with_body:
                file.seek(start)
                self._send_body(file, stop - start)

    def _answer_with_list(self, answers_at: float, bucket: Path, query: dict[str, str]) -> None:
        try:
            body = listing(bucket, query)
        except ValueError:
            code = HTTPStatus.NOT_IMPLEMENTED
            self._refuse(answers_at, code, refusal(code))
            return
        head = {"Content-Type": "application/xml", "Content-Length": str(len(body))}
        self._send_head(answers_at, HTTPStatus.OK, head)
        self._send_body(io.BytesIO(body), len(body))

    def _refuse(
        self,
        answers_at: float,
        code: HTTPStatus,
        body: bytes,
        head: Mapping[str, str] | None = None,
    ) -> None:
        described = {"Content-Type": "application/xml", "Content-Length": str(len(body))}
        self._send_head(answers_at, code, described | dict(head or {}))
        self.wfile.write(body)

    def _send_head(self, answers_at: float, status: HTTPStatus, head: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Type": "application/octet-stream", **head}.items():
            self.send_header(name, value)
        self.end_headers()
        wait_until(answers_at)

    def _send_body(self, file: BinaryIO, size: int) -> None:
        since = time.perf_counter()
        while size > 0 and (piece := file.read(min(size, PIECE_BYTES))):
            self.server.link.carry(len(piece), since)
            self.wfile.write(piece)
            self.wfile.flush()
            size -= len(piece)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: an answer's status tells the client."""


def answer(number: int) -> None:
    """Write a line to the process that started the server."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve a directory, and say how much, until standard input is closed."""
    parser = argparse.ArgumentParser(description="Serve a directory as an object store.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--latency-ms", type=float, required=True)
    parser.add_argument("--latency-tail", type=float, default=1.0)
    parser.add_argument("--bandwidth-mb-s", type=float, required=True)
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    latency = Latency(given.latency_ms / 1e3, given.latency_tail, given.seed)
    server = ObjectServer(given.directory, latency, given.bandwidth_mb_s, given.concurrency)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answer(server.server_address[1])
    for _ in sys.stdin:
        answer(server.link.carried_bytes)


if __name__ == "__main__":
    main()
