"""A batch is usable when it is plain arrays; anything that may compute later is named."""

from __future__ import annotations

import mmap
from collections import ChainMap, UserDict
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from skymark.suites.loading.oracle.arrival import Arrivals


class LazyArray(np.ndarray):
    pass


class LazyDict(dict):
    pass


def cause_of(batch):
    arrivals = Arrivals()
    arrivals.receive(batch)
    return arrivals.cause


def batch_with(**fields):
    return {"index": np.arange(4), "values": np.ones((4, 3)), **fields}


@pytest.mark.parametrize(
    "values",
    [
        np.ones((4, 3)),
        np.ones((4, 6))[:, ::2],
        np.ones((4, 3))[::-1],
        np.broadcast_to(np.float32(1), (4, 3)),
        np.zeros((4, 0)),
        np.frombuffer(bytes(96)).reshape(4, 3),
        np.asfortranarray(np.ones((4, 3))),
        np.ones((4, 3), ">f4"),
    ],
)
def test_plain_arrays_of_any_layout_are_usable(values):
    values.flags.writeable = False
    assert cause_of(batch_with(values=values)) is None


class Computing(UserDict):
    def __getitem__(self, name):
        return super().__getitem__(name) + 0


class Slotted:
    __slots__ = ("fields",)

    def __init__(self, fields):
        self.fields = [list(fields), list(fields.values())]

    def keys(self):
        return self.fields[0]

    def __getitem__(self, name):
        return self.fields[1][self.fields[0].index(name)]


@pytest.mark.parametrize("kind", [LazyDict, UserDict, MappingProxyType, ChainMap, Slotted])
def test_a_mapping_of_any_type_is_used_as_a_dict(kind):
    arrivals, batch = Arrivals(), batch_with()
    received = arrivals.receive(kind(batch))
    assert arrivals.cause is None
    assert type(received) is dict
    assert all(received[name] is batch[name] for name in batch)


@pytest.mark.parametrize("kind", [Computing, lambda fields: list(fields.values())])
def test_a_mapping_that_makes_its_fields_on_access_is_named(kind):
    batch = kind(batch_with())
    fault = cause_of(batch)
    assert fault.kind == "lazy-batch"
    assert type(batch).__name__ in fault.message
    assert "numpy.ndarray" in fault.message


@pytest.mark.parametrize("index", [[3, 1], (3, 1), range(2), [np.int64(3), np.int64(1)]])
def test_an_index_may_be_a_list_of_integers(index):
    arrivals = Arrivals()
    batch = arrivals.receive({"index": index})
    assert arrivals.cause is None
    assert np.array_equal(np.frombuffer(arrivals.index_of(batch), np.int64), np.array(index))


def test_an_array_of_a_subclass_is_named():
    fault = cause_of(batch_with(values=np.ones((4, 3)).view(LazyArray)))
    assert fault.kind == "lazy-batch"
    assert "'values'" in fault.message
    assert "LazyArray" in fault.message


@pytest.mark.parametrize(
    "value", [Future(), [1, Future()], [np.ones(3)], memoryview(bytes(4)), None, 3.0]
)
def test_what_is_no_array_is_named(value):
    fault = cause_of(batch_with(values=value))
    assert fault.kind == "lazy-batch"
    assert type(value).__qualname__ in fault.message


@pytest.mark.parametrize("form", [np.asarray, np.memmap.view])
def test_the_pages_of_a_mapped_file_are_read(form, tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(64 * mmap.PAGESIZE))
    mapped = np.memmap(path, np.uint8, "r")
    resident = resident_kib(path)
    assert cause_of(batch_with(values=form(mapped))) is None
    assert resident_kib(path) == 64 * mmap.PAGESIZE // 1024 > resident


def resident_kib(path):
    """Return how much of a mapped file is in this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(found.split()[1]) for found in lines if found.startswith("Rss:"))
    return 0


def test_the_first_fault_is_kept():
    arrivals = Arrivals()
    arrivals.receive(batch_with(values=[Future()]))
    arrivals.receive(Computing(batch_with()))
    assert "'values'" in arrivals.cause.message


def test_an_index_does_not_change_with_the_buffer_it_came_in():
    buffer = np.arange(4)
    copied = Arrivals().index_of({"index": buffer})
    buffer += 1
    assert np.frombuffer(copied, np.int64).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("index", [np.arange(4, dtype=np.int32), (0, 1, 2, 3)])
def test_an_index_of_any_kind_is_copied_as_int64(index):
    arrivals = Arrivals()
    plain = np.arange(4).tobytes()
    copied = [arrivals.index_of({"index": one}) for one in (np.arange(4), index, np.arange(4))]
    assert copied == [plain] * 3


def test_what_a_stream_of_plain_arrays_turns_into_is_seen_when_it_is_examined():
    arrivals, lazy = Arrivals(), batch_with(values=[Future()])
    arrivals.receive(batch_with())
    arrivals.receive(lazy)
    assert arrivals.cause is None
    arrivals.examine(lazy)
    assert "'values'" in arrivals.cause.message


def test_every_batch_is_looked_at_after_one_that_does_not_own_its_memory():
    arrivals = Arrivals()
    arrivals.receive(batch_with(values=np.ones((8, 3))[::2]))
    arrivals.receive(batch_with(values=[Future()]))
    assert arrivals.cause.kind == "lazy-batch"
