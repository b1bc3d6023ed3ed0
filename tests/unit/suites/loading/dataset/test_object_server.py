"""The object server keeps to its latency, its bandwidth and its directory."""

from __future__ import annotations

import http.client
import os
import pickle
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest

from skymark.model.errors import DataError, UsageError
from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.files import write_files
from skymark.suites.loading.dataset.formats import open_reader
from skymark.suites.loading.dataset.object_server import Latency, Link, ObjectServer, byte_range
from skymark.suites.loading.dataset.objects import (
    URL_VARIABLE,
    HttpReader,
    ObjectStore,
    object_url,
    serving,
)

CONTENT = bytes(range(256)) * 40
FAST = {"latency_ms": 0.0, "bandwidth_mb_s": 1000.0}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    (served / "object.bin").write_bytes(CONTENT)
    (tmp_path / "secret.bin").write_bytes(b"not for you")
    return served


def ask(
    store: ObjectStore, path: str = "/object.bin", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(store.url.removeprefix("http://"))
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_an_object_arrives_whole(directory):
    with serving(directory, **FAST) as store:
        response, body = ask(store)
    assert (response.status, body) == (200, CONTENT)
    assert response.getheader("Accept-Ranges") == "bytes"


def test_the_bytes_of_objects_that_were_sent_are_counted(directory):
    with serving(directory, **FAST) as store:
        assert store.sent_bytes() == 0
        ask(store)
        ask(store, Range="bytes=10-19")
        ask(store, method="HEAD")
        ask(store, "/nowhere.bin")
        assert store.sent_bytes() == len(CONTENT) + 10


def test_a_range_arrives_with_its_place(directory):
    with serving(directory, **FAST) as store:
        response, body = ask(store, Range="bytes=10-19")
        tail, tail_body = ask(store, Range="bytes=-3")
        beyond, _ = ask(store, Range=f"bytes={len(CONTENT)}-")
    assert (response.status, body) == (206, CONTENT[10:20])
    assert response.getheader("Content-Range") == f"bytes 10-19/{len(CONTENT)}"
    assert (tail.status, tail_body) == (206, CONTENT[-3:])
    assert beyond.status == 416


def test_head_tells_the_size_and_sends_nothing(directory):
    with serving(directory, **FAST) as store:
        response, body = ask(store, method="HEAD")
    assert (response.status, body) == (200, b"")
    assert response.getheader("Content-Length") == str(len(CONTENT))


@pytest.mark.parametrize("path", ["/nothing.bin", "/", "/../secret.bin", "/%2e%2e/secret.bin"])
def test_what_is_not_in_the_directory_is_not_found(directory, path):
    with serving(directory, **FAST) as store:
        assert ask(store, path)[0].status == 404


def test_a_connection_is_kept_for_the_next_object(directory):
    with serving(directory, **FAST) as store:
        connection = http.client.HTTPConnection(store.url.removeprefix("http://"))
        connection.request("GET", "/object.bin")
        connection.getresponse().read()
        socket = connection.sock
        connection.request("GET", "/nothing.bin")
        connection.getresponse().read()
        connection.request("GET", "/object.bin")
        assert connection.getresponse().read() == CONTENT
        assert connection.sock is socket
        connection.close()


def test_a_link_carries_pieces_one_after_another_and_keeps_no_credit():
    now = [100.0]
    slept = []

    def oversleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds + 0.1

    link = Link(1000.0, clock=lambda: now[0], sleep=oversleep)
    link.carry(500, since=100.0)
    link.carry(250, since=100.0)
    now[0] = 160.0
    link.carry(1000, since=160.0)
    assert slept == pytest.approx([0.5, 0.15, 1.0])


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=5-", (5, 10)),
        ("bytes=5-99", (5, 10)),
        ("bytes=-4", (6, 10)),
        ("bytes=-40", (0, 10)),
        ("bytes=-", None),
        ("bytes=1-2,4-5", None),
        ("lines=1-2", None),
    ],
)
def test_byte_ranges_are_read_as_the_rfc_says(header, expected):
    assert byte_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=7-3", "bytes=-0"])
def test_ranges_outside_the_object_are_refused(header):
    with pytest.raises(ValueError, match="10 bytes"):
        byte_range(header, 10)


def test_latencies_have_the_median_and_the_tail_that_are_asked_for():
    latency = Latency(0.02, 4.0, seed=7)
    drawn = np.array([latency.next_s() for _ in range(20_000)])
    assert np.median(drawn) == pytest.approx(0.02, rel=0.02)
    assert np.percentile(drawn, 99) == pytest.approx(0.08, rel=0.06)


