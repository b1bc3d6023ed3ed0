"""The facts of machines, noted when they are hired, with the price that they were agreed at."""

from __future__ import annotations

from contextlib import suppress

from skymark.cloud.errors import CloudError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.known_machines import note_hired
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.sky.hired import hired_machines
from skymark.cloud.sky.told_prices import at_told_price

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
