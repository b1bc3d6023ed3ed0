"""Need of the machine's room: that of the batches which worker processes hold ready."""

from __future__ import annotations

import pytest

from skymark.model.plan import Selection
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

IMAGE = 4 * 3 * 96**2
"""Bytes of an image of CV-1:small as it is delivered."""


def need_of(scenario: str, adapter: str, **settings):
    suite = LoadingSuite()
    axis = {"options": {"axis": ["ranks=4"]}} if scenario == "DIST-1" else {}
    chosen = Selection(scenarios=(scenario,), adapters=(adapter,), settings=settings, **axis)
    (planned,) = suite.plan(chosen, EFFORTS["check"])
    return suite.need(planned.cell)


@pytest.mark.parametrize(
    ("scenario", "settings", "elements"),
    [
        ("CV-1", {}, 2 * 2 * 16),
        ("CV-1", {"workers": 8, "prefetch": 4}, 8 * 4 * 16),
        ("CV-1", {"batch_size": 400}, 3 * 400),  # the set has no more than 810
        ("CV-1", {"batch_size": 5000}, 810),
        ("CV-1", {"workers": 0}, 0),
        ("PC-2", {}, 2 * 2 * 2 * 16 * (64 / 96) ** 2),  # two views, of 64 pixels a side
        ("NLP-1", {}, 0),  # nothing tells
    ],
)
def test_it_is_workers_times_prefetch_batches_and_no_more_than_an_epoch(
    scenario, settings, elements
):
    need = need_of(scenario, "pytorch", **settings)
    assert need.shared_memory_bytes == need.memory_bytes == pytest.approx(elements * IMAGE)


def test_ranks_share_an_epoch_and_each_holds_its_batches():
    assert need_of("DIST-1", "pytorch").shared_memory_bytes == 4 * 2 * 2 * 64 * 32 * 4


@pytest.mark.parametrize("adapter", ["numpy", "tfdata"])
def test_a_library_without_worker_processes_needs_nothing(adapter):
    need = need_of("CV-1", adapter, workers=16, batch_size=400)
    assert (need.shared_memory_bytes, need.open_files) == (0, 0)


def test_a_library_that_has_both_is_asked_for_the_scenario():
    assert need_of("CV-1", "grain").shared_memory_bytes > 0
    assert need_of("NLP-2", "grain").open_files == 0  # its work is done in threads
