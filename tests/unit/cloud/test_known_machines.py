"""What is kept at home of a machine: what was ordered, and for a while its secrets."""

from __future__ import annotations

import os
import time

import pytest

from skymark.cloud.known_machines import (
    DAY_S,
    forget,
    forget_secrets,
    keep_secrets,
    known_names,
    recall,
    remember,
)
from skymark.model.errors import UsageError
from tests.unit.cloud.test_order import order_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))


def test_what_was_ordered_is_known_until_the_machine_is_gone():
    order = order_of()
    remember(order)
    assert recall(order.cluster) == order
    forget(order.cluster)
    with pytest.raises(UsageError, match="was not hired from here"):
        recall(order.cluster)


def test_the_names_of_machines_that_are_not_known_to_be_gone_are_in_use(tmp_path):
    assert known_names() == set()
    remember(order_of())
    keep_secrets(order_of().cluster, {"KEY": "value"})
    assert known_names() == {order_of().cluster}
    forget(order_of().cluster)
    assert known_names() == set()


@pytest.mark.parametrize("end", [forget, forget_secrets])
def test_secrets_are_their_owner_s_alone_and_go_once_the_machine_has_them_or_is_gone(end):
    remember(order_of())
    path = keep_secrets(order_of().cluster, {"KEY": "value"})
    assert path.stat().st_mode & 0o777 == 0o600
    assert "value" in path.read_text()
    end(order_of().cluster)
    assert not path.exists()


def test_secrets_that_a_killed_client_left_go_a_day_later():
    remember(order_of())
    left = keep_secrets("skymark-left", {"KEY": "value"})
    new = keep_secrets("skymark-new", {"KEY": "value"})
    assert left.exists()
    os.utime(left, (time.time() - DAY_S - 60,) * 2)
    keep_secrets("skymark-newer", {"KEY": "value"})
    assert not left.exists()
    assert new.exists()
