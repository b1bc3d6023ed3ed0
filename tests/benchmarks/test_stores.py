"""What a bucket store costs per object, against a real S3 server on this machine.

Run with ``nox -s microbench``. The server is moto, which answers some hundred requests a second,
so these figures bound skymark's own cost from above. The last test delays every answer by 20 ms, as
a bucket at some distance does, and shows what threads are worth.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from skymark.store.bucket.store import open_bucket
from tests.stores.faulty_proxy import faulty_proxy
from tests.stores.s3_server import s3_server

RECORD = b'{"schema_version": 1}' + b" " * 3000
OBJECTS = 200
LISTED = 10_000
ANSWER_S = 0.02


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        running.make_bucket("benchmark")
        yield running


@pytest.fixture
def opened(benchmark, server, monkeypatch):
    """Open a run in the bucket."""
    if benchmark.disabled:
        pytest.skip("measured by nox -s microbench; tests/unit/store tests what it does")
    stores = []

    def open_run(name, **variables):
        for variable, value in (server.variables | variables).items():
            monkeypatch.setenv(variable, value)
        stores.append(open_bucket("s3://benchmark", name))
        return stores[-1]

    yield open_run
    for store in stores:
        store.close()


def paths(number):
    return [f"records/{index}.json" for index in range(number)]


def per_second(benchmark, objects):
    benchmark.extra_info["objects_per_s"] = round(objects / benchmark.stats.stats.median, 1)


@pytest.mark.parametrize("folder", ["records", "logs"])
def test_put_and_read_back_in_sequence(benchmark, opened, folder):
    store = opened(folder)

    def put_and_get():
        for path in paths(OBJECTS):
            store.put(path.replace("records", folder), RECORD)
            assert store.get(path.replace("records", folder)) == RECORD

    def forget():
        for path in store.sizes():
            store.delete(path)

    benchmark.pedantic(put_and_get, setup=forget, rounds=3)
    per_second(benchmark, OBJECTS)


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_get(benchmark, opened, server, threads):
    store = opened("read")
    server.fill("benchmark", {f"read/{path}": RECORD for path in paths(OBJECTS)})
    with ThreadPoolExecutor(threads) as pool:
        benchmark.pedantic(lambda: list(pool.map(store.get, paths(OBJECTS))), rounds=3)
    per_second(benchmark, OBJECTS)


def test_list_ten_thousand(benchmark, opened, server):
    store = opened("listed")
    server.fill("benchmark", {f"listed/{path}": RECORD for path in paths(LISTED)})
    sizes = benchmark.pedantic(store.sizes, rounds=3)
    assert len(sizes) == LISTED
    per_second(benchmark, LISTED)


@pytest.mark.parametrize("threads", [1, 4, 16, 32])
def test_get_with_20_ms_for_each_answer(benchmark, opened, server, threads):
    server.fill("benchmark", {f"far/{path}": RECORD for path in paths(OBJECTS)})
    with faulty_proxy(server.endpoint) as proxy, ThreadPoolExecutor(threads) as pool:
        store = opened("far", AWS_ENDPOINT_URL=proxy.endpoint)
        proxy.delay(ANSWER_S)
        benchmark.pedantic(lambda: list(pool.map(store.get, paths(OBJECTS))), rounds=3)
    per_second(benchmark, OBJECTS)
