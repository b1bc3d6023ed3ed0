"""The loading suite's part of `skymark tune`: workers and prefetch that keep an accelerator fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from skymark.model.cell import Setting
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError
from skymark.suite.tuning import Tuning
from skymark.suites.loading.efforts import LoadingLimits

PREFETCH = (2, 4)
"""Batches held ready, per worker. Beyond, they cost memory and hide no more than a moment."""

LENGTHS = {
    "check": ((1, 0.1), (1, 0.1)),
    "quick": ((1, 0.5), (1, 1.0), (2, 2.0), (3, 4.0)),
    "standard": ((1, 1.0), (1, 2.0), (2, 4.0), (5, 8.0)),
    "rigorous": ((1, 2.0), (2, 4.0), (4, 8.0), (10, 16.0)),
}
"""Rounds, and the seconds that each measures, by rung. The last has what tells 5 % apart, but in
``check``, which only sees whether all works."""

LEAST_STEPS = 8
"""Steps of the accelerator that a second is to hold; where one takes longer, so do the rounds."""

LEAST_BATCHES = 8
"""Batches of its stream that a candidate is judged by, however long they take."""

BESIDES_S = 120.0
"""For what a round does besides: processes start, elements are compared with the reference."""


def points(cores: int) -> Sequence[Mapping[str, Setting]]:
    """Return the settings to try: no worker, and powers of two up to the cores."""
    workers = sorted({*(1 << power for power in range(cores.bit_length())), cores})
    both = product([one for one in workers if one <= cores], PREFETCH)
    alone: dict[str, Setting] = {"workers": 0, "prefetch": PREFETCH[0]}
    return [alone, *({"workers": one, "prefetch": held} for one, held in both)]


def efforts(step_ms: float, name: str) -> Sequence[Effort]:
    """Return the efforts of the rungs, the shortest first, for one of the suite's efforts.

    Raises:
        UnknownNameError: there is no such effort.
    """
    if name not in LENGTHS:
        raise UnknownNameError("effort", name, LENGTHS)
    stretch = max(1.0, LEAST_STEPS * step_ms / 1000)
    return [
        Effort(
            name=f"tune-{name}-{place}",
            min_rounds=rounds,
            max_rounds=rounds,
            target_relative_interval=0.05,
            cell_timeout_s=BESIDES_S + 10 * seconds * stretch,
            limits=LoadingLimits(
                min_seconds=seconds * stretch,
                min_batches=1,
                max_seconds=seconds * stretch,
                least_batches=LEAST_BATCHES,
                verified_elements=64,
            ).of_effort(),
        )
        for place, (rounds, seconds) in enumerate(LENGTHS[name], 1)
    ]


TUNING = Tuning(
    goal="stream_utilisation",
    stand_in_goal="utilisation",
    cost="cpu_s_per_1000_samples",
    step="think_time_ms",
    batch="batch_size",
    scenario="CV-1:large",
    points=points,
    efforts=efforts,
    ceilings="skymark.suites.loading.ceilings:ceilings",
)
