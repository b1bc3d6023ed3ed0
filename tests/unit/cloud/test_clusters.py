"""Of two launches of one name, the one that the API server heard first goes on.

A scripted SDK stands in: the order in which a real server hears two clients cannot be chosen.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.cloud.sky import client, clusters


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
