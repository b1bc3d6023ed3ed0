"""Requests to SkyPilot about a cluster: the first of two launches goes on, and none is asked twice.

A scripted SDK stands in: the order in which a real server hears two clients cannot be chosen.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.cloud import launching, machines
from skymark.cloud.sky import client, clusters, tasks
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Limits
from tests.rented_runs import run_of
from tests.scripted_suite import cell_of, plan_of


def request(id, at_s, name="sky.launch", cluster="box"):
    return SimpleNamespace(request_id=id, created_at=at_s, name=name, cluster_name=cluster)


@pytest.mark.parametrize(
    ("others", "is_later"),
    [
        ([], False),
        ([request("other", 1.0)], True),
        ([request("other", 3.0)], False),
        ([request("a", 2.0)], True),
        ([request("z", 2.0)], False),
        ([request("other", 1.0, cluster="another")], False),
        ([request("other", 1.0, name="sky.status")], False),
        ([request("z", 3.0), request("y", 1.0)], True),
    ],
)
def test_the_later_of_two_launches_of_a_name_is_told(monkeypatch, others, is_later):
    ours = request("ours", 2.0)
    server = SimpleNamespace(api_status=lambda cluster_name: [ours, *others], exceptions=ERRORS)
    for module in (client, clusters):
        monkeypatch.setattr(module, "sdk", lambda: server)
    assert clusters.has_earlier_launch("box", "ours") is is_later


ERRORS = SimpleNamespace(ClusterDoesNotExist=KeyError, ClusterNotUpError=KeyError)


@pytest.fixture
def asked(monkeypatch):
    """Requests for the record of `box`, a machine with GPUs and no price."""
    asked = []
    launched = SimpleNamespace(
        accelerators={"H100": 8},
        cloud="GCP",
        is_launchable=lambda: False,
        extract_docker_image=lambda: None,
    )
    handle = SimpleNamespace(launched_resources=launched, launched_nodes=1)

    def find(cluster, *, refresh):
        asked.append((cluster, refresh))
        return {"handle": handle, "autostop": None}

    for module in (clusters, machines):
        monkeypatch.setattr(module, "find_cluster", find)
    part = SimpleNamespace(accelerators={"H100": 1})
    monkeypatch.setattr(tasks, "sdk", lambda: SimpleNamespace(Resources=lambda accelerators: part))
    return asked


def test_the_gpus_and_the_price_of_a_machine_are_of_one_answer(asked, monkeypatch):
    monkeypatch.setattr(launching, "run_of_machine", lambda *_: run_of(name="box"))
    work = {"": plan_of(cell_of("numpy"))}
    with pytest.raises(UsageError, match="the price of box is not known"):
        launching.execute("box", work, Limits(max_cost_usd=1.0), job=Job(gpus="H100:1"))
    assert asked == [("box", False)]


def test_a_machine_of_another_client_is_known_by_one_answer(asked):
    assert machines.run_of_machine("box", "cpu").machine.nodes == 1
    assert asked == [("box", False)]
