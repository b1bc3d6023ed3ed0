"""How much of a slow copy to a device is hidden behind a training step.

Run with ``nox -s microbench``. The device is memory of the host whose copies take a known time.
"""

import time
from functools import partial
from statistics import median

import numpy as np

from skymark.measure.consumer import Sleeper
from skymark.measure.loop import timed_pass
from skymark.suites.loading.adapter import Loader
from skymark.suites.loading.delivery.framework import Framework, Placed
from skymark.suites.loading.delivery.loader import DeliveringLoader

BATCHES = 50
STEP_NS = 10_000_000
COPY_NS = 5_000_000


class SlowCopies(Framework):
    """A device to which each copy takes `copy_ns`; 0 where batches are there already."""

    name = "torch"

    def __init__(self, copy_ns):
        self.copy_ns = copy_ns

    def bytes_to_move(self, value):
        return value.nbytes if self.copy_ns else 0

    def place(self, batch):
        if self.copy_ns > 1:
            time.sleep(self.copy_ns / 1e9)
        return Placed(dict(batch), self.copy_ns)


class Made(Loader):
    """Batches that are there when they are asked for."""

    def epoch(self, epoch):
        batch = {"index": np.arange(4), "x": np.zeros((4, 8))}
        return (batch for _ in range(BATCHES))


def epoch_ns(copy_ns, *, ahead):
    """Return the time of an epoch with a step of `STEP_NS` after each batch."""
    loader = DeliveringLoader(Made(), partial(SlowCopies, copy_ns), ahead=ahead)
    done = timed_pass(lambda: loader.epoch(0), consumer=Sleeper(STEP_NS))
    loader.close()
    return done.wall_ns


def wait_ns(*, ahead):
    """Return the median wait for a batch whose copy takes no time, with no step."""
    loader = DeliveringLoader(Made(), partial(SlowCopies, 1), ahead=ahead)
    passes = [timed_pass(partial(loader.epoch, number)) for number in range(20)]
    loader.close()
    return median(one for done in passes for one in done.wait_ns)


def test_an_epoch_whose_copies_are_hidden(benchmark):
    there, plain, ahead = (
        min(epoch_ns(copy_ns, ahead=ahead) for _ in range(3))
        for copy_ns, ahead in ((0, True), (COPY_NS, False), (COPY_NS, True))
    )
    benchmark.extra_info["plain_over_there"] = round(plain / there, 4)
    benchmark.extra_info["ahead_over_there"] = round(ahead / there, 4)
    handing_over_ns = wait_ns(ahead=True) - wait_ns(ahead=False)
    benchmark.extra_info["handing_over_us_per_batch"] = round(handing_over_ns / 1000, 1)
    benchmark.pedantic(epoch_ns, args=(COPY_NS,), kwargs={"ahead": True}, rounds=3)
