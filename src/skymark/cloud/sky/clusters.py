"""Clusters: SkyPilot's records of them, and their provider's own list of machines."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from skymark.cloud.cost.bill import MachineCost
from skymark.cloud.known_machines import ProviderAddress, RentedMachines
from skymark.cloud.sky.client import answer_of, ask, explained, sdk
from skymark.cloud.sky.internals import (
    instance_ids,
    is_api_server_here,
    local_handle,
    provider_ends,
    provider_lists,
    provider_of,
)
from skymark.model.base import Frozen
from skymark.model.errors import CloudError, NoMachineError

PROFILE_VARIABLE = "SKYMARK_PROFILE"
LAUNCH = "sky.launch"
"""Name of a launch among the API server's requests."""


class LiveMachine(Frozen):
    """A cluster or a managed job that is there, whatever its state."""

    name: str
    status: str
    machine: str
    nodes: int
    launched_at: datetime | None
    idle_minutes: int | None
    """Minutes without a job after which it ends; None where no timer is set."""
    hourly_price_usd: float | None
    cost_usd: float | None
    """So far."""


def find_cluster(cluster: str, *, refresh: bool) -> Any | None:
    """Return SkyPilot's record of a cluster, or None.

    Args:
        cluster: its name.
        refresh: ask the provider, instead of telling what was known last.
    """
    records = ask(lambda sky: sky.status([cluster], refresh=_mode(refresh=refresh)))
    return records[0] if records else None


def names_in_use() -> set[str]:
    """Return the names of the clusters of all clients of the API server, those on the way too."""
    sky = sdk()
    records = ask(lambda sky: sky.status(refresh=_mode(refresh=False), all_users=True))
    with explained("the requests of SkyPilot's API server"):
        launches = [launch for launch in sky.api_status() if launch.name == LAUNCH]
    return {record["name"] for record in records} | {launch.cluster_name for launch in launches}


def has_earlier_launch(cluster: str, asked: Any) -> bool:
    """Return whether an unfinished launch of a cluster by another client came before ours.

    SkyPilot gives the later launch of a name no machine, but a job on the earlier launch's machine.

    Args:
        cluster: its name.
        asked: our request.
    """
    sky = sdk()
    with explained(f"the requests for {cluster}"):
        requests = sky.api_status(cluster_name=cluster)
    launches = {
        str(request.request_id): request.created_at
        for request in requests
        if request.name == LAUNCH and request.cluster_name == cluster
    }
    ours = launches.pop(str(asked), None)
    return ours is not None and any(
        (at, name) < (ours, str(asked)) for name, at in launches.items()
    )


def record_of(cluster: str) -> Any:
    """Return SkyPilot's record of a cluster that is up.

    Raises:
        UsageError: there is none.
        CloudError: it is not up yet, or SkyPilot does not answer.
    """
    record = find_cluster(cluster, refresh=False)
    if record is None or record["handle"] is None:
        raise NoMachineError(cluster)
    if record["handle"].launched_resources is None:
        raise CloudError(f"{cluster} is not up yet")
    return record


def handle_of(cluster: str) -> Any:
    """Return SkyPilot's handle of a cluster that is up; raises as `record_of` does."""
    return record_of(cluster)["handle"]


def profile_of(record: Any) -> str | None:
    """Return the profile that a cluster's YAML names; None where it is no YAML of skymark's.

    Args:
        record: of `find_cluster`.
    """
    import yaml  # SkyPilot's own; nothing else here needs it

    read = yaml.safe_load(record["last_creation_yaml"] or "") or {}
    profile = (read.get("envs") or {}).get(PROFILE_VARIABLE)
    return str(profile) if profile else None


def is_there(cluster: str) -> bool:
    """Whether SkyPilot has a record of a cluster; also where it does not answer."""
    try:
        return find_cluster(cluster, refresh=False) is not None
    except CloudError:
        return True


def live_clusters(*, refresh: bool) -> list[LiveMachine]:
    """Return every cluster that is there."""
    return [_live(record) for record in ask(lambda sky: sky.status(refresh=_mode(refresh=refresh)))]


def is_up(record: Any) -> bool:
    """Return whether a cluster has machines without a request to end."""
    statuses = sdk().ClusterStatus
    return record["status"] in {statuses.UP, statuses.INIT}


def hourly_price_usd(handle: Any) -> float | None:
    """Return the price per hour of all machines of a cluster; None if it is unknown.

    A price of 0 in the catalogue means unknown.
    """
    resources = getattr(handle, "launched_resources", None)
    if resources is None or not resources.is_launchable():
        return None
    return float(resources.get_cost(3600)) * int(handle.launched_nodes) or None


def end_cluster(cluster: str) -> None:
    """Tell SkyPilot to end a cluster; that it has ended is for `find_cluster` to prove.

    Raises:
        UsageError: there is none.
        CloudError: it failed.
    """
    ask(lambda sky: sky.down(cluster))


