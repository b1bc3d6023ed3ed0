"""Keep a cluster whose results are verified nowhere else, until its idle timer ends it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.known_machines import hired
from skymark.cloud.lifecycle.stages import Kept, Retrieved
from skymark.cloud.machine_timer import IDLE_FILE, TIMER, idle_setting
from skymark.cloud.order import IDLE_MINUTES, Order
from skymark.cloud.sky.clusters import set_idle_timer
from skymark.cloud.sky.ssh import send
from skymark.model.errors import SkymarkError


def keep_cluster(retrieved: Retrieved) -> Kept:
    """Leave a cluster to its idle timer.

    One that was to wait for less than `IDLE_MINUTES`, because its results were to be in a store,
    waits so long now, unless what it may cost was limited.
    """
    order = retrieved.finished.order
    minutes, machines = order.idle_minutes, hired(order.cluster)
    if minutes < IDLE_MINUTES and order.max_cost_usd is None:
        with suppress(SkymarkError):  # an API server that is away is no reason to end it
            _set_own_timer(order, IDLE_MINUTES)
            set_idle_timer(order.cluster, IDLE_MINUTES)
            minutes = IDLE_MINUTES
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)


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
