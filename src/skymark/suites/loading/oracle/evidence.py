"""The evidence of a round: what its drive said, in order, for a process where no adapter runs.

It is a pickle per line of what was said, in a file in memory, which the kernel frees with the
worker. It is read without trust: arrays and plain values are all that is made of it.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from skymark.model.errors import DataError
from skymark.model.record import Cause, Verification
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.element_streams import Mixing
from skymark.suites.loading.operators import Caches
from skymark.suites.loading.oracle.reference import to_host
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


PLAIN = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
}
"""The functions and types by which pickled arrays of NumPy 1 and 2 are made."""


NOT_JUDGED = Verification(
    passed=False,
    cause=Cause(kind="not-judged", message="the round's evidence was not given to the judge"),
)
"""The verdict of a round before `skymark.suites.loading.judge` has given one."""


class Declared(NamedTuple):
    """What an adapter declares, by which its batches are judged."""

    native: bool
    caches: Caches
    shuffle: str
    allowed_short_batches: int
    mixing: Mixing = "draws"


@dataclass(frozen=True)
class Said:
    """One thing that a drive said."""

    verifier: int
    """To which verifier; 0 is the round's own."""
    name: str
    """The method of `Verifier`."""
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class Evidence(Verifier):
    """Writes down what it is told.

    Attributes:
        number: tells it from others that write into the same file; the round's own has 0.
    """

    def __init__(self, file: BinaryIO, declared: Declared) -> None:
        """Begin with what the adapter declares.

        Args:
            file: where to write; stays open.
            declared: what the batches are to be judged by.
        """
        self._file = file
        self.number = 0
        self.numbers = count(1)
        pickle.dump(tuple(declared), file, pickle.HIGHEST_PROTOCOL)

    def refuse(self, kind: str, message: str) -> None:
        """Write down a fault."""
        self._say("refuse", kind, message)

    def fresh(
        self, *, seed: int | None = None, allowed_short_batches: int | None = None
    ) -> Evidence:
        """Return one that writes into the same file, for another run of a loader."""
        other = copy(self)
        other.number = next(self.numbers)
        named = {"seed": seed, "allowed_short_batches": allowed_short_batches}
        self._say("fresh", other.number, **named)
        return other

    def absorb(self, other: Evidence, context: str) -> None:
        """Write down that another one counts, too."""
        self._say("absorb", other.number, context)

    def check_arrivals(self, epoch: int, cause: Cause | None) -> None:
        """Write down what was wrong with a batch as it arrived, if anything was."""
        if cause is not None:
            self.refuse(cause.kind, f"epoch {epoch}: {cause.message}")

    def check_indices(self, epoch: int, indices: Sequence[Any], **named: Any) -> None:
        """Write down the indices of an epoch."""
        self._say("check_indices", epoch, joined(indices), **named)

    def check_ranks(self, epoch: int, ranks: Sequence[Sequence[Any]]) -> None:
        """Write down the indices of an epoch by rank."""
        self._say("check_ranks", epoch, [joined(indices) for indices in ranks])

    def check_shuffled(self, epoch: int, indices: Sequence[Any], rank: int = 0) -> None:
        """Write down the order of a rank's epoch."""
        self._say("check_shuffled", epoch, joined(indices), rank)

    def check_kept(self, epoch: int, indices: Sequence[Any], kept: Mapping[int, Batch]) -> None:
        """Write down kept batches."""
        batches = {
            number: {name: plain(value) for name, value in to_host(batch).items()}
            for number, batch in kept.items()
        }
        self._say("check_kept", epoch, joined(indices), batches)

    def check_work(self, cpu_s: float | None, elements: int) -> None:
        """Write down the CPU time of the measured epochs."""
        self._say("check_work", cpu_s, elements)

    def check_fetched(self, sent_bytes: int, elements: int, stored_bytes: int) -> None:
        """Write down what the object server sent."""
        self._say("check_fetched", sent_bytes, elements, stored_bytes)

    def _say(self, name: str, *arguments: Any, **named: Any) -> None:
        said = (self.number, name, arguments, named)
        pickle.dump(said, self._file, pickle.HIGHEST_PROTOCOL)
        self._file.flush()


@contextmanager
def heard(path: Path) -> Iterator[tuple[Declared, Iterator[Said]]]:
    """Read evidence.

    Yields:
        What the adapter declares, and what was said, in order.

    Raises:
        DataError: it holds something else, or is cut off; on reading that far.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"the evidence of a round cannot be read: {error}") from error
    with file:
        yield Declared(*_load(file)), _said(file)


def _said(file: BufferedReader) -> Iterator[Said]:
    while file.peek(1):
        said = Said(*_load(file))
        yield replace(said, arguments=tuple(map(_apart, said.arguments)))


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return super().find_class(module, name)


def _load(file: BinaryIO) -> Any:
    try:
        return _PlainUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, ValueError) as error:
        raise DataError(f"the evidence of a round cannot be read: {error}") from error


MARK = "indices of batches"


def joined(indices: Sequence[Any]) -> Any:
    """Return the indices of many batches as one array and the size of each.

    That takes far less to write than an array for each batch. Those that are not all int64 ``[B]``
    stay as they are.
    """
    if all(type(one) is np.ndarray and one.dtype == np.int64 and one.ndim == 1 for one in indices):
        values = np.concatenate([np.zeros(0, np.int64), *indices])
        return MARK, values, np.array([len(one) for one in indices], np.int64)
    return [plain(np.asarray(one)) for one in indices]


def _apart(argument: Any) -> Any:
    """Undo `joined`, in lists of such as well."""
    match argument:
        case (str() as mark, values, sizes) if mark == MARK:
            return np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else []
        case list():
            return [_apart(one) for one in argument]
    return argument


def plain(value: Array) -> Array:
    """Return an array whose pickle needs no type but NumPy's own.

    No reference has another, so what it holds is not looked at: only that it is none of them.
    """
    if value.dtype.hasobject:
        return np.full(value.shape, None)
    if value.dtype.isbuiltin == 2:  # a type of another library, such as ml_dtypes' bfloat16
        return value.view(f"V{value.dtype.itemsize}")
    return value
