"""The worker's side with the NumPy loop: what settings do, and what is said when they fail."""

from __future__ import annotations

import os
import re
import socket

import numpy as np
import pytest

from skymark.machine import disk
from skymark.machine.cgroup import divided
from skymark.model.errors import LibraryAbsentError
from skymark.model.plan import Selection
from skymark.model.record import Resources
from skymark.suite.contract import ObservedRound
from skymark.suites.loading.adapter import ADAPTERS
from skymark.suites.loading.bench import AdapterBench
from skymark.suites.loading.drives.outcome import UnseenRegion
from skymark.suites.loading.drives.stream import NO_STREAM
from skymark.suites.loading.judge import LoadingJudge
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

CHECK = EFFORTS["check"]
SHORT = CHECK.model_copy(update={"limits": {**CHECK.limits, "verified_elements": 32}})

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


class Region(UnseenRegion):
    """A timed region that samples nothing, but notes what was to be left out of it."""

    def __init__(self):
        self.excluded = []

    def begins(self, exclude=(), *, in_slices=False):
        del in_slices
        self.excluded.append(exclude)
        return False

    def ends(self):
        return Resources(cpu_s=0.5, peak_pss_bytes=1000, processes=1)

    def hand_over(self, evidence):
        self.evidence = evidence


def cell_of(scenario="TAB-1", adapter="numpy", axis=(), **settings):
    selection = Selection(
        scenarios=(scenario,),
        adapters=(adapter,),
        settings=settings,
        options={"axis": list(axis)} if axis else {},
    )
    (planned,) = LoadingSuite().plan(selection, SHORT)
    return planned.cell


def measured(cell, cache, effort=SHORT):
    """Measure and judge one round; returns it and the processes that were left out of sampling."""
    bench, region = AdapterBench(cell, cache), Region()
    bench.prepare(cell)
    try:
        result = bench.measure(cell, 0, effort, region)
        assert result.verification.cause.kind == "not-judged"
        verdict = LoadingJudge(cell, cache).judge(cell, result, region.evidence, ObservedRound())
    finally:
        bench.close()
    return result.model_copy(update={"verification": verdict}), region.excluded


def test_a_round_is_measured_and_verified(cache):
    result, excluded = measured(cell_of(), cache)
    assert result.verification.passed
    assert result.metrics["elements"] > 0
    assert result.timed_ns > 0
    assert excluded == [()]
    whole = result.metrics["elements"] / result.timed_ns * 1e9
    assert result.metrics["epoch_samples_per_s"] == pytest.approx(whole)
    columns = (result.samples[name] for name in ("elements", "wait_ns", "stream"))
    sizes, waits, _ = zip(*(one for one in zip(*columns, strict=True) if one[2]), strict=True)
    assert result.metrics["samples_per_s"] == pytest.approx(sum(sizes) / sum(waits) * 1e9)
    assert result.metrics["import_s"] >= 0
    assert result.metrics["peak_pss_bytes"] == 1000


def test_raw_samples_are_in_the_columns_that_the_suite_declares(cache):
    result, _ = measured(cell_of(), cache)
    assert list(result.samples) == list(LoadingSuite().declaration.sample_columns)
    kept = [
        size
        for size, warm_up in zip(result.samples["elements"], result.samples["warm_up"], strict=True)
        if not warm_up
    ]
    assert sum(kept) == result.metrics["elements"]


def test_a_round_says_what_its_numbers_depend_on(cache):
    result, _ = measured(cell_of(format="memory"), cache)
    # The engine adds the accelerator; `caches` is a condition of those adapters that keep work,
    # `works_ahead` of those that do an epoch's while it restarts, `cores` of servers, `step` of
    # training steps, `mixing` of mixed sources, `copies` of batches that go to a device, and
    # `stream` of epochs without one.
    others = {"accelerator", "caches", "works_ahead", "cores", "mixing", "step", "copies"}
    others |= {"stream"}
    assert set(result.conditions) == set(LoadingSuite().declaration.conditions) - others
    assert result.conditions == {
        "operators": "reference",
        "execution": "the calling thread",
        "served_from": "memory",
        "page_cache": "warm",
        "format": "memory",
        "shuffle": "global",
        "deliver": "host",
        "device": "cpu",
    }


def test_a_set_of_a_few_batches_has_the_rate_of_whole_epochs_and_names_the_size(cache):
    result, _ = measured(cell_of("TAB-1:tiny"), cache)
    assert result.verification.passed
    assert {"samples_per_s", "stream_utilisation"}.isdisjoint(result.metrics)
    assert result.metrics["epoch_samples_per_s"] > 0
    advice = result.conditions["stream"].removeprefix(f"{NO_STREAM}; ")
    assert re.search("^TAB-1:small .* 4,096 ", advice)


