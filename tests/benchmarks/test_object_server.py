"""The object server's latency and bandwidth by the clock, on a machine that does nothing else."""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skymark.suites.loading.dataset.objects import ObjectStore, serving

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    return served


def fetched(store: ObjectStore) -> bytes:
    connection = http.client.HTTPConnection(store.url.removeprefix("http://"))
    connection.request("GET", "/large.bin")
    body = connection.getresponse().read()
    connection.close()
    return body


def test_the_first_byte_takes_the_given_latency(directory):
    (directory / "object.bin").write_bytes(CONTENT)
    with serving(directory, latency_ms=30, bandwidth_mb_s=1000) as store:
        connection = http.client.HTTPConnection(store.url.removeprefix("http://"))
        waits = []
        for _ in range(5):
            begin = time.perf_counter()
            connection.request("GET", "/object.bin")
            connection.getresponse().read()
            waits.append(time.perf_counter() - begin)
        connection.close()
    assert min(waits) >= 0.030
    assert min(waits) < 0.045


def test_a_body_takes_the_time_that_the_bandwidth_gives_it(directory):
    (directory / "large.bin").write_bytes(bytes(2_000_000))
    took = []
    with serving(directory, latency_ms=0, bandwidth_mb_s=20) as store:
        for _ in range(5):
            begin = time.perf_counter()
            assert len(fetched(store)) == 2_000_000
            took.append(time.perf_counter() - begin)
    assert 0.100 <= min(took) < 0.120


def test_connections_share_the_bandwidth(directory):
    (directory / "large.bin").write_bytes(bytes(1_000_000))
    took = []
    with (
        serving(directory, latency_ms=0, bandwidth_mb_s=20) as store,
        ThreadPoolExecutor(4) as pool,
    ):
        for _ in range(4):
            begin = time.perf_counter()
            bodies = list(pool.map(lambda _: fetched(store), range(4)))
            took.append(time.perf_counter() - begin)
            assert sum(map(len, bodies)) == 4_000_000
    assert 0.200 <= min(took) < 0.240
