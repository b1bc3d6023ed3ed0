"""The loader that puts another's batches on a device, with memory of the host as the device."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.adapter import Loader
from skymark.suites.loading.delivery.loader import PLAIN_COPIES, DeliveringLoader, transfer_of
from tests.processes.drives.loaders import PlainMemory


class Three(Loader):
    """Three batches of 12 elements, and a note of all that is asked of it."""

    def __init__(self) -> None:
        self.asked = []

    def epoch(self, epoch):
        self.asked.append(f"epoch {epoch}")
        for start in (0, 12, 24):
            index = np.arange(start, start + 12)
            yield {"index": index, "x": np.full((12, 5), start, np.float32)}

    def ready(self, batch):
        self.asked.append(f"ready {batch['index'][0]}")

    def state(self):
        return b"here"

    def resume(self, epoch, state):
        self.asked.append(f"resume {state.decode()}")
        return self.epoch(epoch)

    def close(self):
        self.asked.append("close")


@pytest.fixture
def started():
    return []


@pytest.fixture
def delivering(started):
    def start():
        started.append(PlainMemory("cpu", 0))
        return started[-1]

    return DeliveringLoader(Three(), start)


def test_all_fields_but_the_index_are_put_on_the_device(delivering, started):
    batches = list(delivering.epoch(0))
    (device,) = started
    assert [list(batch) for batch in batches] == [["index", "x"]] * 3
    assert [batch["index"][0] for batch in batches] == [0, 12, 24]
    assert all(device.bytes_to_move(batch["x"]) == 0 for batch in batches)
    assert all(device.bytes_to_move(batch["index"]) for batch in batches)
    assert device.copied == [12 * 5 * 4] * 3


def test_text_stays_on_the_host():
    names = np.array(["a.jpg", "b.jpg"])

    class Named(Three):
        def epoch(self, epoch):
            yield {"index": np.arange(2), "name": names, "x": np.ones((2, 3))}

    device = PlainMemory("cpu", 0)
    (batch,) = DeliveringLoader(Named(), lambda: device).epoch(0)
    assert batch["name"] is names
    assert device.copied == [2 * 3 * 8]


def test_a_batch_is_ready_before_it_is_copied_and_the_framework_starts_with_the_first(
    delivering, started
):
    batches = delivering.epoch(4)
    assert not started
    next(batches)
    assert len(started) == 1
    assert delivering.loader.asked == ["epoch 4", "ready 0"]


def test_the_position_is_the_other_loaders(delivering):
    assert delivering.state() == b"here"
    next(delivering.resume(1, b"here"))
    delivering.close()
    assert delivering.loader.asked == ["resume here", "epoch 1", "ready 0", "close"]


def test_what_was_moved_is_told_once_and_plain_copies_are_made_once(delivering, started):
    list(delivering.epoch(0))
    first = transfer_of(delivering)
    assert first.moved_bytes == 3 * 240
    assert first.moving_ns > 0
    assert first.copied_bytes == 240
    assert started[0].copied[3:] == [240] * (PLAIN_COPIES + 1)
    again = transfer_of(delivering)
    assert (again.moved_bytes, again.moving_ns) == (0, 0)
    assert again.copied_bytes_per_s == first.copied_bytes_per_s
    assert len(started[0].copied) == 3 + PLAIN_COPIES + 1


def test_what_lies_on_the_device_already_is_not_counted():
    device = PlainMemory("gpu", 1)
    there = device.place({"x": np.ones(4)})

    class OneThere(Three):
        def epoch(self, epoch):
            yield {"index": np.arange(4), **there}

    delivering = DeliveringLoader(OneThere(), lambda: device)
    list(delivering.epoch(0))
    found = transfer_of(delivering)
    assert found.moved_bytes_per_s is None
    assert found.copied_bytes_per_s is None


def test_a_loader_that_delivers_to_the_host_tells_of_no_copies():
    assert transfer_of(Three()) is None
