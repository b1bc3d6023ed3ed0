"""Each profile's own machine: launched, its results brought home, and given back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skymark.cloud.rented_run import machine_file
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import Client
from tests.cloud.launches import LastLook, bill_of, count, launching
from tests.cloud.table import PROFILES, Launched, Tables

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_faults, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_s_machine_is_gone_soon_after_its_results_are_home(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, profile: str
) -> None:
    results = tmp_path / "results"
    began_s = time.time()
    running = launching(client, machine_file(profile), results, profile=profile)
    home_s = running.said_at_s("results verified")
    ended = running.end()
    assert ended.status == 0, ended.output
    (run,) = runs_in(results)
    row = count(client, look, ended.cluster, run)
    (line,) = bill_of(client, ended.cluster)
    assert (row.home, row.lost, row.left) == (1, 0, 0)
    (asked_s,) = (
        call.at_s
        for call in client.world.api.calls
        if call.path.endswith("/terminate") and line.id in call.body["instance_ids"]
    )
    assert line.ended_s is not None
    launched = Launched(
        machine=line.type,
        planned=row.planned,
        home=row.home,
        to_home_s=home_s - began_s,
        to_asked_s=asked_s - home_s,
        to_gone_s=line.ended_s - home_s,
        bill_usd=row.bill_usd,
    )
    tables.add_launch(profile, launched)
