"""What machines cost: the candidates for a task, from SkyPilot's price catalogue on this disk.

SkyPilot chooses among the same candidates when it launches. No network is asked and no API server:
a catalogue that is out of date is read as it is, with its date.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from math import isnan
from pathlib import Path
from typing import Any

from skymark.cloud.skypilot import sdk, short
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

OWN_CLUSTERS = ("kubernetes", "slurm", "ssh")
"""Clouds that are the user's own machines; SkyPilot knows no price of theirs."""


class CatalogueError(UsageError):
    """There is no price catalogue on this disk, or none that has the machine."""


class Candidate(Frozen):
    """One machine that would do, in one region, at one price."""

    cloud: str
    region: str | None
    """None where the cloud has none, such as a cluster of one's own."""
    instance_type: str
    accelerators: str | None
    """Such as ``A100:1``."""
    spot: bool
    hourly_price_usd: float
    price_from: str = "catalogue"
    """``catalogue``; ``on demand`` where the catalogue has 0 for a spot machine, which is no price;
    ``own`` for a cluster of the user's own, which bills nothing."""


class Offer(Frozen):
    """The machines that would do, the cheapest first, and how old their prices are."""

    candidates: tuple[Candidate, ...]
    catalogue_date: date | None
    """Day on which the oldest of the files was last fetched; None where none was needed."""
    problems: tuple[str, ...] = ()
    """Clouds that could not be asked, and why."""


def offer_for(task: Any, clouds: Collection[str] | None = None) -> Offer:
    """Return the machines that a SkyPilot task can be launched on.

    Args:
        task: a ``sky.Task``; each of its alternatives is asked for.
        clouds: names of the clouds to ask, such as those with credentials; None for every cloud
            whose catalogue is on this disk.

    Raises:
        CatalogueError: there is no catalogue, or it has no such machine.
    """
    sdk()
    found: dict[tuple[str, str | None, str, bool], Candidate] = {}
    problems: dict[str, str] = {}
    asked: set[str] = set()
    with _prices_as_they_lie():
        catalogued = _catalogued()
        for resources in task.resources:
            for cloud in _clouds_of(resources, clouds, catalogued):
                name = str(cloud).casefold()
                asked.add(name)
                try:
                    for one in _candidates(cloud, resources, task.num_nodes):
                        found[one.cloud, one.region, one.instance_type, one.spot] = one
                except Exception as error:  # of a provider's part of SkyPilot: others may do
                    problems[name] = f"{name}: {short(error)}"
    if not found:
        raise CatalogueError(_why_none(task, asked, problems))
    ordered = sorted(found.values(), key=lambda one: (one.hourly_price_usd, one.spot, *_name(one)))
    return Offer(
        candidates=tuple(ordered),
        catalogue_date=_date_of({one.cloud for one in ordered}, catalogued),
        problems=tuple(problems.values()),
    )


def _name(candidate: Candidate) -> tuple[str, str, str]:
    return candidate.cloud, candidate.instance_type, candidate.region or ""


@contextmanager
def _prices_as_they_lie() -> Iterator[None]:
    """Keep SkyPilot from fetching a catalogue that is some hours old.

    It leaves a file alone that the user has changed; for the time being, all count as such.
    """
    from sky.catalog import common

    usual = common.is_catalog_modified
    common.is_catalog_modified = lambda _: True
    try:
        yield
    finally:
        common.is_catalog_modified = usual


def _catalogued() -> dict[str, Path]:
    """Return the catalogue file of every cloud that has one on this disk, by the cloud's name."""
    from sky.catalog import common
    from sky.utils import registry

    root = Path(common.get_catalog_path(""))
    files = {path.parent.name: path for path in sorted(root.glob("*/vms.csv"))}
    # There may be files of clouds that this SkyPilot does not know (any more).
    return {name: path for name, path in files.items() if name in registry.CLOUD_REGISTRY}


def _clouds_of(
    resources: Any, allowed: Collection[str] | None, catalogued: Collection[str]
) -> list[Any]:
    """Return the clouds that one alternative of a task may run on and whose prices are known."""
    from sky.utils import registry

    names = [str(resources.cloud).casefold()] if resources.cloud is not None else sorted(catalogued)
    if allowed is not None:
        names = [name for name in names if name in {one.casefold() for one in allowed}]
    return [
        registry.CLOUD_REGISTRY.from_str(name)
        for name in names
        if name in catalogued or name in OWN_CLUSTERS
    ]


def _candidates(cloud: Any, resources: Any, num_nodes: int) -> Iterator[Candidate]:
    name = str(cloud).casefold()
    accelerators = _in_words(resources.accelerators)
    if name in OWN_CLUSTERS:
        yield Candidate(
            cloud=name,
            region=resources.region,
            instance_type="own machine",
            accelerators=accelerators,
            spot=False,
            hourly_price_usd=0.0,
            price_from="own",
        )
        return
    feasible = cloud.get_feasible_launchable_resources(resources, num_nodes=num_nodes)
    for machine in feasible.resources_list:
        regions = cloud.regions_with_offering(
            machine.instance_type,
            machine.accelerators,
            machine.use_spot,
            machine.region,
            machine.zone,
        )
        for region in regions:
            price_usd, source = _price(machine.copy(region=region.name))
            if price_usd is not None:
                yield Candidate(
                    cloud=name,
                    region=region.name,
                    instance_type=machine.instance_type,
                    accelerators=_in_words(machine.accelerators),
                    spot=machine.use_spot,
                    hourly_price_usd=price_usd,
                    price_from=source,
                )


def _price(machine: Any) -> tuple[float | None, str]:
    """Return a machine's price per hour in USD and where it comes from; None if there is none.

    Vast's catalogue has 0 for what is let to the highest bidder. Nobody lets it for nothing, and
    what is let on demand is the most that one would bid.
    """
    try:
        price_usd = machine.get_cost(3600)
    except ValueError:  # not sold in this region
        return None, ""
    if price_usd == 0 and machine.use_spot:
        on_demand_usd, _ = _price(machine.copy(use_spot=False))
        return on_demand_usd, "on demand"
    if isnan(price_usd) or price_usd <= 0:
        return None, ""
    return round(price_usd, 6), "catalogue"


def _in_words(accelerators: dict[str, float] | None) -> str | None:
    if not accelerators:
        return None
    return ", ".join(f"{name}:{count:g}" for name, count in accelerators.items())


def _date_of(clouds: Collection[str], catalogued: dict[str, Path]) -> date | None:
    times = [catalogued[name].stat().st_mtime for name in clouds if name in catalogued]
    return datetime.fromtimestamp(min(times), UTC).date() if times else None


def _why_none(task: Any, asked: Collection[str], problems: dict[str, str]) -> str:
    from sky.catalog import common

    wanted = "; ".join(sorted(str(resources) for resources in task.resources))
    if problems:
        return f"no price for {wanted}: {'; '.join(problems.values())}"
    named = {str(one.cloud).casefold() for one in task.resources if one.cloud is not None}
    fetch = f"sky gpus list --infra {min(named)}" if named else "sky gpus list"
    if asked:
        return (
            f"no machine in the catalogues of {', '.join(sorted(asked))} is {wanted}; "
            f"give another --infra or profile, or fetch newer prices: {fetch}"
        )
    return (
        f"no price catalogue in {common.get_catalog_path('')} for {wanted}; fetch it once: {fetch}"
    )
