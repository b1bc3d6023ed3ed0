"""Slot workers on a cluster: their number, share of a GPU, and jobs.

A slot worker takes one group of a plan after another. One job per GPU starts all workers on it,
because submitting a job takes seconds: 64 slots on eight GPUs are 8 jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import size_text
from skymark.suite.registry import suite_named

ROUNDING = 1e-6
LEAST_FRACTION = 0.125
"""Default share of a GPU for each slot."""


class SlotJob(Frozen):
    """A job of a cluster that starts slot workers, and what it has of the cards."""

    cards: float
    """Accelerators that the job takes, a part of one or whole ones; 0 where there are none."""
    slots: int = Field(ge=1)
    fraction: float
    """Share of a GPU for each slot; 0 without GPUs."""
    groups: tuple[str, ...] = ()
    """Groups that its slots may take; empty means any."""


class Cards(Frozen):
    """The accelerators of a cluster."""

    kind: str
    """As SkyPilot calls them, such as ``H100``."""
    count: int = Field(ge=1)
    bytes_each: int | None
    """Memory of one; None if it is unknown."""


def group_bytes(plan: Plan) -> dict[str, int | None]:
    """Return the GPU memory that each group of a plan needs; None if it is unknown."""
    suite = suite_named(plan.suite)
    needs: dict[str, int | None] = {}
    for one in plan.runnable:
        known = (needs.get(one.group), suite.device_bytes(one.cell))
        needs[one.group] = max((need for need in known if need is not None), default=None)
    return needs


def slot_jobs(
    needs: Mapping[str, int | None],
    cards: Cards | None,
    fraction: float | None = None,
    slots: int | None = None,
) -> list[SlotJob]:
    """Return the jobs that work through groups, large models first.

    Without a fraction, groups are spread over all GPUs, and each job has a whole GPU. With a
    fraction, a job takes only its slots' share, and GPUs are filled one after another.

    Args:
        needs: bytes of GPU memory of each group; None if unknown.
        cards: GPUs of the cluster; None without GPUs.
        fraction: share of a GPU for each slot; a group that needs more gets a larger slot. None for
            an eighth, or more with few groups.
        slots: total number of workers; None for as many as fit, at most one per group.

    Raises:
        UsageError: a group fits on no GPU, or the fraction is invalid.
    """
    if cards is None:
        count = min(slots or 1, len(needs))
        return [SlotJob(cards=0, slots=1, fraction=0) for _ in range(count)]
    least = LEAST_FRACTION if fraction is None else fraction
    fractions = {name: _fraction_for(name, need, cards, least) for name, need in needs.items()}
    jobs: list[SlotJob] = []
    for size in sorted(set(fractions.values()), reverse=True):
        alone = len(set(fractions.values())) == 1
        members = [name for name, one in fractions.items() if one == size]
        per_card = math.floor(1 / size + ROUNDING)
        left = min(slots or cards.count * per_card, cards.count * per_card, len(members))
        spread = min(left, cards.count) if fraction is None else math.ceil(left / per_card)
        for number in range(spread):
            here = math.ceil(left / (spread - number)) if fraction is None else min(left, per_card)
            jobs.append(
                SlotJob(
                    cards=1 if fraction is None else _rounded(here * size),
                    slots=here,
                    fraction=1 / here if fraction is None else size,
                    groups=() if alone else tuple(members),
                )
            )
            left -= here
    return jobs


def working_cards(jobs: Sequence[SlotJob], cards: Cards) -> int:
    """Return how many of a cluster's cards have workers, where Ray fills one after another."""
    return min(cards.count, math.ceil(sum(job.cards for job in jobs) - ROUNDING))


def job_per_group(
    needs: Mapping[str, int | None], cards: Cards | None, fraction: float | None = None
) -> list[SlotJob]:
    """Return a job for each group, large models first: the classic way, seconds for each.

    Without a fraction each has as much of a card as lets all cards work, an eighth at least.

    Raises:
        UsageError: as `slot_jobs`.
    """
    if cards is None:
        return [SlotJob(cards=0, slots=1, fraction=0, groups=(name,)) for name in needs]
    if fraction is None:
        fraction = max(LEAST_FRACTION, 1 / math.ceil(len(needs) / cards.count))
    sizes = {name: _fraction_for(name, need, cards, fraction) for name, need in needs.items()}
    return [
        SlotJob(cards=size, slots=1, fraction=size, groups=(name,))
        for name, size in sorted(sizes.items(), key=lambda one: -one[1])
    ]


def _fraction_for(name: str, need: int | None, cards: Cards, fraction: float) -> float:
    """Return the part of a card that a group gets: the one given, doubled until it fits.

    Raises:
        UsageError: a whole card does not suffice.
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"--gpu-fraction {fraction:g} is no part of a card; give one such as 0.25")
    if need is None or cards.bytes_each is None:
        return fraction
    size = fraction
    while need > size * cards.bytes_each:
        if size == 1:
            raise UsageError(
                f"{name} needs {size_text(need)}, and one {cards.kind} has "
                f"{size_text(cards.bytes_each)}; leave it out, or give a smaller --batch-size"
            )
        size = min(1.0, 2 * size)
    return size


def _rounded(cards: float) -> float:
    """Return a number of cards without the error of adding up fractions."""
    return round(cards, 6)
