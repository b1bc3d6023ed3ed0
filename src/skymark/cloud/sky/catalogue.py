"""Prices of machines: SkyPilot's catalogue on this disk, and prices from providers themselves.

SkyPilot chooses among the same candidates when it launches. A missing catalogue is fetched once. An
outdated catalogue is used with its date. It needs no API server.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from skymark.cloud.cost.quote import CatalogueError, Offer, PriceList
from skymark.cloud.known_machines import RentedMachines
from skymark.cloud.sky.client import answer_of, sdk, short
from skymark.cloud.sky.internals import (
    OWN_CLUSTERS,
    catalogue_directory,
    catalogue_files,
    catalogue_without_refresh,
    cloud_named,
    fetch_catalogue,
    is_api_server_here,
    lambda_prices_usd,
)
from skymark.cloud.waiting import in_background
from skymark.model.errors import CloudError
from skymark.model.sizes import some_of

FETCHED = ("gcp", "lambda", "vast")
"""Clouds whose prices are fetched where there are none at all: the machine kinds are for them."""

FETCH_TIMEOUT_S = 60.0


def prices_for(
    task: Any, clouds: Collection[str] | None = None, tell: Callable[[str], None] = lambda _: None
) -> PriceList:
    """Return the offers of machines for a ``sky.Task``, for each alternative of its resources.

    Args:
        task: its resources, their alternatives and the number of nodes.
        clouds: names of clouds, for example with credentials; None for every cloud with known
            prices.
        tell: gets a message if a catalogue is fetched.

    Raises:
        CatalogueError: there is no catalogue, or it has no such machine.
    """
    sdk()
    offers: dict[tuple[str, str | None, str, bool], Offer] = {}
    problems = _fetch_missing(task, clouds, tell)
    asked: set[str] = set()
    unknown: dict[str, None] = {}
    with catalogue_without_refresh():
        catalogued = catalogue_files()
        for resources in task.resources:
            for cloud in _clouds_of(resources, clouds, catalogued):
                name = str(cloud).casefold()
                asked.add(name)
                try:
                    for offer in _offers(cloud, resources, task.num_nodes, unknown):
                        offers[offer.cloud, offer.region, offer.instance_type, offer.spot] = offer
                except Exception as error:  # of a provider's part of SkyPilot: others may do
                    problems[name] = f"{name}: {short(error)}"
    if unknown:
        named = some_of([*unknown], 1)
        problems["unknown"] = f"{named}: the catalogue's price is no amount above 0"
    if not offers:
        raise CatalogueError(_why_none(task, asked, problems, catalogued))
    ordered = sorted(
        offers.values(), key=lambda offer: (offer.hourly_price_usd, offer.spot, *_name(offer))
    )
    return PriceList(
        offers=tuple(ordered),
        catalogue_date=_date_of({offer.cloud for offer in ordered}, catalogued),
        problems=tuple(problems.values()),
    )


def _fetch_missing(
    task: Any, allowed: Collection[str] | None, tell: Callable[[str], None]
) -> dict[str, str]:
    """Fetch the missing catalogues that a task needs, and return problems by cloud.

    For a task that may run on any cloud, the existing catalogues are enough.
    """
    known = catalogue_files()
    named = {str(one.cloud).casefold() for one in task.resources if one.cloud is not None}
    wanted = {*FETCHED, *named} if allowed is None else {name.casefold() for name in allowed}
    if len(named) == 1 and all(one.cloud is not None for one in task.resources):
        wanted = named
    elif allowed is None and known.keys() & wanted:
        return {}
    problems = {}
    for cloud in sorted(wanted - known.keys() - OWN_CLUSTERS):
        tell(f"fetching SkyPilot's prices of {cloud} (once)")
        try:
            in_background(partial(fetch_catalogue, cloud), FETCH_TIMEOUT_S)
        except Exception as error:  # of the network, or of a cloud without a catalogue
            problems[cloud] = f"{cloud}: {short(error)}"
    return problems


def gpu_bytes(kind: str, cloud: str) -> int | None:
    """Return the memory of a GPU by a cloud's catalogue; None where that does not tell it."""
    if cloud in OWN_CLUSTERS:
        return None
    sizes_gib: list[float] = []
    with suppress(Exception), catalogue_without_refresh():  # of a cloud without a catalogue
        listed = sdk().catalog.list_accelerators(name_filter=f"^{kind}$", clouds=cloud)
        sizes_gib = [one.device_memory for each in listed.values() for one in each]
    known_gib = [size for size in sizes_gib if size and size > 0]
    return int(min(known_gib) * 2**30) if known_gib else None


def _name(offer: Offer) -> tuple[str, str, str]:
    return offer.cloud, offer.instance_type, offer.region or ""


def _clouds_of(
    resources: Any, allowed: Collection[str] | None, catalogued: Collection[str]
) -> list[Any]:
    """Return the clouds that one alternative of a task may run on and whose prices are known."""
    names = [str(resources.cloud).casefold()] if resources.cloud is not None else sorted(catalogued)
    if allowed is not None:
        names = [name for name in names if name in {one.casefold() for one in allowed}]
    return [cloud_named(name) for name in names if name in catalogued or name in OWN_CLUSTERS]


