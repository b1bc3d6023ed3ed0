"""Names for machines that are going to be hired."""

from __future__ import annotations

from skymark.cloud.known_machines import known_names
from skymark.cloud.order import check_cluster_name, cluster_name
from skymark.cloud.sky.clusters import names_in_use
from skymark.cloud.sky.managed_jobs import live_managed_jobs
from skymark.model.errors import UsageError


def name_for(profile: str, wanted: str | None = None) -> str:
    """Return the name of a new machine: the one that is wanted, else the profile's, free to use.

    Raises:
        UsageError: the wanted name is taken, or is none.
    """
    taken = names_in_use() | {one.name for one in live_managed_jobs()} | known_names()
    if wanted is None:
        return cluster_name(profile, taken)
    check_cluster_name(wanted)
    if wanted in taken:
        raise UsageError(
            f"--cluster {wanted}: there is such a machine; give another name, run on it with "
            f"`skymark exec {wanted}`, or end it with `skymark down {wanted}`"
        )
    return wanted
