"""End a machine or a managed job, and prove that it is gone."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from skymark.cloud.errors import CloudError, StillBillingError
from skymark.cloud.known_machines import forget
from skymark.cloud.lifecycle.screen import Say
from skymark.cloud.sky.client import sky_program
from skymark.cloud.sky.clusters import describe_cluster, end_cluster, find_cluster, is_up
from skymark.cloud.sky.managed_jobs import ManagedJob
from skymark.model.errors import UsageError

GONE_TIMEOUT_S = 300.0
ATTEMPTS = 5
PAUSE_S = 5.0
"""Before what failed is tried again."""
POLL_S = 1.0
LOOK_S = 15.0
"""Between two looks at a managed job: as often as SkyPilot itself looks, and each costs seconds of
CPU."""


def prove_gone(
    cluster: str, say: Say, record: Any | None = None, timeout_s: float = GONE_TIMEOUT_S
) -> float:
    """End a cluster's machines; returns when the provider has none of them running.

    SkyPilot asks the provider for the machines after it has ended them; its record of the cluster
    goes when none is left, and so does the order that is kept here.

    Args:
        cluster: its name; no error if there is none.
        say: told what happens.
        record: of `find_cluster`, where the caller has it.
        timeout_s: how long the provider may take.

    Returns:
        Seconds that it took.

    Raises:
        StillBillingError: a machine is still there; the message has its id and price.
    """
    began = time.monotonic()
    known = describe_cluster(record or find_cluster(cluster, refresh=False))
    problem = "it did not end in time"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with suppress(UsageError):  # there is none, which the next step proves
                end_cluster(cluster)
            gone = _is_gone(cluster, began + timeout_s)
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


def prove_job_gone(job: ManagedJob, say: Say, timeout_s: float = GONE_TIMEOUT_S) -> float:
    """End a managed job; returns when the provider has no machine of it, with the seconds it took.

    SkyPilot asks the provider for the machine after it has ended it, and forgets it only then.

    Raises:
        StillBillingError: the machine is still there; the message says how to end it.
    """
    began = time.monotonic()
    problem = "it did not end in time"
    while time.monotonic() - began < timeout_s:
        try:
            if job.end() and all(one.ended for one in job.machines()):
                forget(job.name)
                took_s = time.monotonic() - began
                say(f"{job.name} is gone: the provider has no machine of it left ({took_s:.0f} s)")
                return took_s
        except CloudError as error:
            problem = str(error)
            say(f"{job.name} did not end ({problem}); trying again")
        time.sleep(LOOK_S)
    raise StillBillingError(
        f"{job.name} IS STILL THERE AND COSTS MONEY. {problem}. Try `skymark down {job.name}` "
        f"again, then `{sky_program()} down {job.machine}`, or end it on the provider's own page"
    )


def _is_gone(cluster: str, deadline: float) -> bool:
    """Whether the provider has none of a cluster's machines; waits for those on their way out."""
    while (record := find_cluster(cluster, refresh=True)) is not None:
        if is_up(record) or time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
