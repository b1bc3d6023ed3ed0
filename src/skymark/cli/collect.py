"""`skymark collect`: bring a run home from a machine that is up."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, say
from skymark.cli.parameters import DEFAULT_RESULTS, Cluster, Output


def collect(
    cluster: Cluster,
    run_id: Annotated[
        str | None,
        Parameter(help="The run. [default: the launched one; after `sky launch` the newest]"),
    ] = None,
    /,
    *,
    output: Output = DEFAULT_RESULTS,
    down: Annotated[
        bool, Parameter(help="End the machine once everything that it has of the run is verified.")
    ] = False,
) -> int:
    """Bring the results of a run home from a machine that was left running or kept.

    Every file is compared with the one on the machine and with the digests that the run made. The
    machine stays until its idle timer ends it, unless --down is given.

    Exit status: 0 the results are whole, 1 some are missing or damaged, or could not come home, 2
    there is no such machine or run.
    """
    from skymark.cloud.lifecycle.adopting import newest_run, order_of, require_run_id
    from skymark.cloud.lifecycle.homes import check_home
    from skymark.cloud.lifecycle.retrieving import from_cluster
    from skymark.cloud.lifecycle.stages import Finished
    from skymark.cloud.live import down as end
    from skymark.cloud.sky.clusters import find_cluster
    from skymark.model.errors import UsageError

    order = order_of(cluster)
    run_id = order.run_id if run_id is None else require_run_id(run_id)
    run_id = run_id or newest_run(cluster)
    if run_id != order.run_id:
        order = order.model_copy(update={"run_id": run_id, "plan_hash": None, "stores": ()})
    if order.lasting_store is not None:
        raise UsageError(
            f"{cluster} is a managed job, and its results are in its store: skymark fetch "
            f"{order.lasting_store}/{order.run_id} DIRECTORY"
        )
    if find_cluster(cluster, refresh=False) is None:
        raise UsageError(f"there is no machine {cluster}; `skymark status` shows what is")
    check_home(output)
    retrieved = from_cluster(Finished(order), output)
    results = retrieved.results
    for problem in retrieved.problems:
        say(problem)
    if results is not None and results.records:
        note(f"{results.directory}: {sum(results.records.values())} records")
    if down and retrieved.safe:
        end(cluster, say)
    return 0 if results is not None and results.whole and not retrieved.problems else 1
