"""Arm the timers of machines from here, while SkyPilot still prepares them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from skymark.cloud.order import Order
from skymark.cloud.sky.internals import (
    is_api_server_here,
    local_handle,
    run_on_nodes,
    runs_in_container,
)
from skymark.cloud.sky.tasks import arm_timer

POLL_S = 3.0


@contextmanager
def early_timers(order: Order) -> Iterator[None]:
    """Arm each node's timer as soon as it answers over SSH, in a thread, until left.

    It needs SkyPilot's API server on this machine, for the addresses. In a container's place the
    timer would be the host's, which does not see the run: there it is armed with the job alone.

    Args:
        order: names the cluster; its boot time is what the run has to begin.
    """
    over = threading.Event()
    if is_api_server_here():
        threading.Thread(target=_arm, args=(order, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _arm(order: Order, over: threading.Event) -> None:
    script = arm_timer(order, order.boot_timeout_s)
    armed: set[str] = set()
    while not over.wait(POLL_S):
        try:
            handle = local_handle(order.cluster)
            if handle is None:
                continue
            if runs_in_container(handle) or run_on_nodes(handle, script, armed):
                return
        except Exception:  # noqa: S112  # no launch fails because a timer comes later
            continue
