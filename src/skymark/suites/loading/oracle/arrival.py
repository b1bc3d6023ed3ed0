"""The arrival of a batch, inside the clock: it must consist of plain arrays with computed values.

A mapping that computes on access, a future, a subclass of an array or an unfinished JAX array would
delay the work until the clock has stopped. So types are compared exactly, and memory that an array
does not own is touched. A mapping of any type may hold the arrays, but may not make them on access.
Then the index is copied, because the library may write the next index into the same memory.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from skymark.measure.loop import Receiver
from skymark.model.record import Cause
from skymark.suites.loading.devices import on_host

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array
    from skymark.suites.loading.work import Batch

PAGE = 4096
"""Bytes of the smallest page of common processors, so that every page is touched."""

INT64 = np.dtype(np.int64)

PLAIN = "a mapping of numpy.ndarray, torch.Tensor, jax.Array, eager tf.Tensor or lists of numbers"

LISTS = (list, tuple, range)

NUMBERS_AND_TEXT = frozenset({bool, int, float, str, bytes})
"""Types of values whose lists are as usable as arrays. NumPy's scalars are, too."""

PLAIN_SUBCLASSES = ("torch.nn.parameter.Parameter", "torchvision.tv_tensors.")
"""Subclasses of arrays that only mark their values: names of types, or beginnings of them."""

DEEPEST = 4
"""Levels of containers in a batch's mapping, such as the dict in a `UserDict`."""

CODE = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, partial)
"""Objects that may compute, and therefore hold nothing."""


class Arrivals(Receiver):
    """Checks the arriving batches of one pass, and remembers the first fault.

    An inspection of every field costs as much as the rest of the work per batch. So only the first
    batch and batches passed to `examine` are inspected. After a batch with anything but NumPy
    arrays with memory of their own, every batch is inspected.
    """

    def __init__(self) -> None:
        self.cause: Cause | None = None
        self._all_plain = False
        self._examined = False
        self._waits: dict[type, Callable[[Any], bool] | None] = {}

    def receive(self, received: Any) -> Any:
        """Verify that a batch is usable, and return it as a dict."""
        batch = received
        if self._all_plain and type(batch) is dict:
            index: Any = batch["index"]
            if type(index) is ndarray and index.dtype is INT64:
                return batch
        if not self._examined:
            self._all_plain = self._examined = True
        if type(batch) is not dict:
            self._all_plain = False
            if (batch := self._resolved(batch)) is None:
                return received
        self.examine(batch)
        return batch

    def index_of(self, batch: Batch) -> bytes:
        """Copy the index of a batch that was received, int64."""
        index: Any = batch["index"]
        if type(index) is ndarray and index.dtype is INT64:
            return index.tobytes()
        return super().index_of({"index": on_host(index)})

    def examine(self, batch: Batch) -> None:
        """Inspect every field of a batch."""
        for name, value in batch.items():
            if type(value) is not ndarray:
                self._all_plain = False
                self._await(name, value)
            elif value.base is not None:
                self._all_plain = False
                touch(value)

    def _resolved(self, batch: Any) -> dict[str, Any] | None:
        """Return the fields of a mapping of any type, and refuse fields made on access."""
        if not hasattr(batch, "keys"):
            self._refuse("lazy-batch", f"a batch is a {_name(batch)}")
            return None
        held = _held_by(batch)
        fields = {name: batch[name] for name in batch.keys()}  # noqa: SIM118 - is no dict
        if any(id(value) not in held for value in fields.values()):
            self._refuse("lazy-batch", f"a batch is a {_name(batch)} that made a field on access")
        return fields

    def _await(self, name: str, value: Any) -> None:
        """Wait for an array of another library, or refuse other values."""
        kind = type(value)
        if kind in LISTS:
            if not all(map(_is_scalar, value)):
                self._refuse("lazy-batch", f"field {name!r} of a batch is a list of objects")
            return
        if kind not in self._waits:
            self._waits[kind] = _wait_of(value)
        wait = self._waits[kind]
        if wait is None:
            self._refuse("lazy-batch", f"field {name!r} of a batch is a {_name(value)}")
        elif not wait(value):
            self._remember(
                "unfinished-batch",
                f"field {name!r} was still being computed when its batch was delivered; wait for "
                "it in the loader's `ready`, as with jax.block_until_ready",
            )

    def _refuse(self, kind: str, found: str) -> None:
        self._remember(
            kind,
            f"{found}, which may read or compute only on access; deliver {PLAIN}",
        )

    def _remember(self, kind: str, message: str) -> None:
        if self.cause is None:
            self.cause = Cause(kind=kind, message=message)