def test_the_limits_of_the_effort_bound_the_round(cache):
    limits = {**SHORT.limits, "min_seconds": 0.2, "verified_elements": 4000}
    short, _ = measured(cell_of(), cache)
    longer, _ = measured(cell_of(), cache, SHORT.model_copy(update={"limits": limits}))
    assert short.verification.compared_elements < 4000 <= longer.verification.compared_elements
    assert longer.timed_ns >= 0.2e9


def test_batch_size_and_think_time_are_the_settings(cache):
    result, _ = measured(cell_of(batch_size=50, think_time_ms=2.0), cache)
    assert max(result.samples["elements"]) == 50
    batches = sum(epoch >= 1 for epoch in result.samples["epoch"])
    think_ns = result.metrics["utilisation"] * result.timed_ns
    assert batches * 2e6 <= think_ns <= result.timed_ns


def test_an_object_store_is_served_for_formats_over_http_and_is_not_sampled(cache):
    cell = cell_of("IO-1", axis=["source=http"], http_latency_ms=3, http_concurrency=5)
    result, ((store,),) = measured(cell, cache)
    assert result.verification.passed
    assert result.metrics["http_latency_ms"] == 3.0
    assert result.metrics["http_latency_tail"] == 1.0
    assert result.metrics["http_concurrency"] == 5
    assert result.metrics["http_bandwidth_mb_s"] == 200.0
    assert result.conditions["cores"] == str(divided(os.sched_getaffinity(0)))
    assert result.metrics["first_batch_ns"] > 3e6
    assert store != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(store, 0)


def test_a_cold_round_is_marked_and_its_files_are_dropped_from_the_page_cache(cache, monkeypatch):
    dropped = []
    monkeypatch.setattr("skymark.suites.loading.bench.drop_page_cache", dropped.append)
    result, _ = measured(cell_of(page_cache="cold"), cache)
    assert result.conditions["page_cache"] == "cold"
    assert [path.is_dir() for path in dropped] == [True]
    assert measured(cell_of(), cache)[0].conditions["page_cache"] == "warm"
    assert disk.drop_page_cache(dropped[0]) is None


def test_a_warm_round_finds_its_files_in_the_page_cache(cache, monkeypatch):
    filled = []
    monkeypatch.setattr(
        "skymark.suites.loading.bench.fill_page_cache", lambda *given: filled.append(given)
    )
    measured(cell_of(), cache)
    assert [(path.is_dir(), s) for path, s in filled] == [(True, SHORT.limits["max_seconds"])]
    measured(cell_of(page_cache="cold"), cache)
    assert len(filled) == 1


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
    AdapterBench(cell_of(adapter=own(line)), cache)
    assert os.environ["SKYMARK_TEST_MINE"] == "user"
    assert os.environ["SKYMARK_TEST_FREE"] == "adapter"


def test_versions_are_of_what_is_installed(own, cache):
    import numpy as np

    assert AdapterBench(cell_of(), cache).versions()["numpy"] == np.__version__
    reference = own("distribution = 'no-such-library'")
    found = AdapterBench(cell_of(adapter=reference), cache).versions()
    assert "no-such-library" not in found


def test_an_adapter_is_closed_with_its_bench(own, cache, capsys):
    bench = AdapterBench(cell_of(adapter=own()), cache)
    assert capsys.readouterr().out == ""
    bench.close()
    assert capsys.readouterr().out == "closed\n"


def test_data_is_prepared_in_the_format_asked_for_and_once(tmp_path):
    cell = cell_of(format="parquet")
    bench = AdapterBench(cell, tmp_path)
    bench.prepare(cell)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert written
    bench.prepare(cell)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == written
    assert LoadingSuite().unprepared([cell], tmp_path) == []


def test_nothing_listens_any_more_after_a_round_over_http(cache):
    cell = cell_of("IO-1", axis=["source=http"])
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


def test_the_first_fork_that_measures_tells_the_time_of_the_import_and_the_others_none(cache):
    bench = AdapterBench(cell_of(), cache)
    bench.prepare(cell_of())
    states = []
    for first in (True, False):
        bench.forked(first=first)
        states.append(np.random.random())  # noqa: NPY002 - the generator that libraries share
        result = bench.measure(cell_of(), 0, SHORT, Region())
        assert ("import_s" in result.metrics) is first
    bench.close()
    assert states[0] != states[1]
