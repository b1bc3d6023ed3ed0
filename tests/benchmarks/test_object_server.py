"""The object server's latency and bandwidth by the clock, on a machine that does nothing else."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skymark.suites.loading.dataset.objects import ObjectStore, serving

CONTENT = bytes(range(256)) * 40
TRIES = 5
PATIENCE_S = 120.0
"""How long more tries are made until one is as quick as it should be."""


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


def shortest_s(below_s: float, act: Callable[[], object]) -> float:
    """Return the shortest time of an act, in seconds, of `TRIES` and more until one is below."""
    took: list[float] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(took) < TRIES or (min(took) >= below_s and time.monotonic() < deadline):
        begin = time.perf_counter()
        act()
        took.append(time.perf_counter() - begin)
    return min(took)


def test_the_first_byte_takes_the_given_latency(directory):
    (directory / "object.bin").write_bytes(CONTENT)
    with serving(directory, latency_ms=30, bandwidth_mb_s=1000) as store:
        connection = http.client.HTTPConnection(store.url.removeprefix("http://"))

        def ask() -> None:
            connection.request("GET", "/object.bin")
            connection.getresponse().read()

        shortest = shortest_s(0.045, ask)
        connection.close()
    assert 0.030 <= shortest < 0.045


def test_a_body_takes_the_time_that_the_bandwidth_gives_it(directory):
    (directory / "large.bin").write_bytes(bytes(2_000_000))
    with serving(directory, latency_ms=0, bandwidth_mb_s=20) as store:

        def fetch() -> None:
            assert len(fetched(store)) == 2_000_000

        shortest = shortest_s(0.120, fetch)
    assert 0.100 <= shortest < 0.120


def test_connections_share_the_bandwidth(directory):
    (directory / "large.bin").write_bytes(bytes(1_000_000))
    with (
        serving(directory, latency_ms=0, bandwidth_mb_s=20) as store,
        ThreadPoolExecutor(4) as pool,
    ):

        def fetch_four() -> None:
            bodies = list(pool.map(lambda _: fetched(store), range(4)))
            assert sum(map(len, bodies)) == 4_000_000

        shortest = shortest_s(0.240, fetch_four)
    assert 0.200 <= shortest < 0.240
