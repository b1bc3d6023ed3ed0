"""Price × time, and the ceiling."""

from __future__ import annotations

import re

import pytest

from skymark.cli.options import PlanOptions
from skymark.cloud.cost.bill import billed_time, set_up_time
from skymark.cloud.cost.quote import PriceList, at_most, check_ceiling, quote_for
from skymark.execute.partition.split import Split
from skymark.model.errors import GateError
from tests.unit.cloud.cost.conftest import offer


def test_the_cost_is_price_times_time_times_machines(make_quote):
    cost = make_quote(offer(1.29), num_nodes=2).cost
    assert cost.low_usd == pytest.approx(1.29)
    assert cost.expected_usd == pytest.approx(2.58)
    assert cost.high_usd == pytest.approx(5.16)


def test_a_job_among_several_is_quoted_for_the_part_that_takes_longest():
    named = ("TAB-1:small", "NLP-1:small", "CV-1:small")
    whole = PlanOptions(profile="cpu", scenarios=named, adapters=("numpy",)).plan()
    prices = PriceList(offers=(offer(1.29),), catalogue_date=None)
    splits = (Split.alike("balanced", jobs) for jobs in (1, 2))
    all_of_it, half = (quote_for(prices, whole, split=split) for split in splits)
    assert half.num_nodes == 1
    assert half.duration == billed_time(whole, set_up_time(whole), (), Split.alike("balanced", 2))
    assert half.duration.running.expected_s < all_of_it.duration.running.expected_s


def test_time_around_the_work_is_paid_for(make_quote):
    cost = make_quote(offer(3.60), around=(10, 20, 30)).cost
    assert cost.expected_usd == pytest.approx(3.60 + 0.02)


def test_a_deadline_limits_the_high_figure(make_quote):
    cost = make_quote(offer(1.0), deadline_s=5400).cost
    assert (cost.expected_usd, cost.high_usd) == (pytest.approx(1.0), pytest.approx(1.5))


def test_a_run_that_costs_the_ceiling_at_most_is_let_through(make_quote):
    quote = make_quote(offer(1.29), deadline_s=5400)
    check_ceiling(quote, quote.cost.high_usd)


def test_a_run_that_may_cost_a_thousandth_more_is_refused_with_exit_status_3(make_quote):
    quote = make_quote(offer(1.29), deadline_s=5400)
    with pytest.raises(GateError) as refused:
        check_ceiling(quote, quote.cost.high_usd - 0.001)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("hourly_usd", [1.70149, 1.29, 0.1, 2.49, 0.0034, 33.333333])
def test_the_figure_that_is_shown_is_enough_as_a_ceiling(make_quote, hourly_usd):
    quote = make_quote(offer(hourly_usd))
    shown = at_most(quote.cost.high_usd)
    assert float(shown) < quote.cost.high_usd + 0.01
    check_ceiling(quote, float(shown))


def test_a_refusal_never_shows_two_equal_figures(make_quote):
    quote = make_quote(offer(1.7015))  # 3.403 for two hours
    for ceiling_usd in (3.40, 3.402, 3.4029):
        with pytest.raises(GateError) as refused:
            check_ceiling(quote, ceiling_usd)
        said = re.search(r"up to ([0-9.]+) USD .* --max-cost is ([0-9.]+) USD", str(refused.value))
        assert said[1] == "3.41"
        assert float(said[2]) == ceiling_usd


def test_decimal_prices_equal_a_ceiling_that_they_equal_on_paper(make_quote):
    check_ceiling(make_quote(offer(0.1), offer(0.2), num_nodes=3), 0.6)


def test_the_deadline_that_a_refusal_names_is_let_through(make_quote):
    quote = make_quote(offer(1.29), around=(60, 180, 600))
    with pytest.raises(GateError, match="--deadline 83m "):
        check_ceiling(quote, 2.0)
    shorter = quote.model_copy(update={"deadline_s": 83 * 60.0})
    check_ceiling(shorter, 2.0)
    with pytest.raises(GateError):
        check_ceiling(shorter.model_copy(update={"deadline_s": 84 * 60.0}), 2.0)


def test_a_ceiling_below_the_price_of_a_start_asks_for_a_higher_one(make_quote):
    quote = make_quote(offer(30.0), around=(60, 180, 600))
    with pytest.raises(GateError, match="higher --max-cost"):
        check_ceiling(quote, 1.0)


def test_machines_that_stay_below_the_ceiling_at_worst_are_allowed(make_quote):
    dear = make_quote(offer(2.0), num_nodes=2).cost.high_usd
    quote = make_quote(offer(1.0), offer(2.0), offer(2.1), num_nodes=2)
    assert [one.hourly_price_usd for one in check_ceiling(quote, dear)] == [1.0, 2.0]
    assert quote.allows(2.0, dear)
    assert not quote.allows(2.1, dear)