def _offers(
    cloud: Any, resources: Any, num_nodes: int, unknown: dict[str, None]
) -> Iterator[Offer]:
    """Yield the offers of a cloud; machines whose price is no amount go to `unknown`."""
    name = str(cloud).casefold()
    accelerators = accelerators_text(resources.accelerators)
    if name in OWN_CLUSTERS:
        yield Offer(
            cloud=name,
            region=resources.region,
            instance_type="own machine",
            accelerators=accelerators,
            spot=False,
            hourly_price_usd=0.0,
            price_from="own",
        )
        return
    feasible = cloud.get_feasible_launchable_resources(resources, num_nodes=num_nodes)
    for machine in feasible.resources_list:
        regions = cloud.regions_with_offering(
            machine.instance_type,
            machine.accelerators,
            machine.use_spot,
            machine.region,
            machine.zone,
        )
        if not regions and not machine.use_spot:  # SkyPilot leaves out what has no price
            unknown[f"{machine.instance_type} of {name}"] = None
        for region in regions:
            there = machine.copy(region=region.name)
            price_usd, source = _price(there)
            if price_usd is None:
                unknown[f"{machine.instance_type} of {name} {region.name}"] = None
            else:
                yield Offer(
                    cloud=name,
                    region=region.name,
                    instance_type=machine.instance_type,
                    accelerators=accelerators_text(machine.accelerators),
                    spot=machine.use_spot,
                    hourly_price_usd=price_usd,
                    price_from=source,
                )


def _price(machine: Any) -> tuple[float | None, str]:
    """Return a machine's price per hour in USD and its source; None without a price.

    Vast's catalogue has 0 for machines let to the highest bidder. The on-demand price replaces it,
    because nobody would bid more.
    """
    try:
        price_usd = float(machine.get_cost(3600))
    except (TypeError, ValueError):  # not sold in this region, or text in the place of a price
        return None, ""
    if price_usd == 0 and machine.use_spot:
        on_demand_usd, _ = _price(machine.copy(use_spot=False))
        return on_demand_usd, "on demand"
    if not isfinite(price_usd) or price_usd <= 0:
        return None, ""
    return round(price_usd, 6), "catalogue"


def accelerators_text(accelerators: Mapping[str, float] | None) -> str | None:
    """Return SkyPilot's accelerators as a text such as ``A100:1``; None for none."""
    return ", ".join(f"{name}:{count:g}" for name, count in (accelerators or {}).items()) or None


def _date_of(clouds: Collection[str], catalogued: dict[str, Path]) -> date | None:
    times = [catalogued[name].stat().st_mtime for name in clouds if name in catalogued]
    return datetime.fromtimestamp(min(times), UTC).date() if times else None


def _why_none(
    task: Any,
    asked: Collection[str],
    problems: Mapping[str, str],
    catalogued: Mapping[str, Path],
) -> str:
    wanted = "; ".join(sorted(str(resources) for resources in task.resources))
    if not asked:
        # Mostly all clouds have the same one.
        reasons = {text.partition(": ")[2]: None for text in problems.values()}
        return (
            f"no price catalogue in {catalogue_directory()} for {wanted}, and none can be fetched "
            f"({'; '.join(reasons) or 'no cloud that it may run on has one'}); where there is a "
            "network, the same command fetches it"
        )
    if problems:
        return f"no price for {wanted}: {'; '.join(problems.values())}"
    here = [shlex.quote(str(catalogued[name])) for name in sorted(asked) if name in catalogued]
    return (
        f"no machine with a price in the catalogues of {', '.join(sorted(asked))} is {wanted}; "
        "give another --infra, --gpus or profile, or have newer prices fetched: "
        f"rm {' '.join(here)}"
    )


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
    listed: Mapping[str, float] = answer_of(provider, teller)
    return {kind: price_usd for kind, price_usd in listed.items() if 0 < price_usd < inf}


def with_told_prices(prices: PriceList) -> PriceList:
    """Return offers at the prices that the providers tell, the cheapest first again.

    A provider that does not answer keeps the catalogue's prices, with the problem.
    """
    told: dict[str, Mapping[str, float]] = {}
    problems: list[str] = []
    for provider in sorted({offer.cloud for offer in prices.offers}):
        try:
            told[provider] = told_prices_usd(provider)
        except CloudError as error:
            problems.append(f"{provider} itself ({error}); the catalogue's count")
    offers = [_at_told_price(offer, told.get(offer.cloud, {})) for offer in prices.offers]
    offers.sort(key=lambda offer: offer.hourly_price_usd)
    changes = {"offers": tuple(offers), "problems": (*prices.problems, *problems)}
    return prices.model_copy(update=changes)


def at_told_price(machines: RentedMachines) -> RentedMachines:
    """Return rented machines at the price that their provider tells, where it does.

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
