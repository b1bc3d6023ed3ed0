"""The worker's side with the NumPy loop: what settings do, and what is said when they fail."""

from __future__ import annotations

import os
import socket

import pytest

from skymark.machine import page_cache
from skymark.model.effort import EFFORTS
from skymark.model.errors import LibraryAbsentError
from skymark.model.plan import Selection
from skymark.model.record import Resources
from skymark.suites.loading.adapter import ADAPTERS
from skymark.suites.loading.bench import AdapterBench
from skymark.suites.loading.suite import LoadingSuite

SHORT = EFFORTS["quick"].model_copy(update={"min_seconds": 0.01, "verified_elements": 32})

OWN = """
from skymark.suites.loading.adapters.numpy import NumpyReference

class Own(NumpyReference):
    slug = "own-of-bench-tests"
    {line}

    def close(self):
        print("closed")
"""


@pytest.fixture
def own(tmp_path):
    """Write an adapter that differs from the NumPy loop in one line; returns its reference."""
    known = set(ADAPTERS)

    def write(line="pass"):
        path = tmp_path / "own.py"
        path.write_text(OWN.format(line=line))
        return f"{path}:Own"

    yield write
    for slug in set(ADAPTERS) - known:
        del ADAPTERS[slug]


def cell_of(scenario="TAB-1", adapter="numpy", axes=None, **settings):
    selection = Selection(
        scenarios=(scenario,), adapters=(adapter,), axes=axes or {}, settings=settings
    )
    (planned,) = LoadingSuite().plan(selection)
    return planned.cell


def measured(cell, cache):
    """Measure one round; returns the result and the processes that were left out of sampling."""
    bench, excluded = AdapterBench(cell.reference, cache), []
    bench.prepare(cell)
    try:
        result = bench.measure(cell, 0, SHORT, excluded.append, Resources)
    finally:
        bench.close()
    return result, excluded


def test_a_round_is_measured_and_verified(cache):
    result, excluded = measured(cell_of(), cache)
    assert result.verification.passed
    assert result.elements > 0
    assert result.timed_ns > 0
    assert excluded == [()]


def test_batch_size_and_think_time_are_the_settings(cache):
    result, _ = measured(cell_of(batch_size=50, think_time_ms=2.0), cache)
    assert max(result.batch_elements) == 50
    batches = sum(epoch >= result.warmup_epochs for epoch in result.epoch)
    assert batches * 2e6 <= result.think_ns <= batches * 6e6


def test_an_object_store_is_served_for_formats_over_http_and_is_not_sampled(cache):
    cell = cell_of("IO-1", axes={"source": ("http",)}, http_latency_ms=3)
    result, ((store,),) = measured(cell, cache)
    assert result.verification.passed
    assert result.extra == {"http_latency_ms": 3.0, "http_bandwidth_mb_s": 200.0}
    assert result.first_batch_ns > 3e6
    assert store != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(store, 0)


def test_a_cold_round_is_marked_and_its_files_are_dropped_from_the_page_cache(cache, monkeypatch):
    dropped = []
    monkeypatch.setattr("skymark.suites.loading.bench.drop_page_cache", dropped.append)
    result, _ = measured(cell_of(page_cache="cold"), cache)
    assert result.page_cache == "cold"
    assert [path.is_dir() for path in dropped] == [True]
    assert measured(cell_of(), cache)[0].page_cache == "warm"
    assert page_cache.drop_page_cache(dropped[0]) is None


def test_an_absent_library_is_told_with_the_command_that_installs_it(own, cache):
    reference = own("imports = 'no_such_library_xyz.loader'; distribution = 'no-such-library'")
    with pytest.raises(LibraryAbsentError, match="uv pip install no-such-library"):
        measured(cell_of(adapter=reference), cache)


def test_a_module_that_the_library_lacks_is_a_failure_and_no_absence(own, cache, tmp_path):
    (tmp_path / "half_installed_xyz.py").write_text("import no_such_dependency_xyz\n")
    line = f"import sys; sys.path.append({str(tmp_path)!r}); imports = 'half_installed_xyz'"
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency_xyz"):
        measured(cell_of(adapter=own(line)), cache)


def test_the_adapters_variables_are_set_unless_the_user_set_them(own, cache, monkeypatch):
    monkeypatch.setenv("SKYMARK_TEST_MINE", "user")
    monkeypatch.setenv("SKYMARK_TEST_FREE", "x")
    monkeypatch.delenv("SKYMARK_TEST_FREE")
    line = "variables = {'SKYMARK_TEST_MINE': 'adapter', 'SKYMARK_TEST_FREE': 'adapter'}"
    AdapterBench(own(line), cache)
    assert os.environ["SKYMARK_TEST_MINE"] == "user"
    assert os.environ["SKYMARK_TEST_FREE"] == "adapter"


def test_versions_are_of_what_is_installed(own, cache):
    import numpy as np

    assert AdapterBench("numpy", cache).versions()["numpy"] == np.__version__
    found = AdapterBench(own("distribution = 'no-such-library'"), cache).versions()
    assert "no-such-library" not in found


def test_an_adapter_is_closed_only_if_it_was_opened(own, cache, capsys):
    reference = own()
    AdapterBench(reference, cache).close()
    assert capsys.readouterr().out == ""
    measured(cell_of(adapter=reference), cache)
    assert capsys.readouterr().out == "closed\n"


def test_data_is_prepared_in_the_format_asked_for_and_once(tmp_path):
    cell = cell_of(format="parquet")
    bench = AdapterBench("numpy", tmp_path)
    bench.prepare(cell)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert written
    bench.prepare(cell)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == written
    assert LoadingSuite().unprepared([cell], tmp_path) == []


def test_nothing_listens_any_more_after_a_round_over_http(cache):
    cell = cell_of("IO-1", axes={"source": ("http",)})
    before = listening()
    measured(cell, cache)
    assert listening() <= before


def listening():
    """Return the loopback addresses that this process and its children listen on."""
    import psutil

    me = psutil.Process()
    return {
        connection.laddr
        for process in [me, *me.children(recursive=True)]
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.family == socket.AF_INET
    }