def test_a_seed_gives_every_library_the_same_latencies():
    ours, theirs, other = Latency(1, 4, 7), Latency(1, 4, 7), Latency(1, 4, 8)
    drawn = [[one.next_s() for _ in range(50)] for one in (ours, theirs, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_without_a_tail_every_answer_takes_the_median():
    latency = Latency(0.003, 1.0, seed=1)
    assert {latency.next_s() for _ in range(20)} == {0.003}


def test_so_many_requests_are_answered_at_a_time(directory):
    answered = []

    class Watched(Latency):
        def next_s(self):
            answered.append(1)
            return super().next_s()

    server = ObjectServer(directory, Watched(0, 1, 0), 1000, concurrency=1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    store = ObjectStore(f"http://127.0.0.1:{server.server_address[1]}", 0, lambda: 0)
    with ThreadPoolExecutor(1) as pool:
        with server.turn:
            asked = pool.submit(ask, store)
            with pytest.raises(TimeoutError):
                asked.result(0.05)
            assert not answered
        assert asked.result()[1] == CONTENT
    server.shutdown()
    server.server_close()


def test_a_client_that_hangs_up_in_the_middle_of_an_answer_is_no_error(directory):
    (directory / "large.bin").write_bytes(bytes(50_000_000))
    errors, ended = [], threading.Event()

    class Watched(ObjectServer):
        def handle_error(self, request, client_address):
            errors.append(sys.exception())

        def shutdown_request(self, request):
            super().shutdown_request(request)
            ended.set()

    with Watched(directory, Latency(0, 1, 0), 1000, concurrency=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(server.server_address) as client:
            client.sendall(b"GET /large.bin HTTP/1.1\r\nHost: here\r\n\r\n")
            assert client.recv(1)
        assert ended.wait(30)
        server.shutdown()
    assert errors == []


def test_the_server_is_a_process_that_ends_with_the_block(directory):
    with serving(directory, **FAST) as store:
        assert psutil.pid_exists(store.pid)
        assert object_url() == store.url
    assert not psutil.pid_exists(store.pid)
    assert URL_VARIABLE not in os.environ
    with pytest.raises(UsageError, match=URL_VARIABLE):
        object_url()


def test_a_server_that_does_not_start_is_an_error(directory):
    with pytest.raises(DataError, match="did not start"), serving(directory, "no number", 1.0):
        pass


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    random = np.random.default_rng(0)
    return write_dataset(
        tmp_path / "data",
        "objects",
        {
            "payload": [random.integers(0, 256, size, np.uint8) for size in (3, 0, 70_000)],
            "label": np.array([4, 5, 6]),
        },
        {"payload": "bytes"},
    )


def read_and_send(reader: HttpReader, connection) -> None:
    connection.send(reader[2])


def test_elements_read_over_http_are_those_of_the_dataset(dataset, tmp_path):
    write_files(dataset, tmp_path / "objects")
    with serving(tmp_path / "objects", **FAST):
        reader = open_reader("http", tmp_path / "objects", dataset)
        assert len(reader) == 3
        copy = pickle.loads(pickle.dumps(reader))
        for index in (2, 0, 1):
            for read in (reader, copy):
                element = read[index]
                assert element["index"] == index
                assert element["label"] == dataset[index]["label"]
                np.testing.assert_array_equal(element["payload"], dataset[index]["payload"])


def test_threads_and_forked_processes_have_connections_of_their_own(dataset, tmp_path):
    write_files(dataset, tmp_path / "objects")
    with serving(tmp_path / "objects", latency_ms=1, bandwidth_mb_s=1000):
        reader = HttpReader(dataset)
        mine = reader[2]["payload"]
        found = []
        threads = [threading.Thread(target=lambda: found.append(reader[2])) for _ in range(3)]
        fork = get_context("fork")
        here, there = fork.Pipe()
        process = fork.Process(target=read_and_send, args=(reader, there))
        for one in (*threads, process):
            one.start()
        again = [reader[2] for _ in range(3)]
        for one in (*threads, process):
            one.join()
        for element in (*found, *again, here.recv()):
            np.testing.assert_array_equal(element["payload"], mine)


def test_an_object_that_is_missing_on_the_server_is_named(dataset, tmp_path):
    write_files(dataset, tmp_path / "objects")
    next((tmp_path / "objects").rglob("00000001.payload.bin")).unlink()
    with serving(tmp_path / "objects", **FAST):
        reader = HttpReader(dataset)
        with pytest.raises(DataError, match=r"00000001\.payload\.bin answered 404"):
            reader[1]


def test_no_client_asks_a_proxy_while_a_directory_is_served(directory, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("http_proxy", raising=False)
    with serving(directory, **FAST):
        assert "HTTP_PROXY" not in os.environ
    assert os.environ["HTTP_PROXY"] == "http://127.0.0.1:9"
    assert "http_proxy" not in os.environ