def set_idle_timer(cluster: str, minutes: int) -> None:
    """Let a cluster end itself after a number of minutes without a job.

    Raises:
        UsageError: the cluster does not exist.
        CloudError: it failed.
    """
    ask(lambda sky: sky.autostop(cluster, minutes, down=True))


def costs_of(cluster: str) -> list[MachineCost]:
    """Return the costs of all clusters that had a name, as SkyPilot's cost report has them."""
    return [
        MachineCost(
            launched_at_s=float(cost["launched_at"] or 0),
            seconds=float(cost["duration"] or 0),
            price_usd=float(cost["total_cost"] or 0) or None,
            ended=cost["status"] is None,
        )
        for cost in ask(lambda sky: sky.cost_report())
        if cost["name"] == cluster
    ]


def rented_machines(cluster: str, name: str | None = None) -> RentedMachines | None:
    """Return what SkyPilot knows of a cluster's machines; None where it knows no such cluster.

    Args:
        cluster: its name with SkyPilot.
        name: of the managed job whose machines they are.

    Raises:
        CloudError: SkyPilot does not answer.
    """
    here = is_api_server_here()
    if here:
        with explained(f"SkyPilot's record of {cluster}"):
            handle = local_handle(cluster)
    else:
        record = find_cluster(cluster, refresh=False)
        handle = None if record is None else record["handle"]
    if handle is None:
        return None
    with explained(f"SkyPilot's record of {cluster}"):
        return RentedMachines(
            name=name or cluster,
            cluster=cluster,
            ids=instance_ids(handle),
            kind=_kind(handle),
            instance_type=handle.launched_resources.instance_type,
            nodes=int(handle.launched_nodes),
            spot=bool(handle.launched_resources.use_spot),
            hourly_price_usd=hourly_price_usd(handle),
            address=_address(handle) if here else None,
        )


def running_machines(cluster: str) -> int | None:
    """Return how many of a cluster's machines run, as its provider says; None where it does not."""
    try:
        machines = rented_machines(cluster)
        provider = ProviderList()
        if machines is None or not provider.can_be_asked(machines):
            return None
        return sum(provider.look(machines).values())
    except CloudError:
        return None


class ProviderList:
    """A provider's own list of machines."""

    def can_be_asked(self, machines: RentedMachines) -> bool:
        """Whether the credentials and the address are here, with SkyPilot's API server."""
        return machines.address is not None and is_api_server_here()

    def look(self, machines: RentedMachines) -> Mapping[str, bool]:
        """Return whether each machine that is listed runs, by its id.

        Raises:
            CloudError: there was no answer.
        """
        address = _address_of(machines)
        listed: Mapping[str, bool] = answer_of(
            address.provider,
            lambda: provider_lists(
                address.provider, machines.cluster, address.name, address.settings
            ),
        )
        return listed

    def end(self, machines: RentedMachines) -> None:
        """Tell the provider itself to end the machines.

        Raises:
            CloudError: it did not take the order.
        """
        address = _address_of(machines)
        answer_of(
            address.provider,
            lambda: provider_ends(address.provider, address.name, address.settings),
        )


def _mode(*, refresh: bool) -> Any:
    modes = sdk().StatusRefreshMode
    return modes.FORCE if refresh else modes.NONE


def _live(record: Any) -> LiveMachine:
    hourly_usd = hourly_price_usd(record["handle"])
    launched = record["launched_at"]
    cost_usd = None
    if hourly_usd is not None and launched is not None:
        # The moment is one of the server's clock, and ours may have been set back.
        cost_usd = hourly_usd * max(0.0, time.time() - launched) / 3600
    minutes = record["autostop"]
    return LiveMachine(
        name=record["name"],
        status=record["status"].value,
        machine=str(record["resources_str"]),
        nodes=record["nodes"],
        launched_at=None if launched is None else datetime.fromtimestamp(launched, UTC),
        idle_minutes=minutes if minutes is not None and minutes >= 0 else None,
        hourly_price_usd=hourly_usd,
        cost_usd=cost_usd,
    )


def _address_of(machines: RentedMachines) -> ProviderAddress:
    assert machines.address is not None, "the provider of these machines cannot be asked"
    return machines.address


def _kind(handle: Any) -> str:
    resources = handle.launched_resources
    place = "/".join(str(part) for part in (resources.cloud, resources.region) if part is not None)
    kind = f"{handle.launched_nodes} × {resources.instance_type or 'machine'} of {place.casefold()}"
    return f"{kind}, spot" if resources.use_spot else kind


def _address(handle: Any) -> ProviderAddress | None:
    named = provider_of(handle)
    if named is None:
        return None
    provider, settings = named
    plain = json.loads(json.dumps(settings, default=str))
    return ProviderAddress(provider=provider, name=handle.cluster_name_on_cloud, settings=plain)
