"""Prices of machines: orders checked and quoted, and facts noted when they are hired."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from skymark.cloud.cost.bill import billed_time, set_up_time
from skymark.cloud.cost.limits import Limits, as_given, check_ceiling
from skymark.cloud.cost.quote import Offer, Quote, quote_for, with_slots, workers_of
from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import HiredMachines, hired, note_hired
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.lifecycle.user_jobs import handle_of
from skymark.cloud.order import Order, limit_s
from skymark.cloud.shared_jobs import Cards, SlotJob, group_bytes, slot_jobs, working_cards
from skymark.cloud.sky.catalogue import (
    OWN_CLUSTERS,
    SkyPilotCatalogue,
    at_told_price,
    gpu_bytes,
    with_told_prices,
)
from skymark.cloud.sky.clusters import hired_machines, hourly_price_usd
from skymark.cloud.sky.internals import withhold_provider_keys
from skymark.cloud.sky.providers import enabled_clouds
from skymark.cloud.sky.tasks import make_task
from skymark.cloud.stores import secrets_for
from skymark.model.duration import NOTHING
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.rundir.history import PastRun, read_history
from skymark.suite.registry import suite_named


class Slots(NamedTuple):
    """Workers that share the GPUs of a machine."""

    working: int
    """GPUs that have one; 0 where the machine has none."""
    workers: int


def quote_order(
    order: Order,
    plan: Plan,
    results: Path,
    variables: Mapping[str, str],
    parts: Collection[int] | None = None,
) -> Quoted:
    """Check an order and price it; hires nothing.

    Args:
        order: the machine, the run and its limits.
        plan: the cells that run there.
        results: directory of earlier runs, which tell how long cells take.
        variables: the caller's, for secrets.
        parts: of the plan, each a job on a machine of its own; price and ceiling are of all of
            them, the limit in time is of each. None for one job.

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
        stays=order.keep,
        split=order.sharing,
        parts=parts,
    )
    quote = with_told_prices(by_catalogue)
    if order.idle:
        duration = quote.duration.model_copy(update={"running": NOTHING})
        quote = quote.model_copy(update={"duration": duration, "workers": None})
    allowed = _allowed(quote, order.max_cost_usd)
    around_s = quote.duration.provisioning.high_s + quote.duration.ending.high_s
    hourly_usd = max(one.hourly_price_usd for one in allowed) * quote.num_nodes
    seconds = limit_s(order, hourly_usd, around_s)
    highest_usd = None if order.max_cost_usd is None else _highest_for_skypilot(allowed)
    secrets = secrets_for(plan, order.stores, variables)
    return Quoted(order, plan, secrets, seconds, quote, highest_usd)


def quote_there(
    order: Order,
    plan: Plan,
    history: Sequence[PastRun],
    machine: Offer | None,
    slots: Slots | None = None,
) -> Quoted:
    """Price a run on a machine that is there, until that ends itself; its secrets are to come.

    The ceiling limits the time: what is not measured when it is used up is left over.

    Args:
        order: of the run, with its limits.
        plan: its cells.
        history: earlier runs.
        machine: of `machine_there`; None where its price is not known.
        slots: workers that share its GPUs; None for one job.

    Raises:
        GateError: the run is expected to cost more than the ceiling.
    """
    if machine is None:
        return Quoted(order, plan, {}, order.deadline_s)
    set_up = NOTHING.model_copy(update={"high_s": set_up_time(plan).high_s})  # of new venvs
    duration = billed_time(plan, set_up, history, order.sharing, order.idle_minutes, stays=True)
    quote = Quote(
        profile=plan.profile,
        num_nodes=order.num_nodes,
        deadline_s=None,
        offers=(machine,),
        duration=duration.model_copy(update={"provisioning": NOTHING}),
        catalogue_date=None,
        workers=workers_of(plan, machine),
        cluster=order.cluster,
        ceiling_ends_it=True,
    )
    if slots is not None:
        quote = with_slots(quote, plan, history, *slots)
    seconds = limit_s(
        order, machine.hourly_price_usd * order.num_nodes, quote.duration.ending.high_s
    )
    if order.max_cost_usd is not None:
        check_ceiling(quote.model_copy(update={"deadline_s": order.deadline_s}), order.max_cost_usd)
    quote = quote.model_copy(update={"deadline_s": seconds})
    return Quoted(order, plan, {}, seconds, quote)


def cards_of_offer(machine: Offer) -> Cards | None:
    """Return the GPUs of a machine that is to be had; None where it has none."""
    kind, count = machine.gpus
    if not count:
        return None
    return Cards(kind=kind, count=count, bytes_each=gpu_bytes(kind, machine.cloud))


def slots_on(plan: Plan, machine: Offer) -> Slots | None:
    """Return the workers of `submit` that use all GPUs of a machine; None where one process does.

    Raises:
        UsageError: a group fits on no GPU.
    """
    alone = machine.gpus[1] < 2 or plan.platform == "cpu" or not plan.runnable
    if alone or not suite_named(plan.suite).shares_machine:
        return None
    cards = cards_of_offer(machine)
    assert cards is not None, "it has two GPUs or more"
    return slots_of(slot_jobs(group_bytes(plan), cards), cards)


def slots_of(jobs: Sequence[SlotJob], cards: Cards | None) -> Slots:
    """Return the workers of jobs on a machine's GPUs."""
    working = 0 if cards is None else working_cards(jobs, cards)
    return Slots(working, sum(job.slots for job in jobs))


