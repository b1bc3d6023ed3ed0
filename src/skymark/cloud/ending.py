"""End a machine, and ask until it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from skymark.cloud.errors import CloudError, StillBillingError
from skymark.cloud.known_machines import forget
from skymark.cloud.skypilot import ask, sdk
from skymark.model.errors import UsageError

GONE_TIMEOUT_S = 300.0
ATTEMPTS = 5
PAUSE_S = 5.0
"""Before what failed is tried again."""
POLL_S = 1.0

Say = Callable[[str], None]


def end(
    cluster: str, say: Say, record: Any | None = None, timeout_s: float = GONE_TIMEOUT_S
) -> float:
    """End a cluster's machines, and return when the provider has none of them running.

    SkyPilot asks the provider for the machines after it has ended them; its record of the cluster
    goes when none is left, and so does what was written down here of the order.

    Args:
        cluster: its name; no error if there is none.
        say: told what happens.
        record: of `find`, where the caller has it.
        timeout_s: how long the provider may take.

    Returns:
        Seconds that it took.

    Raises:
        StillBillingError: a machine is still there; the message has its id and price.
    """
    began = time.monotonic()
    known = describe(record or find(cluster, refresh=False))
    problem = "it did not end in time"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with suppress(UsageError):  # there is none, which the next step proves
                ask(lambda sky: sky.down(cluster))
            gone = _gone(cluster, began + timeout_s)
        except CloudError as error:
            problem = str(error)
            say(f"{cluster} did not end ({problem}); attempt {attempt} of {ATTEMPTS}")
            time.sleep(PAUSE_S)
            continue
        if gone:
            forget(cluster)
            took_s = time.monotonic() - began
            say(f"{cluster} is gone: the provider has no machine of it left ({took_s:.0f} s)")
            return took_s
    raise StillBillingError(
        f"{cluster} IS STILL THERE AND COSTS MONEY: {known}. {problem}. Try `skymark down "
        f"{cluster}` again, or end it on the provider's own page"
    )


def find(cluster: str, *, refresh: bool) -> Any | None:
    """Return SkyPilot's record of a cluster, or None.

    Args:
        cluster: its name.
        refresh: ask the provider, instead of telling what was known last.
    """
    modes = sdk().StatusRefreshMode
    mode = modes.FORCE if refresh else modes.NONE
    found = ask(lambda sky: sky.status([cluster], refresh=mode))
    return found[0] if found else None


def describe(record: Any | None) -> str:
    """Return what is known of a cluster's machines: ids, kind and price per hour."""
    if record is None:
        return "a machine that SkyPilot does not know"
    price = hourly_price_usd(record["handle"])
    cost = "of unknown price" if price is None else f"at ${price:.2f}/h"
    return f"{record['node_names'] or record['cluster_name_on_cloud']}, {cost}"


def hourly_price_usd(handle: Any) -> float | None:
    """Return what all machines of a cluster cost per hour; None where that is not known."""
    resources = getattr(handle, "launched_resources", None)
    if resources is None or not resources.is_launchable():
        return None
    return float(resources.get_cost(3600)) * int(handle.launched_nodes)


def _gone(cluster: str, deadline: float) -> bool:
    """Whether the provider has none of a cluster's machines; waits for those on their way out."""
    sky = sdk()
    while (record := find(cluster, refresh=True)) is not None:
        up = record["status"] in {sky.ClusterStatus.UP, sky.ClusterStatus.INIT}
        if up or time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
