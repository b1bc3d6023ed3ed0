"""The price of a machine that is up is held against the one that was agreed on."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from skymark.cloud.known_machines import RentedMachines
from skymark.cloud.lifecycle.quoting import check_price, ordered_machines
from skymark.cloud.lifecycle.stages import Quoted
from skymark.model.errors import CloudError
from tests.rented_runs import run_of
from tests.unit.cloud.cost.conftest import offer
from tests.unit.rundir.past_runs import cell, plan


@pytest.fixture
def quoted(make_quote):
    """Agreed on: an A100 at a dollar, or an H100 at three, for two hours at most."""

    def quoted_for(**order):
        quote = make_quote(
            offer(1.0, instance_type="a100"),
            offer(3.0, instance_type="h100"),
            num_nodes=order.get("nodes", 1),
        )
        return Quoted(run_of(**order), plan([cell()]), MappingProxyType({}), quote=quote)

    return quoted_for


def up(hourly_price_usd, instance_type="a100", *, nodes=1, price_from="provider"):
    return RentedMachines(
        name="skymark-cpu-1",
        cluster="skymark-cpu-1",
        instance_type=instance_type,
        nodes=nodes,
        hourly_price_usd=hourly_price_usd,
        price_from=price_from,
    )


@pytest.mark.parametrize(
    "machines", [up(1.0), up(1.1), up(0.2), up(3.2, "h100"), up(None, price_from="catalogue")]
)
def test_a_price_as_agreed_or_below_is_fine(quoted, machines):
    check_price(quoted(), machines)


@pytest.mark.parametrize("machines", [up(1.2), up(10.0), up(3.4, "h100")])
def test_a_price_of_more_than_a_tenth_above_is_refused(quoted, machines):
    with pytest.raises(CloudError, match=r"was agreed on; it is ended"):
        check_price(quoted(), machines)


def test_a_tenth_more_is_refused_where_the_ceiling_has_no_room_for_it(quoted):
    check_price(quoted(max_cost_usd=2.3), up(1.1))
    with pytest.raises(CloudError, match="it is ended"):
        check_price(quoted(max_cost_usd=2.1), up(1.1))


def test_every_machine_of_several_counts(quoted):
    check_price(quoted(nodes=2), up(2.0, nodes=2))
    with pytest.raises(CloudError, match=r"\$4\.00/h.*\$2\.00/h"):
        check_price(quoted(nodes=2), up(4.0, nodes=2))


@pytest.mark.parametrize(("kind", "ceiling"), [("free", None), ("h100", 2.5)])
def test_a_machine_that_was_not_in_the_table_or_is_above_the_ceiling_is_refused(
    quoted, kind, ceiling
):
    with pytest.raises(CloudError, match="not agreed on"):
        check_price(quoted(max_cost_usd=ceiling), up(None, kind, price_from="catalogue"))


def test_before_it_is_up_the_cheapest_offer_is_what_is_known_of_it(quoted):
    ordered = ordered_machines(quoted(nodes=2))
    assert re.fullmatch(r"2 × a100 of lambda .*\$2\.00/h", ordered.in_words)
