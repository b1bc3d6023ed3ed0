"""What a lost machine had sent to a store, as one more part of its run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from skymark.cloud.order import Order
from skymark.cloud.stores import stores_that_last
from skymark.model.errors import StoreError, UsageError
from skymark.store.fetching import fetch, manifest_in
from skymark.store.kinds import open_source


def stored_part(order: Order, place: Path) -> Path | None:
    """Fetch a run from the first of its stores that has it; returns its directory of runs.

    Args:
        order: names the run, its plan and its stores.
        place: where it goes; made if absent.

    Returns:
        None where no store gives it: what other machines have must come home all the same.

    Raises:
        StorageFullError: the directory cannot be written.
    """
    for number, address in enumerate(stores_that_last(order.stores)):
        here = place / str(number)
        try:
            with closing(open_source(f"{address}/{order.run_id}")) as source:
                manifest = manifest_in(source)
                if manifest is None or manifest.plan_hash != order.plan_hash:
                    continue
                fetch(source, here / order.run_id)
        except (
            FileNotFoundError,
            StoreError,
            UsageError,
        ):  # a newer skymark's
            continue
        return here
    return None
