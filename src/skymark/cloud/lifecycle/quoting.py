"""The first stage: check an order, price it, and limit it in time and price."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skymark.cloud.cost.ceiling import check_ceiling
from skymark.cloud.cost.quote import Quote, quote_for
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.order import Order, limit_s
from skymark.cloud.secret_variables import secrets_for
from skymark.cloud.sky.catalogue import SkyPilotCatalogue
from skymark.cloud.sky.internals import withhold_provider_keys
from skymark.cloud.sky.providers import enabled_clouds
from skymark.cloud.sky.tasks import make_task
from skymark.cloud.sky.told_prices import with_told_prices
from skymark.model.plan import Plan
from skymark.model.span import Span
from skymark.run.history import read_history


def quote_order(
    order: Order, plan: Plan, results: Path, variables: Mapping[str, str], jobs: int = 1
) -> Quoted:
    """Check an order and price it; hires nothing.

    Args:
        order: the machine, the run and its limits.
        plan: the cells that run there.
        results: directory of earlier runs, which tell how long cells take.
        variables: the caller's, for secrets.
        jobs: such as the order, each on machines of its own; price and ceiling are of all of them,
            the limit in time is of each.

    Raises:
        UsageError: no credentials, no such machine, a wrong YAML.
        GateError: it may cost more than the ceiling.
    """
    task = make_task(order)
    clouds = enabled_clouds(order.infra, variables)
    withhold_provider_keys(clouds)
    by_catalogue = quote_for(
        task,
        plan,
        SkyPilotCatalogue(),
        history=read_history(results, plan),
        deadline_s=order.deadline_s,
        clouds=clouds,
        idle_minutes=order.idle_minutes,
        split=order.sharing,
    )
    machines = jobs * order.num_nodes
    quote = with_told_prices(by_catalogue).model_copy(update={"num_nodes": machines})
    if order.idle:
        nothing = Span(low_s=0, expected_s=0, high_s=0)
        duration = quote.duration.model_copy(update={"running": nothing})
        quote = quote.model_copy(update={"duration": duration})
    highest_usd = _highest_hourly_price_usd(quote, order.max_cost_usd)
    around_s = quote.duration.provisioning.high_s + quote.duration.ending.high_s
    hourly_usd = None if highest_usd is None else highest_usd * machines
    seconds = limit_s(order, hourly_usd, around_s)
    secrets = secrets_for(plan, order.stores, variables)
    return Quoted(order, plan, secrets, seconds, quote, highest_usd)


def _highest_hourly_price_usd(quote: Quote, max_cost_usd: float | None) -> float | None:
    """Return SkyPilot's price per hour of the dearest machine below a ceiling; None for no limit.

    Raises:
        GateError: the cheapest may cost more than the ceiling.
    """
    if max_cost_usd is None:
        return None
    check_ceiling(quote, max_cost_usd)
    most_usd = max(
        one.hourly_price_usd if one.catalogue_price_usd is None else one.catalogue_price_usd
        for one in quote.offers
        if quote.allows(one.hourly_price_usd, max_cost_usd)
    )
    return most_usd or None  # your own cluster costs nothing; SkyPilot takes no 0
