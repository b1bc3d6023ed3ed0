"""Prices that providers tell through their own interfaces, beside those of SkyPilot's catalogue.

Another provider plugs in with one entry in `TELLERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from skymark.cloud.cost.prices import Offer
from skymark.cloud.cost.quote import Quote
from skymark.cloud.errors import CloudError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.sky.client import answer_of
from skymark.cloud.sky.internals import is_api_server_here, lambda_prices_usd

Teller = Callable[[], Mapping[str, float]]
"""Returns the price per hour of every kind of machine, by its name with the provider."""

TELLERS: Mapping[str, Teller] = {"lambda": lambda_prices_usd}


def told_prices_usd(provider: str) -> Mapping[str, float]:
    """Return a provider's own prices per hour by kind of machine; none where it tells none.

    Raises:
        CloudError: it does not answer.
    """
    teller = TELLERS.get(provider.casefold())
    if teller is None or not is_api_server_here():
        return {}
    found: Mapping[str, float] = answer_of(provider, teller)
    return {kind: price_usd for kind, price_usd in found.items() if 0 < price_usd < inf}


def with_told_prices(quote: Quote) -> Quote:
    """Return a quote at the prices that the providers tell, the cheapest first again.

    A provider that does not answer keeps the catalogue's prices, with the problem.
    """
    told: dict[str, Mapping[str, float]] = {}
    problems: list[str] = []
    for provider in sorted({one.cloud for one in quote.offers}):
        try:
            told[provider] = told_prices_usd(provider)
        except CloudError as error:
            problems.append(f"{provider} itself ({error}); the catalogue's count")
    offers = [_at_told_price(one, told.get(one.cloud, {})) for one in quote.offers]
    offers.sort(key=lambda one: one.hourly_price_usd)
    changes = {"offers": tuple(offers), "problems": (*quote.problems, *problems)}
    return quote.model_copy(update=changes)


def at_told_price(machines: HiredMachines) -> HiredMachines:
    """Return hired machines at the price that their provider tells, where it does.

    Raises:
        CloudError: it does not answer.
    """
    if machines.address is None or machines.instance_type is None or machines.spot:
        return machines
    price_usd = told_prices_usd(machines.address.provider).get(machines.instance_type)
    if price_usd is None:
        return machines
    changes = {"hourly_price_usd": price_usd * machines.nodes, "price_from": "provider"}
    return machines.model_copy(update=changes)


def _at_told_price(offer: Offer, told: Mapping[str, float]) -> Offer:
    price_usd = told.get(offer.instance_type)
    if price_usd is None or offer.spot:
        return offer
    changes = {
        "hourly_price_usd": price_usd,
        "catalogue_price_usd": offer.hourly_price_usd,
        "price_from": "provider",
    }
    return offer.model_copy(update=changes)
