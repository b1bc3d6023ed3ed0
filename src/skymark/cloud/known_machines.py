"""What was ordered for each machine, kept at home for those who come back to it. No secrets."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from skymark.cloud.order import Order
from skymark.execute.locations import cache_directory
from skymark.model.errors import UsageError
from skymark.store.whole_files import write_whole


def remember(order: Order) -> None:
    """Write down what was ordered."""
    write_whole(_path(order.cluster), order.model_dump_json(indent=1).encode())


def recall(cluster: str) -> Order:
    """Return the order of a machine that was hired from here.

    Raises:
        UsageError: there is none.
    """
    try:
        return Order.model_validate_json(_path(cluster).read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{cluster} was not hired from here; `skymark status` shows what was"
        ) from error


def forget(cluster: str) -> None:
    """Remove what was written down of a machine that is gone."""
    _path(cluster).unlink(missing_ok=True)


def _path(cluster: str) -> Path:
    return cache_directory() / "machines" / f"{Path(cluster).name}.json"
