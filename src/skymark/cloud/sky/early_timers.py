"""Arm the timers of machines from here, while SkyPilot still prepares them."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from skymark.cloud.order import Order
from skymark.cloud.sky.internals import (
    is_api_server_here,
    local_handle,
    run_on_nodes,
    runs_in_container,
)
from skymark.cloud.sky.tasks import arm_timer

POLL_S = 3.0


class EarlyTimers:
    """Arms each node's timer as soon as it answers over SSH, in a thread, until left.

    It needs SkyPilot's API server on this machine, for the addresses. In a container's place the
    timer would be the host's, which does not see the run: there it is armed with the job alone.

    Args:
        order: names the cluster; its boot time is what the run has to begin.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._over = threading.Event()
        self.armed: set[str] = set()
        """Addresses of the nodes whose timers are armed."""

    def __enter__(self) -> Self:
        if is_api_server_here():
            threading.Thread(target=self._arm, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()

    def _arm(self) -> None:
        script = arm_timer(self._order, self._order.boot_timeout_s)
        while not self._over.wait(POLL_S):
            try:
                handle = local_handle(self._order.cluster)
                if handle is None:
                    continue
                if runs_in_container(handle) or run_on_nodes(handle, script, self.armed):
                    return
            except Exception:  # noqa: S112  # no launch fails because a timer comes later
                continue
