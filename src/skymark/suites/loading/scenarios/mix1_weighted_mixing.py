"""MIX-1: three sources of different size, mixed into one stream by weight."""

from __future__ import annotations

from typing import ClassVar

from skymark.suites.loading.scenario import NEEDS, scenario
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.work import Mixture, three_sizes

PARTS = (6, 3, 1)
"""Tenths of the data set that each source is."""

WEIGHTS = (0.2, 0.3, 0.5)
"""In an epoch as long as the data set, a third of the first source comes, the second about once,
and the third five times."""


@scenario
class WeightedMixing(Determinism):
    """Scale and shift dense features of three sources, which are mixed by weight.

    The sources have 60, 30 and 10 % of the elements and the weights 0.2, 0.3 and 0.5. An epoch is
    as long as the data set: a third of the first source, the second about once, the third five
    times. The oracle compares the weights with each source's share of every epoch and of each
    eighth of it. A library with a schedule must match. Draws may differ by Hoeffding's bound (1963)
    for a chance of 1e-9, which is 2.3 % of an epoch of ``small``. No element may come again before
    the rest of its source.
    """

    id: ClassVar = "MIX-1"
    title: ClassVar = "weighted mixing: three sources of different size in one stream"
    tier: ClassVar = 2
    needs: ClassVar = NEEDS | {"mix"}
    variants: ClassVar = three_sizes(
        elements=(20_480, 204_800, 2_048_000),
        batch_size=(256, 1024, 4096),
        features=(16, 64, 128),
    )
    drive: ClassVar = "epochs"

    @property
    def mixture(self) -> Mixture:
        """Three sources, of which the smallest has the largest weight."""
        elements = self.size.elements
        sizes = tuple(elements * part // sum(PARTS) for part in PARTS)
        return Mixture(sizes=sizes, weights=WEIGHTS, elements=elements)
