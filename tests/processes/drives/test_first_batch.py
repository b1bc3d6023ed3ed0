"""IO-2: opening a loader counts towards its first batch and its memory."""

from __future__ import annotations

import dataclasses

import pytest

from skymark.model.record import Resources
from skymark.suites.loading.drives import first_batch
from skymark.suites.loading.drives.outcome import UnseenRegion
from skymark.suites.loading.scenarios.io_storage import FirstBatch
from skymark.suites.loading.work import Size

SIZE = Size(elements=70, batch_size=16, values={"object_bytes": 1000})


@pytest.mark.parametrize(("mode", "format"), [("streaming", "files"), ("eager", "memory")])
def test_both_modes_deliver_the_same_verified_elements(make_bench, mode, format):
    bench = make_bench(FirstBatch(SIZE, axes={"mode": mode}), format=format)
    outcome = first_batch.drive(bench)
    assert bench.oracle.verdict().passed
    assert outcome.extra["open_to_first_batch_s"] == pytest.approx(
        outcome.setup_s + outcome.first_batch_ns / 1e9
    )


def test_sampling_begins_before_the_loader_is_opened(make_bench):
    bench = make_bench(FirstBatch(SIZE, axes={"mode": "eager"}), format="memory")
    seen = []

    class Watched(type(bench.adapter)):
        def open(self, job):
            seen.append("open")
            return super().open(job)

    class Seen(UnseenRegion):
        def begins(self, exclude=(), *, in_slices=False):
            seen.append((exclude, in_slices))
            return False

        def ends(self):
            seen.append("ends")
            return Resources(peak_pss_bytes=5)

    outcome = first_batch.drive(
        dataclasses.replace(
            bench,
            adapter=Watched(),
            excluded_pids=(1,),
            region=Seen(),
        )
    )
    assert seen == [((1,), False), "open", "ends"]
    assert outcome.resources.peak_pss_bytes == 5


def test_modes_ask_for_the_ability_that_they_are_named_for():
    assert "eager" in FirstBatch.requirements({"mode": "eager"})
    assert "stream" in FirstBatch.requirements({"mode": "streaming"})
    assert FirstBatch.source({"mode": "eager"}) == "memory"
    assert FirstBatch.source({"mode": "streaming"}) is None
