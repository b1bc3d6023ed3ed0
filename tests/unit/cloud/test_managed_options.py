"""What `launch --managed` refuses before SkyPilot is asked for anything."""

from __future__ import annotations

import pytest

from skymark.cloud.rented_run import lasting_store
from skymark.model.errors import UsageError
from skymark.model.requests import Machine
from tests.rented_runs import run_of


@pytest.mark.parametrize("stores", [(), ("wandb",), ("file:///tmp/results", "wandb")])
def test_a_store_that_goes_with_the_machine_is_not_enough(stores: tuple[str, ...]):
    with pytest.raises(UsageError, match="add --store s3://BUCKET/PREFIX"):
        lasting_store(stores)


def test_the_first_bucket_is_what_the_next_machine_goes_on_from():
    assert lasting_store(("wandb", "s3://one/runs/", "s3://two")) == "s3://one/runs"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"keep": True}, "leave out --keep"),
        ({"nodes": 2}, "leave out --num-nodes"),
        ({"idle": True}, "leave out --idle"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(option: dict[str, object], said: str):
    with pytest.raises(UsageError, match=said):
        Machine(managed=True, **option)


def test_a_run_without_a_store_that_lasts_is_refused():
    with pytest.raises(UsageError, match="add --store"):
        run_of(managed=True)
    assert run_of(managed=True, stores=("s3://one/",)).lasting_store == "s3://one"
