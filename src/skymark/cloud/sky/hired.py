"""Facts of hired machines, and their provider's own list of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skymark.cloud.errors import CloudError
from skymark.cloud.hired_machines import HiredMachines, ProviderAddress
from skymark.cloud.sky.client import answer_of, explained
from skymark.cloud.sky.clusters import find_cluster, hourly_price_usd
from skymark.cloud.sky.internals import (
    instance_ids,
    is_api_server_here,
    local_handle,
    provider_ends,
    provider_lists,
    provider_of,
)


def hired_machines(cluster: str, name: str | None = None) -> HiredMachines | None:
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
        return HiredMachines(
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
        machines = hired_machines(cluster)
        provider = ProviderList()
        if machines is None or not provider.can_be_asked(machines):
            return None
        return sum(provider.look(machines).values())
    except CloudError:
        return None


class ProviderList:
    """A provider's own list of machines. Implements `skymark.cloud.lifecycle.ending.Provider`."""

    def can_be_asked(self, machines: HiredMachines) -> bool:
        """Whether the credentials and the address are here, with SkyPilot's API server."""
        return machines.address is not None and is_api_server_here()

    def look(self, machines: HiredMachines) -> Mapping[str, bool]:
        """Return whether each machine that is listed runs, by its id.

        Raises:
            CloudError: there was no answer.
        """
        one = _address_of(machines)
        found: Mapping[str, bool] = answer_of(
            one.provider,
            lambda: provider_lists(one.provider, machines.cluster, one.name, one.settings),
        )
        return found

    def end(self, machines: HiredMachines) -> None:
        """Tell the provider itself to end the machines.

        Raises:
            CloudError: it did not take the order.
        """
        one = _address_of(machines)
        answer_of(one.provider, lambda: provider_ends(one.provider, one.name, one.settings))


def _address_of(machines: HiredMachines) -> ProviderAddress:
    assert machines.address is not None, "the provider of these machines cannot be asked"
    return machines.address


def _kind(handle: Any) -> str:
    resources = handle.launched_resources
    place = "/".join(str(one) for one in (resources.cloud, resources.region) if one is not None)
    kind = f"{handle.launched_nodes} × {resources.instance_type or 'machine'} of {place.casefold()}"
    return f"{kind}, spot" if resources.use_spot else kind


def _address(handle: Any) -> ProviderAddress | None:
    found = provider_of(handle)
    if found is None:
        return None
    provider, settings = found
    plain = json.loads(json.dumps(settings, default=str))
    return ProviderAddress(provider=provider, name=handle.cluster_name_on_cloud, settings=plain)
