"""Orders of delivery: how far elements move from storage, and from epoch to epoch.

A shuffle of n elements that knows all of them moves one by n / 3 places on average; a buffer of K
moves it by about K, and shards whatever their number allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.shuffle_statistics import (
    batch_neighbourhoods,
    displacement,
    neighbours,
    stream_neighbours,
)

ENOUGH = 64
"""Elements from which on the average displacement of a global shuffle is near its expectation."""

LEAST = 0.5
"""Of the displacement expected; 64 elements in random order fall below with p < 1e-6."""

PAIRS = 0.5
"""Share of neighbours that are neighbours again; by chance it is 1 / n, in storage 2 / n."""


@dataclass
class Orders:
    """The streams of one loader's epochs, and what was measured of them."""

    kind: str = "global"
    """What the adapter declares: ``global``, ``shards``, ``buffer K``, or shards and a buffer."""
    previous: dict[int, tuple[int, Array]] = field(default_factory=dict)
    """Per rank the latest epoch and its stream."""
    moved_places: int = 0
    """By which the elements of all streams moved from storage together."""
    uniform_places: int = 0
    """By which those of uniform permutations move, on average."""

    def fault(self, epoch: int, stream: Array, rank: int = 0) -> Cause | None:
        """Look for an epoch that is hardly shuffled, or in the order of the one before.

        Args:
            epoch: for the message.
            stream: its elements in order of delivery, int64 ``[n]``.
            rank: whose stream it is; each has its own.
        """
        before = self.previous.get(rank)
        self.previous[rank] = epoch, stream
        if len(stream) < ENOUGH:
            return None
        moved = displacement(stream)
        places = (len(stream) ** 2 - 1) / 3
        self.moved_places += round(moved * places)
        self.uniform_places += round(places)
        if moved < LEAST * expected_displacement(self.kind, len(stream)):
            return Cause(
                kind="hardly-shuffled",
                message=f"epoch {epoch} is hardly shuffled: elements moved {moved:.1%} of what a "
                f"global shuffle moves them; the adapter declares {self.kind!r}",
            )
        together = stream_neighbours(stream)
        if self.kind == "global" and together >= PAIRS:
            return Cause(
                kind="hardly-shuffled",
                message=f"epoch {epoch} is hardly shuffled: {together:.0%} of the elements came "
                "next to a neighbour in storage; the adapter declares 'global'",
            )
        return None if before is None else self._repetition(epoch, stream, *before)

    def crowding(self, epoch: int, batches: Sequence[Array]) -> Cause | None:
        """Look for batches that a global shuffle was to fill, drawn from few places in storage.

        Args:
            epoch: for the message.
            batches: the elements of each batch, ``[B]``.
        """
        if self.kind != "global" or sum(map(len, batches)) < ENOUGH:
            return None
        drawn = batch_neighbourhoods(batches, max(map(len, batches)))
        if drawn >= LEAST:
            return None
        return Cause(
            kind="hardly-shuffled",
            message=f"epoch {epoch} is hardly shuffled: a batch draws from {drawn:.1%} of the "
            "places in storage that one of a global shuffle draws from; the adapter declares "
            "'global'",
        )

    def _repetition(self, epoch: int, stream: Array, other: int, before: Array) -> Cause | None:
        common = min(len(stream), len(before))
        same = common >= ENOUGH and np.array_equal(stream[:common], before[:common])
        if not same and (self.kind != "global" or neighbours(stream, before) < PAIRS):
            return None
        return Cause(
            kind="same-order",
            message=f"epoch {epoch} came in the order of epoch {other}; every epoch is to be "
            "shuffled anew",
        )


def expected_displacement(kind: str, elements: int) -> float:
    """Return the least displacement that a kind of shuffle promises, as such a share.

    Shards promise none. A buffer of K that meets its first elements at once delivers each of them
    about K / 2 places from where it was, at least.
    """
    if kind == "global":
        return 1.0
    name, _, size = kind.partition(" ")
    if name != "buffer":
        return 0.0
    return min(1.0, 1.5 * int(size) / elements)