class NotingArrivals(Arrivals):
    """Arrivals that call functions after batches, outside the clock.

    Args:
        notes: functions by the number of a batch, from 0.
        every: called with every batch.
    """

    def __init__(
        self, notes: Mapping[int, Callable[[], None]], every: Callable[[Batch], None]
    ) -> None:
        super().__init__()
        self._notes, self._every, self._number = notes, every, count()

    def index_of(self, batch: Batch) -> bytes:
        """Copy the index of a batch, and call the functions."""
        self._every(batch)
        if (note := self._notes.get(next(self._number))) is not None:
            note()
        return super().index_of(batch)


def touch(values: Array) -> None:
    """Read a value of every page of an array, so that it is in memory."""
    if values.size:
        values.reshape(-1)[:: max(1, PAGE // values.itemsize)].copy()


def _is_scalar(value: Any) -> bool:
    return type(value) in NUMBERS_AND_TEXT or isinstance(value, np.generic)


def _held_by(batch: Any) -> set[int]:
    """Return the ids of the objects in a mapping, without asking the mapping for them."""
    held: set[int] = set()
    level = [batch]
    for _ in range(DEEPEST):
        inside = [value for value in gc.get_referents(*level) if not isinstance(value, CODE)]
        new = [value for value in inside if id(value) not in held]
        held.update(map(id, new))
        level = [value for value in new if not isinstance(value, (int, str, bytes, ndarray))]
    return held


def _wait_of(value: Any) -> Callable[[Any], bool] | None:
    """Return a function that waits for an array and returns its readiness; None if unknown."""
    kind, library = type(value), type(value).__module__.partition(".")[0]
    is_plain = f"{kind.__module__}.{kind.__qualname__}".startswith(PLAIN_SUBCLASSES)
    if kind is np.memmap:
        return _wait_for_memory
    if (torch := sys.modules.get("torch")) and (
        kind is torch.Tensor or (is_plain and isinstance(value, torch.Tensor))
    ):
        return _wait_for_torch
    if (jax := sys.modules.get("jax")) and isinstance(value, jax.Array):
        return _wait_for_jax if library == "jaxlib" else None
    if (tensorflow := sys.modules.get("tensorflow")) and isinstance(value, tensorflow.Tensor):
        return _wait_for_tensorflow if kind.__name__ == "EagerTensor" else None
    return None


def _wait_for_memory(value: Array) -> bool:
    touch(np.asarray(value))
    return True


def _wait_for_torch(value: Any) -> bool:
    """Touch a tensor of the host, or wait for the stream of its device."""
    if value.is_cpu:
        touch((value.detach() if value.requires_grad else value).numpy())
    elif value.is_cuda:
        sys.modules["torch"].cuda.current_stream(value.device).synchronize()
    return True


def _wait_for_jax(value: Any) -> bool:
    finished: bool = value.is_ready()
    if not finished:
        value.block_until_ready()
    return finished


def _wait_for_tensorflow(value: Any) -> bool:
    """Touch a tensor of the host; an eager tensor is computed where it is made."""
    if value.device.endswith("CPU:0"):
        touch(np.asarray(memoryview(value)))
    return True


def _name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
