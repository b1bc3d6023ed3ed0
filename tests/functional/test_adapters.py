"""Every library that installs by itself does every scenario that it says it can, verified."""

from __future__ import annotations

import pytest

from skymark.loading.registry import adapters, scenarios
from skymark.model.record import Status

pytestmark = pytest.mark.libraries

SELF_INSTALLING = sorted(slug for slug, cls in adapters().items() if not cls.install_hint)
TIER_1 = {cls.id for cls in scenarios().values() if cls.tier == 1}


@pytest.mark.parametrize("slug", SELF_INSTALLING)
def test_an_adapter_is_verified_in_every_scenario_that_it_supports(skymark, slug):
    ran = skymark("run", "--scenarios", "all", "--adapters", slug, "--rounds", "1")
    bad = {
        record.cell.id: (record.status.value, record.cause)
        for record in ran.records.values()
        if record.status not in {Status.OK, Status.UNSUPPORTED}
    }
    assert not bad
    assert ran.status == 0, ran.stderr
    assert len(ran.records) == len(ran.manifest.cells)
    for record in ran.records.values():
        if record.status is Status.OK:
            assert record.verification.passed
            assert record.verification.content_elements > 0
            assert (ran.output / "samples" / f"{record.cell.id}.parquet").exists()
        else:
            assert record.cause.message
    done = {r.cell.scenario for r in ran.records.values() if r.status is Status.OK}
    assert done >= TIER_1 - {"PR-2"}, "PR-2 alone asks for what some libraries cannot do"


@pytest.mark.parametrize("slug", ["pytorch", "webdataset", "tfdata", "litdata", "mosaic"])
def test_a_library_without_worker_processes_delivers_the_same(skymark, slug):
    ran = skymark(
        *("run", "--scenarios", "CV-1", "NLP-2", "--adapters", slug, "--rounds", "1"),
        *("--workers", "0"),
    )
    assert ran.status == 0, ran.stderr
    assert {record.status for record in ran.records.values()} == {Status.OK}
