"""The bill: at whose price, and what becomes of a price that nobody knows."""

from __future__ import annotations

import pytest

from skymark.cloud.cost.bill import MachineCost, bill_of_all, bill_of_last, bill_of_time
from skymark.cloud.known_machines import RentedMachines

HOUR_S = 3600.0


def cost_of(price_usd, *, launched_at_s=0.0, seconds=HOUR_S):
    return MachineCost(
        launched_at_s=launched_at_s, seconds=seconds, price_usd=price_usd, ended=True
    )


def machines(hourly_price_usd, price_from="catalogue"):
    return RentedMachines(
        name="skymark-cpu-1",
        cluster="skymark-cpu-1",
        hourly_price_usd=hourly_price_usd,
        price_from=price_from,
    )


def test_a_bill_is_at_the_catalogue_s_price_unless_the_provider_told_its_own():
    by_catalogue = bill_of_all([cost_of(0.8)], machines(0.8))
    assert (by_catalogue.price_usd, by_catalogue.price_from) == (0.8, "catalogue")
    told = bill_of_all([cost_of(0.8)], machines(8.0, "provider"))
    assert (told.price_usd, told.hourly_price_usd, told.price_from) == (8.0, 8.0, "provider")
    assert "provider's own" in told.in_words


def test_machines_one_after_another_are_billed_together_and_of_one_name_the_last():
    costs = [cost_of(0.8), cost_of(0.4, launched_at_s=9.0, seconds=HOUR_S / 2)]
    assert bill_of_all(costs, None).price_usd == pytest.approx(1.2)
    assert bill_of_last(costs, None).price_usd == 0.4
    assert bill_of_last([], None) is None


def test_a_missing_price_is_never_free():
    unknown = bill_of_all([cost_of(None)], None)
    assert (unknown.price_usd, unknown.hourly_price_usd) == (None, None)
    assert "not known" in unknown.in_words
    assert bill_of_all([cost_of(None)], machines(0.8)).price_usd == 0.8
    assert bill_of_all([cost_of(0.8), cost_of(None)], machines(0.8)).price_usd == 1.6


def test_without_skypilot_the_clock_makes_the_bill():
    assert bill_of_time(HOUR_S / 2, machines(0.8)).price_usd == 0.4
    assert bill_of_time(HOUR_S / 2, None).price_usd is None


def test_a_lost_machine_stops_counting():
    bill = bill_of_time(HOUR_S, machines(1.6))
    assert bill.without(0, 2) == bill
    less = bill.without(HOUR_S / 2, 2)
    assert less.price_usd == pytest.approx(1.6 - 0.4)
    assert "less 1800 s" in less.in_words
    assert bill.without(9 * HOUR_S, 2).price_usd == 0
    assert bill_of_time(HOUR_S, None).without(HOUR_S, 2).price_usd is None
