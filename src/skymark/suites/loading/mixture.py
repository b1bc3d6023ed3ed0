"""Mixtures: several sources of different size, drawn from by weight into one endless stream."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Literal

from skymark.model.base import Frozen

Mixing = Literal["schedule", "draws", "worker draws"]
"""How a library picks the source of the next element: by an exact schedule; at random; or at random
in each worker, which goes through a share of every source by itself."""


class Mixture(Frozen):
    """Sources that follow one another in the data set, and the stream to be made of them.

    Each source is gone through again and again, each element once in every pass.
    """

    sizes: tuple[int, ...]
    """Elements of each source."""
    weights: tuple[float, ...]
    """Share of each source in the stream; their sum is 1."""
    elements: int
    """How many elements of the stream are an epoch."""

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The first element of each source, and the one after its last."""
        return list(pairwise(accumulate(self.sizes, initial=0)))

    def share(self, worker: int, workers: int, batch_size: int) -> int:
        """Return the elements of an epoch that one of several workers makes, batches in turn."""
        starts = range(worker * batch_size, self.elements, workers * batch_size)
        return sum(min(batch_size, self.elements - start) for start in starts)
