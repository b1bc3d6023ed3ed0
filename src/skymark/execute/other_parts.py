"""The parts of other workers, brought from a store by whoever ends last: then the run is whole."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from skymark.execute.observer import Observer
from skymark.model.errors import StoreError
from skymark.model.plan import Plan
from skymark.run.directory import RunDirectory
from skymark.run.layout import MANIFEST, SUMS
from skymark.store.fetching import fetch
from skymark.store.store import Store
from skymark.store.storing import Storing


def bring_other_parts(
    run: RunDirectory, plan: Plan, stores: Iterable[Store], storing: Storing, observer: Observer
) -> bool:
    """Bring what other workers stored of a run, if with it every cell has a record.

    Call it when this worker's part is stored: then the last one finds all others'. Where two end
    at the same moment, both may; they write the same.

    Args:
        run: the directory of this worker.
        plan: of all workers.
        stores: where all of them store.
        storing: told what was read.
        observer: told what is fetched, and which store cannot be read: that spoils no part.

    Returns:
        Whether the run is whole here by that, and was not before.
    """
    own = set(run.files())
    lacking = {f"records/{planned.cell.id}.json" for planned in plan.cells} - own
    if not lacking:
        return False
    for store in stores:
        if not (store.live and store.several_writers):
            continue
        try:
            if lacking <= store.sizes().keys():
                fetch(
                    store,
                    run.path,
                    keep=own,
                    only=lambda path: path not in {MANIFEST, SUMS},
                    announce=observer.stage,
                    fetched=partial(storing.seen, store),
                )
                return True
        except (StoreError, FileNotFoundError) as error:
            observer.stage(f"the other workers' parts are not here: {error}")
    return False
