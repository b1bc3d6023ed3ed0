"""A machine that alone has the results stays ten minutes, or as long as its ceiling has room."""

from __future__ import annotations

import pytest

from skymark.cloud.cost.bill import MachineCost
from skymark.cloud.known_machines import RentedMachines
from skymark.cloud.lifecycle import clusters
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.model.errors import CloudError
from tests.rented_runs import run_of


@pytest.fixture
def keep(monkeypatch):
    """Keep a machine of 6 USD an hour that has cost 1 USD; SkyPilot and SSH are stood in for."""

    def keep(*, answers=True, **fields):
        timers = []
        machines = RentedMachines(name="m", cluster="m", hourly_price_usd=6.0)
        cost = MachineCost(launched_at_s=1, seconds=600, price_usd=1.0, ended=False)

        def costs_of(cluster):
            if not answers:
                raise CloudError("away")
            return [cost]

        monkeypatch.setattr(clusters, "rented", lambda cluster: machines)
        monkeypatch.setattr(clusters, "costs_of", costs_of)
        monkeypatch.setattr(clusters, "_set_own_timer", lambda run, minutes: None)
        monkeypatch.setattr(clusters, "set_idle_timer", lambda cluster, m: timers.append(m))
        kept = clusters.keep_cluster(Retrieved(Finished(run_of(**fields)), safe=False))
        assert timers in ([], [kept.idle_minutes])
        return kept.idle_minutes

    return keep


@pytest.mark.parametrize(
    ("ceiling_usd", "minutes"), [(None, 10), (30.0, 10), (2.31, 10), (1.8, 5), (1.45, 1), (1.0, 1)]
)
def test_results_wait_as_long_as_the_ceiling_has_room(keep, ceiling_usd, minutes):
    assert keep(idle_minutes=1, max_cost_usd=ceiling_usd) == minutes
    with_store = {"stores": ("s3://bucket/runs",)}
    assert keep(idle_minutes=1, max_cost_usd=ceiling_usd, **with_store) == minutes


def test_a_machine_that_waits_longer_anyway_is_left_to_its_timer(keep):
    assert keep(idle_minutes=30, max_cost_usd=5.0) == 30


def test_without_an_answer_a_machine_with_a_ceiling_keeps_its_timer(keep):
    assert keep(idle_minutes=2, max_cost_usd=5.0, answers=False) == 2
