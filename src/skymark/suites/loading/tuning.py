"""How much measuring a run of loaders may do, and the suite's part of `skymark tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from skymark.model.base import Frozen
from skymark.model.effort import Effort
from skymark.model.record import Setting
from skymark.model.requests import Work
from skymark.suite.contract import Grid, MeasuredStep, Tuning
from skymark.suite.given import combinations

EVERY_ELEMENT = 1_000_000
"""Number of verified elements that means all, including the elements of measured epochs."""


class LoadingLimits(Frozen):
    """Bounds of one round.

    Whole epochs are measured after one warm-up epoch, until both `min_seconds` and `min_batches`
    are reached. Measurements end after `max_seconds`, even in the middle of an epoch. A warm-up may
    end earlier; see `drives.stream.Enough`.
    """

    min_seconds: float
    min_batches: int
    max_seconds: float
    warm_up_seconds: float | None = None
    """Time after which a warm-up epoch need not come to its end; None for `min_seconds`, and only
    where it would not end in `max_seconds`."""
    least_batches: int = 0
    """Batches of its stream, or in all where it has none, that a round gets at least, though it
    take several times as long."""
    verified_elements: int
    """Elements per round whose content is compared with the reference, besides every index."""

    @classmethod
    def of(cls, effort: Effort) -> LoadingLimits:
        """Return the limits of an effort."""
        return cls.model_validate(effort.limits)

    def with_other_side(self) -> LoadingLimits:
        """Return limits for a round that is frozen half of its time, so that it runs as long."""
        times = {"min_seconds": 2 * self.min_seconds, "max_seconds": 2 * self.max_seconds}
        return self.model_copy(update=times)

    def of_effort(self) -> dict[str, float]:
        """Return the limits in an effort's form, without unset ones."""
        return self.model_dump(exclude_none=True, exclude_defaults=True)


def _effort(
    name: str, rounds: tuple[int, int], interval: float, timeout_s: float, limits: LoadingLimits
) -> Effort:
    return Effort(
        name=name,
        min_rounds=rounds[0],
        max_rounds=rounds[1],
        target_relative_interval=interval,
        cell_timeout_s=timeout_s,
        limits=limits.of_effort(),
    )


EFFORTS: dict[str, Effort] = {
    effort.name: effort
    for effort in (
        _effort(
            "check",
            (1, 1),
            1.0,
            60.0,
            LoadingLimits(min_seconds=0, min_batches=1, max_seconds=5, verified_elements=256),
        ),
        _effort(
            "quick",
            (3, 3),
            0.10,
            60.0,
            LoadingLimits(min_seconds=1, min_batches=200, max_seconds=10, verified_elements=256),
        ),
        _effort(
            "rented",
            (3, 5),
            0.05,
            120.0,
            LoadingLimits(
                min_seconds=4,
                min_batches=1,
                max_seconds=6,
                warm_up_seconds=1,
                verified_elements=256,
            ),
        ),
        _effort(
            "standard",
            (5, 15),
            0.05,
            300.0,
            LoadingLimits(min_seconds=2, min_batches=500, max_seconds=30, verified_elements=2048),
        ),
        _effort(
            "rigorous",
            (10, 40),
            0.02,
            900.0,
            LoadingLimits(
                min_seconds=5, min_batches=1000, max_seconds=120, verified_elements=EVERY_ELEMENT
            ),
        ),
    )
}
"""``check`` verifies as ``quick`` does and measures one epoch: does it all work? ``rented`` has few
rounds, which are long beside the work around them: each of those seconds is paid for, too."""


PREFETCH = (2, 4)
"""Batches held ready, per worker. Beyond, they cost memory and hide no more than a moment."""

LEAST_STEPS = 8
"""Least steps of the accelerator per second of an effort; longer steps stretch the rounds."""

LEAST_BATCHES = 8
"""Least batches in a candidate's stream, however long they take."""

BESIDES_S = 120.0
"""Extra time of a round for the start of processes and the comparison with the reference."""


def points(work: Work, grid: Grid, cores: int) -> Sequence[Mapping[str, Setting]]:
    """Return the settings to try: no worker, and powers of two up to the cores.

    The user's own values take the place of all of these.
    """
    if grid:
        return combinations(grid)
    workers = sorted({*(1 << power for power in range(cores.bit_length())), cores})
    both = product([one for one in workers if one <= cores], PREFETCH)
    alone: dict[str, Setting] = {"workers": 0, "prefetch": PREFETCH[0]}
    usual: list[Mapping[str, Setting]] = [
        alone,
        *({"workers": one, "prefetch": held} for one, held in both),
    ]
    return [{k: v for k, v in point.items() if k not in work.settings} for point in usual]


def effort(name: str, rounds: int, seconds: float, step_ms: float) -> Effort:
    """Return the effort of a stage: rounds of so many seconds, longer where a step is long."""
    stretched_s = seconds * max(1.0, LEAST_STEPS * step_ms / 1000)
    return Effort(
        name=name,
        min_rounds=rounds,
        max_rounds=rounds,
        target_relative_interval=0.05,
        cell_timeout_s=BESIDES_S + 10 * stretched_s,
        limits=LoadingLimits(
            min_seconds=stretched_s,
            min_batches=1,
            max_seconds=stretched_s,
            least_batches=LEAST_BATCHES,
            verified_elements=64,
        ).of_effort(),
    )


TUNING = Tuning(
    goal="stream_utilisation",
    stand_in_goal="utilisation",
    cost="cpu_s_per_1000_samples",
    step="think_time_ms",
    batch="batch_size",
    scenario="CV-1:large",
    points=points,
    effort=effort,
    ceilings="skymark.suites.loading.ceilings:ceilings",
    data="data",
    measured_step=MeasuredStep(network="step", metric="step_ns", adapter="pytorch"),
)
