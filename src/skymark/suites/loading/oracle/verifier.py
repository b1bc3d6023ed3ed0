"""What a drive says of a round, to be verified at once or written down for a judge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from skymark.model.record import Cause
from skymark.suites.loading.scenario import Batch


class Verifier(ABC):
    """Told what a loader delivered in one round of a cell."""

    @abstractmethod
    def refuse(self, kind: str, message: str) -> None:
        """Note a fault that a drive found itself."""

    @abstractmethod
    def fresh(self, *, seed: int | None = None, allowed_short_batches: int | None = None) -> Self:
        """Return one of the same kind, for another run of a loader.

        Args:
            seed: of that run; None for the same.
            allowed_short_batches: in that run; None for as many.
        """

    @abstractmethod
    def absorb(self, other: Self, context: str) -> None:
        """Add what another one was told, its fault with the context."""

    @abstractmethod
    def check_arrivals(self, epoch: int, cause: Cause | None) -> None:
        """Add what was wrong with a batch of an epoch as it arrived, if anything was."""

    @abstractmethod
    def check_indices(
        self,
        epoch: int,
        indices: Sequence[Any],
        *,
        complete: bool = True,
        drop_last: bool = False,
        batch_size: int | None = None,
        streams: int = 1,
    ) -> None:
        """Check that an epoch delivered each element exactly once (at most once if incomplete).

        Args:
            epoch: for the message.
            indices: the ``index`` array of each batch, ``[B]``, in order of delivery.
            complete: whether the epoch ran to its end.
            drop_last: whether the job asked to drop the last short batch.
            batch_size: what the job asked for; None skips that check.
            streams: how many ranks' batches these are, each with a last batch of its own.
        """

    @abstractmethod
    def check_ranks(self, epoch: int, ranks: Sequence[Sequence[Any]]) -> None:
        """Check that no rank delivered an element that another rank delivered.

        Args:
            epoch: for the message.
            ranks: per rank, the ``index`` array of each batch.
        """

    @abstractmethod
    def check_shuffled(self, epoch: int, indices: Sequence[Any], rank: int = 0) -> None:
        """Check that an epoch was shuffled as the adapter declares, and anew.

        Args:
            epoch: for the message.
            indices: the ``index`` array of each batch of one rank.
            rank: whose they are.
        """

    @abstractmethod
    def check_kept(self, epoch: int, indices: Sequence[Any], kept: Mapping[int, Batch]) -> None:
        """Compare kept batches, by number, with the reference and with their indices on arrival."""

    @abstractmethod
    def check_work(self, cpu_s: float | None, elements: int) -> None:
        """Check that enough CPU time was used to decode what was delivered, where media are.

        Args:
            cpu_s: CPU seconds in the measured epochs, of all that worked on a CPU; None if unknown.
            elements: what was delivered in them.
        """

    @abstractmethod
    def check_fetched(self, sent_bytes: int, elements: int, stored_bytes: int) -> None:
        """Check that what was delivered had been fetched from the object server.

        Args:
            sent_bytes: what the server sent in the measured epochs.
            elements: what was delivered in them.
            stored_bytes: of all elements of the data set.
        """
