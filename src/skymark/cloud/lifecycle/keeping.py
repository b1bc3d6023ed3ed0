"""Keep a cluster whose results are verified nowhere else, until its idle timer ends it."""

from __future__ import annotations

from contextlib import suppress

from skymark.cloud.known_machines import hired
from skymark.cloud.lifecycle.stages import Kept, Retrieved
from skymark.cloud.order import IDLE_MINUTES
from skymark.cloud.sky.clusters import set_idle_timer
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
            set_idle_timer(order.cluster, IDLE_MINUTES)
            minutes = IDLE_MINUTES
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)
