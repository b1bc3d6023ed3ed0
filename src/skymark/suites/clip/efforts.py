"""How much measuring a run of models may do: accuracy needs one round, throughput several."""

from __future__ import annotations

from skymark.model.effort import Effort

DAY_S = 86_400.0
"""Time limit of a round: the largest model on the largest set takes hours on one GPU."""


def _effort(name: str, rounds: tuple[int, int], interval: float) -> Effort:
    return Effort(
        name=name,
        min_rounds=rounds[0],
        max_rounds=rounds[1],
        target_relative_interval=interval,
        cell_timeout_s=DAY_S,
    )


EFFORTS: dict[str, Effort] = {
    effort.name: effort
    for effort in (
        _effort("quick", (1, 1), 1.0),
        _effort("standard", (3, 5), 0.05),
        _effort("rigorous", (5, 15), 0.02),
    )
}
"""``quick`` gives accuracy, which does not vary, and throughput without an interval."""
