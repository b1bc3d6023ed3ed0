"""Keep a cluster whose results are verified nowhere else, until its idle timer ends it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cloud.cost.bill import bill_of_last
from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.known_machines import hired
from skymark.cloud.lifecycle.stages import Kept, Retrieved
from skymark.cloud.machine_timer import IDLE_FILE, MARGIN_S, TIMER, idle_setting
from skymark.cloud.order import IDLE_MINUTES, Order
from skymark.cloud.sky.clusters import costs_of, set_idle_timer
from skymark.cloud.sky.ssh import send
from skymark.model.errors import SkymarkError

LATE_MINUTES = MARGIN_S / 60 + 1
"""That a machine's own timer is behind SkyPilot's, and the time until it looks and ends it."""


def keep_cluster(retrieved: Retrieved) -> Kept:
    """Leave a cluster to its idle timer.

    One that was to wait for less than `IDLE_MINUTES`, because its results were to be in a store,
    waits so long now, or as long as its ceiling has room for.
    """
    order = retrieved.finished.order
    minutes, machines = order.idle_minutes, hired(order.cluster)
    with suppress(SkymarkError):  # an API server that is away is no reason to end it
        longer = min(IDLE_MINUTES, _affordable_minutes(order, machines))
        if longer > minutes:
            _set_own_timer(order, longer)
            set_idle_timer(order.cluster, longer)
            minutes = longer
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)


def _affordable_minutes(order: Order, machines: HiredMachines | None) -> int:
    """Return the idle minutes that a ceiling has room for, less those until timers look.

    Raises:
        CloudError: SkyPilot does not tell what the cluster has cost so far.
    """
    if order.max_cost_usd is None:
        return IDLE_MINUTES
    bill = bill_of_last(costs_of(order.cluster), machines)
    if bill is None or bill.price_usd is None or not bill.hourly_price_usd:
        return 0
    left_usd = order.max_cost_usd - bill.price_usd
    return int(left_usd / bill.hourly_price_usd * 60 - LATE_MINUTES)


def _set_own_timer(order: Order, minutes: int) -> None:
    """Have the timer of each node, which is not SkyPilot's, wait so long from now.

    Raises:
        UnreachableError: a node does not answer.
    """
    with TemporaryDirectory() as place:
        file = Path(place, IDLE_FILE)
        file.write_text(idle_setting(minutes))
        try:
            send(order.cluster, order.num_nodes, file, f"{TIMER}/{IDLE_FILE}")
        except UnreachableError:
            raise
        except CloudError:  # a cluster of one's own has none
            return
