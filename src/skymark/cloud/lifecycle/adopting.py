"""Orders of machines that are there: hired by skymark from here, or made by ``sky launch``."""

from __future__ import annotations

from skymark.cloud.known_machines import recall
from skymark.cloud.lifecycle.user_jobs import handle_of
from skymark.cloud.machine_script import LATEST, RESULTS
from skymark.cloud.order import Order
from skymark.cloud.sky.clusters import find_cluster
from skymark.cloud.sky.made_with import image_of, profile_of
from skymark.cloud.sky.ssh import output_of
from skymark.model.cell import FILE_NAME
from skymark.model.errors import UsageError


def order_of(cluster: str, profile: str | None = None) -> Order:
    """Return the order of a machine that runs can be put on.

    Args:
        cluster: its name.
        profile: in place of the one that it was made for.

    Raises:
        UsageError: there is no such machine, or nobody knows what it was made for.
    """
    try:
        order = recall(cluster)
    except UsageError:
        return _adopted(cluster, profile)
    return order if profile is None else order.model_copy(update={"profile": profile})


def newest_run(cluster: str) -> str:
    """Return the id of the newest run that the head of a cluster has.

    Raises:
        UsageError: there is none.
    """
    found = output_of(cluster, ("readlink", f"{RESULTS}/{LATEST}"))
    if not found:
        raise UsageError(f"{cluster} has no run yet; `skymark queue {cluster}` shows its jobs")
    return require_run_id(found)


def require_run_id(text: str) -> str:
    """Return the id of a run, which becomes a directory's name.

    Raises:
        UsageError: it is none.
    """
    if not FILE_NAME.fullmatch(text):
        raise UsageError(f"{text!r} is no id of a run; `skymark ssh NAME -- ls results` lists them")
    return text


def _adopted(cluster: str, profile: str | None) -> Order:
    handle = handle_of(cluster)
    record = find_cluster(cluster, refresh=False)
    made_for = profile or profile_of(record)
    if made_for is None:
        raise UsageError(
            f"{cluster} was made by another YAML than skymark's (benchmarks/sky), so its profile "
            "is not known; give --profile, or a command after --"
        )
    minutes = None if record is None else record["autostop"]
    return Order(
        profile=made_for,
        plan_hash=None,
        run_id="",
        cluster=cluster,
        num_nodes=handle.launched_nodes,
        image=image_of(handle),
        keep=True,
        **({"idle_minutes": minutes} if minutes and minutes > 0 else {}),
    )
