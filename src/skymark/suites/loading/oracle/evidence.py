"""The evidence of a round: its drive's checks, to be made in a process without the adapter.

The file has a pickle per entry. It lies in memory, and the kernel frees it with the worker. The
reader trusts nothing: it makes arrays and plain values only.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import fields
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from skymark.model.errors import DataError
from skymark.model.record import Cause, Verification
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.oracle import Check, Declared, Oracle, Verifier

PLAIN = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
}
"""The functions and types by which pickled arrays of NumPy 1 and 2 are made."""

MARK = "indices of batches"
"""Begins what stands for a list of index arrays."""

NOT_JUDGED = Verification(
    passed=False,
    cause=Cause(kind="not-judged", message="the round's evidence was not given to the judge"),
)
"""The verdict of a round before `skymark.suites.loading.judge` has given one."""


class Evidence(Verifier):
    """Write checks down, to be made by a judge.

    Args:
        file: where to write; stays open.
        declared: the declarations by which the batches are to be judged.
    """

    def __init__(self, file: BinaryIO, declared: Declared) -> None:
        self._file = file
        self.number = 0
        self.numbers = count(1)
        self._write(tuple(declared))

    def check(self, *checks: Check) -> None:
        """Write checks down."""
        for one in checks:
            seen = {field.name: packed(getattr(one, field.name)) for field in fields(one)}
            self._write((self.number, type(one).__name__, seen))

    def fresh(
        self, *, seed: int | None = None, allowed_short_batches: int | None = None
    ) -> Evidence:
        """Return evidence in this file for another run of a loader."""
        other = copy(self)
        other.number = next(self.numbers)
        run = {"seed": seed, "allowed_short_batches": allowed_short_batches}
        self._write((self.number, "fresh", {"other": other.number, **run}))
        return other

    def absorb(self, other: Evidence, context: str) -> None:
        """Write an entry that adds another run's evidence."""
        self._write((self.number, "absorb", {"other": other.number, "context": context}))

    def _write(self, entry: tuple[Any, ...]) -> None:
        pickle.dump(entry, self._file, pickle.HIGHEST_PROTOCOL)
        self._file.flush()


@contextmanager
def opened_evidence(path: Path) -> Iterator[tuple[Declared, BufferedReader]]:
    """Open evidence; yield the adapter's declarations and the file for `replay`.

    Raises:
        DataError: it holds something else, or is cut off.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"the evidence of a round cannot be read: {error}") from error
    with file:
        yield Declared(*_load(file)), file


def replay(file: BufferedReader, oracle: Oracle) -> None:
    """Make the checks of a round, with a separate oracle for each further run of its loader.

    Raises:
        DataError: an entry is damaged or unknown.
    """
    oracles = {0: oracle}
    while file.peek(1):
        number, name, seen = _load(file)
        match name:
            case "fresh":
                other = seen.pop("other")
                oracles[other] = oracles[number].fresh(**seen)
            case "absorb":
                oracles[number].absorb(oracles[seen["other"]], seen["context"])
            case check if check in Check.by_name:
                made = {field: unpacked(value) for field, value in seen.items()}
                oracles[number].check(Check.by_name[check](**made))
            case _:
                raise DataError(f"the evidence of a round has {name!r}, which is no check")


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


def packed(value: Any) -> Any:
    """Return a field of a check as arrays and plain values.

    The indices of many batches become one array and an array of sizes, which is far faster to write
    than an array per batch. Other lists of arrays stay lists.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {key: packed(one) for key, one in value.items()}
        case list() if all(map(_is_index, value)):
            sizes = np.array([len(one) for one in value], np.int64)
            return MARK, np.concatenate([np.zeros(0, np.int64), *value]), sizes
        case list():
            return [packed(one) for one in value]
    return plain(np.asarray(value))


def unpacked(value: Any) -> Any:
    """Undo `packed`."""
    match value:
        case (str() as mark, values, sizes) if mark == MARK:
            return np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else []
        case list():
            return [unpacked(one) for one in value]
    return value


def _is_index(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype == np.int64 and value.ndim == 1


def plain(value: Array) -> Array:
    """Return an array whose pickle only needs NumPy's own types.

    No reference has another type, so the content of such an array does not matter.
    """
    if value.dtype.hasobject:
        return np.full(value.shape, None)
    if value.dtype.isbuiltin == 2:  # a type of another library, such as ml_dtypes' bfloat16
        return value.view(f"V{value.dtype.itemsize}")
    return value
