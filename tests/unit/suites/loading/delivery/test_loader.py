"""The loader that puts another's batches on a device, with memory of the host as the device."""

from __future__ import annotations

import threading

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


@pytest.fixture(params=[True, False], ids=["ahead", "plain"])
def delivering(request, started):
    def start():
        started.append(PlainMemory("cpu", 0))
        return started[-1]

    loader = DeliveringLoader(Three(), start, ahead=request.param)
    yield loader
    loader.close()


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
    assert delivering.loader.asked[:2] == ["epoch 4", "ready 0"]


def test_an_epoch_is_resumed_by_the_other_loader(delivering):
    delivering.will_be_saved(1)
    batches = delivering.resume(1, b"here")
    next(batches)
    delivering.close()
    assert delivering.loader.asked == ["resume here", "epoch 1", "ready 0", "close"]


def test_the_position_is_that_after_the_batch_that_was_to_be_the_last(delivering):
    delivering.will_be_saved(2)
    batches = delivering.epoch(0)
    assert [next(batches)["index"][0] for _ in range(2)] == [0, 12]
    assert delivering.state() == b"here"
    assert delivering.loader.asked == ["epoch 0", "ready 0", "ready 12"]
    assert [batch["index"][0] for batch in batches] == [24]


def test_a_position_that_the_other_loader_has_passed_is_not_given_out():
    delivering = DeliveringLoader(Three(), lambda: PlainMemory("cpu", 0))
    batches = delivering.epoch(0)
    next(batches)
    with pytest.raises(RuntimeError, match="will_be_saved"):
        delivering.state()
    batches.close()
    delivering.close()


WAIT_S = 30
"""Far longer than anything here takes: what does not come by then never does."""


class Noting(PlainMemory):
    """A device that tells when each copy is complete, and in which thread it was made."""

    def __init__(self):
        super().__init__("cpu", 0)
        self.complete = [threading.Event() for _ in range(4)]
        self.threads = []

    def place(self, batch):
        placed = super().place(batch)
        self.threads.append(threading.current_thread())
        self.complete[len(self.threads) - 1].set()
        return placed


def test_the_next_batch_is_copied_while_one_is_used_and_no_further_one():
    device = Noting()
    delivering = DeliveringLoader(Three(), lambda: device)
    for number, _ in enumerate(delivering.epoch(0)):
        # In use: it is not given back before the next copy is complete.
        if number < 2:
            assert device.complete[number + 1].wait(WAIT_S)
        assert len(device.copied) == min(3, number + 2)
    delivering.close()
    asking, *others = device.threads
    assert asking is threading.current_thread()
    assert asking not in others
    assert others[0] is others[1]


def test_plainly_a_batch_is_copied_when_it_is_asked_for():
    device = Noting()
    delivering = DeliveringLoader(Three(), lambda: device, ahead=False)
    for number, _ in enumerate(delivering.epoch(0), 1):
        assert len(device.copied) == number
    assert set(device.threads) == {threading.current_thread()}


def test_a_library_may_write_the_next_batch_into_the_same_memory(started):
    class Reusing(Three):
        def epoch(self, epoch):
            memory = np.empty((12, 5), np.float32)
            for start in range(20):
                memory[:] = start
                yield {"index": np.full(12, start), "x": memory}
                memory[:] = -1  # as soon as the next one is asked for

    delivering = DeliveringLoader(Reusing(), lambda: PlainMemory("cpu", 0))
    found = [np.unique(batch["x"]).tolist() for batch in delivering.epoch(0)]
    assert found == [[start] for start in range(20)]
    delivering.close()


def test_a_fault_of_a_batch_taken_ahead_is_raised_when_it_is_asked_for(delivering):
    class Failing(Three):
        def epoch(self, epoch):
            yield from super().epoch(epoch)
            raise ValueError("the fourth batch cannot be read")

    delivering.loader = Failing()
    batches = delivering.epoch(0)
    assert len([next(batches) for _ in range(3)]) == 3
    with pytest.raises(ValueError, match="the fourth batch"):
        next(batches)


def test_an_epoch_that_is_left_takes_nothing_from_the_next_one(delivering, started):
    first = delivering.epoch(0)
    next(first)
    first.close()
    taken = len(started[0].copied)
    assert taken in {1, 2}
    assert [batch["index"][0] for batch in delivering.epoch(1)] == [0, 12, 24]
    assert len(started[0].copied) == taken + 3


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
    there = device.place({"x": np.ones(4)}).fields

    class OneThere(Three):
        def epoch(self, epoch):
            yield {"index": np.arange(4), **there}

    delivering = DeliveringLoader(OneThere(), lambda: device)
    list(delivering.epoch(0))
    delivering.close()
    found = transfer_of(delivering)
    assert found.moved_bytes_per_s is None
    assert found.copied_bytes_per_s is None


def test_a_loader_that_delivers_to_the_host_tells_of_no_copies():
    assert transfer_of(Three()) is None
