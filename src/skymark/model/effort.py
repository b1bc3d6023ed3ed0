"""How much measuring a run may do."""

from __future__ import annotations

from skymark.model.base import Frozen


class Effort(Frozen):
    """Bounds on the repetitions of a cell.

    Rounds go on from `min_rounds` until the 95 % interval of the throughput is within
    `target_relative_interval` of its value (half width ÷ value) or `max_rounds` are done.
    Each round measures whole epochs after one warm-up epoch, for at least `min_seconds` and,
    if a single epoch is longer than that, at most `max_seconds`.
    """

    name: str
    min_rounds: int
    max_rounds: int
    target_relative_interval: float
    min_seconds: float
    max_seconds: float
    cell_timeout_s: float
    verified_elements: int
    """Elements per round whose content is compared with the reference, besides every index."""


EFFORTS: dict[str, Effort] = {
    effort.name: effort
    for effort in (
        Effort(
            name="quick",
            min_rounds=3,
            max_rounds=3,
            target_relative_interval=0.10,
            min_seconds=0.1,
            max_seconds=5.0,
            cell_timeout_s=60.0,
            verified_elements=256,
        ),
        Effort(
            name="standard",
            min_rounds=5,
            max_rounds=15,
            target_relative_interval=0.05,
            min_seconds=2.0,
            max_seconds=30.0,
            cell_timeout_s=300.0,
            verified_elements=2048,
        ),
        Effort(
            name="rigorous",
            min_rounds=10,
            max_rounds=40,
            target_relative_interval=0.02,
            min_seconds=5.0,
            max_seconds=120.0,
            cell_timeout_s=900.0,
            verified_elements=1_000_000,
        ),
    )
}