def ceiling_there(order: Order, given_usd: float | None, limits: Limits) -> float | None:
    """Return the ceiling of a run on a machine that is there.

    Args:
        order: of the machine.
        given_usd: of the command line; else the profile's counts, or the machine's if it is higher.
        limits: of the profile.
    """
    known = [usd for usd in (order.max_cost_usd, limits.max_cost_usd) if usd is not None]
    return given_usd if given_usd is not None else max(known, default=None)


def machine_there(cluster: str, max_cost_usd: float | None = None) -> Offer | None:
    """Return a machine that is there, at the price that it was hired at; None if that is unknown.

    Args:
        cluster: its name.
        max_cost_usd: a ceiling that was asked for, which needs a price.

    Raises:
        UsageError: there is none, or no price for the ceiling.
        CloudError: SkyPilot does not answer.
    """
    handle = handle_of(cluster)
    launched, noted = handle.launched_resources, hired(cluster)
    cloud = str(launched.cloud).casefold()
    own = cloud in OWN_CLUSTERS
    usd = hourly_price_usd(handle)
    if noted is not None and noted.hourly_price_usd is not None:
        usd = noted.hourly_price_usd
    if usd is None and not own:
        if max_cost_usd is not None:
            raise UsageError(
                f"the price of {cluster} is not known, so --max-cost {as_given(max_cost_usd)} "
                "cannot be kept; give --deadline in its place"
            )
        return None
    told = noted is not None and noted.price_from == "provider"
    return Offer(
        cloud=cloud,
        region=launched.region,
        instance_type=launched.instance_type or "own machine",
        accelerators=", ".join(
            f"{kind}:{count:g}" for kind, count in (launched.accelerators or {}).items()
        )
        or None,
        spot=bool(launched.use_spot),
        hourly_price_usd=0.0 if usd is None else usd / int(handle.launched_nodes),
        price_from="own" if own else "provider" if told else "catalogue",
    )


def _allowed(quote: Quote, max_cost_usd: float | None) -> list[Offer]:
    """Return the offers below a ceiling; all of them where there is none.

    Raises:
        GateError: the cheapest may cost more than the ceiling.
    """
    if max_cost_usd is None:
        return list(quote.offers)
    check_ceiling(quote, max_cost_usd)
    return [one for one in quote.offers if quote.allows(one.hourly_price_usd, max_cost_usd)]


def _highest_for_skypilot(offers: Sequence[Offer]) -> float | None:
    """Return the price per hour of the dearest offer as SkyPilot has it; None for no limit."""
    most_usd = max(
        one.hourly_price_usd if one.catalogue_price_usd is None else one.catalogue_price_usd
        for one in offers
    )
    return most_usd or None  # your own cluster costs nothing; SkyPilot takes no 0


TOLERANCE = 0.1
"""Share by which a price may be above what was agreed."""


def ordered_machines(quoted: Quoted) -> HiredMachines:
    """Return what is known of machines before they are hired: the price of the cheapest offer."""
    order, quote = quoted.order, quoted.quote
    name = order.cluster
    if quote is None:
        return HiredMachines(name=name, cluster=name, nodes=order.num_nodes)
    cheapest = quote.cheapest
    return HiredMachines(
        name=name,
        cluster=name,
        kind=f"{order.num_nodes} × {cheapest.instance_type} of {cheapest.cloud} or the like",
        nodes=order.num_nodes,
        hourly_price_usd=cheapest.hourly_price_usd * order.num_nodes or None,
    )


def note_machines(quoted: Quoted, cluster: str) -> HiredMachines:
    """Note machines that were hired, at the price that their provider tells; return their facts.

    Args:
        quoted: what was agreed on.
        cluster: their name with SkyPilot.
    """
    machines = ordered_machines(quoted)
    with suppress(CloudError):  # else they are asked for again when they are ended
        found = hired_machines(cluster, machines.name)
        machines = machines if found is None else found.with_what_was_told(machines)
        note_hired(machines)
        machines = at_told_price(machines)
        note_hired(machines)
    return machines


def check_price(quoted: Quoted, machines: HiredMachines) -> None:
    """Refuse machines that cost more than was agreed, or were no part of what was.

    SkyPilot takes a catalogue's price of 0 for the cheapest; in the quote it is none.

    Raises:
        CloudError: they do, or were not.
    """
    quote, kind = quoted.quote, machines.instance_type
    if quote is None or kind is None or quote.cheapest.price_from == "own":
        return
    each_usd = quote.agreed_price_usd(kind, quoted.order.max_cost_usd)
    if each_usd is None:
        raise CloudError(
            f"{machines.name} is {machines.kind}, at a price that was not agreed on; it is ended"
        )
    asked_usd, agreed_usd = machines.hourly_price_usd, each_usd * machines.nodes
    if asked_usd is None or asked_usd <= agreed_usd:
        return
    ceiling_usd = quoted.order.max_cost_usd
    held = ceiling_usd is None or quote.allows(asked_usd / machines.nodes, ceiling_usd)
    if not held or asked_usd > agreed_usd * (1 + TOLERANCE):
        raise CloudError(
            f"{machines.name} costs ${asked_usd:.2f}/h, says its provider, and at most "
            f"${agreed_usd:.2f}/h was agreed on; it is ended"
        )
