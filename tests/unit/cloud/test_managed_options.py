"""What `launch --managed` refuses before SkyPilot is asked for anything."""

from __future__ import annotations

import pytest

from skymark.cloud.lifecycle.managed import check_managed
from skymark.cloud.order import Order
from skymark.cloud.stores import lasting_store
from skymark.model.errors import UsageError


@pytest.mark.parametrize("stores", [(), ("wandb",), ("file:///tmp/results", "wandb")])
def test_a_store_that_goes_with_the_machine_is_not_enough(stores: tuple[str, ...]):
    with pytest.raises(UsageError, match="add --store s3://BUCKET/PREFIX"):
        lasting_store(stores)


def test_the_first_bucket_is_what_the_next_machine_goes_on_from():
    assert lasting_store(("wandb", "s3://one/runs/", "s3://two")) == "s3://one/runs"


@pytest.mark.parametrize(
    ("option", "said"),
    [({"keep": True}, "leave out --keep"), ({"num_nodes": 2}, "leave out --num-nodes")],
)
def test_options_that_do_not_go_with_it_are_refused(option: dict[str, object], said: str):
    order = Order(
        profile="cpu",
        plan_hash="0",
        run_id="one",
        cluster="skymark-one",
        lasting_store="s3://nowhere",
        **option,
    )
    with pytest.raises(UsageError, match=said):
        check_managed(order)
