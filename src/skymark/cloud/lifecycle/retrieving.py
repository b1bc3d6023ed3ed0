"""Bring results home from a cluster or a store; faults become problems of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skymark.cloud.lifecycle.results import Results, bring_from_store, bring_home, problems_of
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.cloud.sky.clusters import find_cluster
from skymark.model.errors import SkymarkError

GONE = (
    "the machine was gone before its results came home, and they with it, unless they are in a "
    "store; give --store, or a longer --idle-minutes"
)


def from_cluster(finished: Finished, directory: Path) -> Retrieved:
    """Bring results from a cluster that is up."""
    order = finished.order
    if find_cluster(order.cluster, refresh=False) is None:
        return Retrieved(finished, problems=(GONE,) if finished.begun else ())
    return _retrieved(
        finished,
        lambda: bring_home(order, directory),
        nothing="the machine has no results: nothing was run",
    )


def from_store(finished: Finished, directory: Path) -> Retrieved:
    """Bring results from the store that outlives the machines."""
    order = finished.order
    return _retrieved(
        finished,
        lambda: bring_from_store(order, directory),
        nothing=f"{order.lasting_store} has no results: nothing was run",
        later=f"; later: skymark fetch {order.lasting_store}/{order.run_id} {directory}",
    )


def _retrieved(
    finished: Finished, bring: Callable[[], Results | None], *, nothing: str, later: str = ""
) -> Retrieved:
    try:
        results = bring()
    except SkymarkError as error:
        problem = f"the results could not be brought home: {error}{later}"
        return Retrieved(finished, problems=(problem,))
    if results is None:
        return Retrieved(finished, problems=(nothing,))
    return Retrieved(finished, results, problems_of(results))
