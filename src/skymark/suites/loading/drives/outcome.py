"""The input and the result of every drive: a bench and its outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from skymark.measure.consumer import StepTotals, Transfer
from skymark.measure.process_tree import cpu_seconds_of_tree
from skymark.model.record import Resources
from skymark.suites.loading.delivery.loader import opened
from skymark.suites.loading.devices import HOST
from skymark.suites.loading.drives.stream import Stream, has_stream, lead_of, stream_of_ranks
from skymark.suites.loading.oracle import FetchedBytes
from skymark.suites.loading.oracle.summaries import Summary
from skymark.suites.loading.step.consumption import Consumption

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.measure.loop import Pass
    from skymark.suite.contract import TimedRegion
    from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob
    from skymark.suites.loading.oracle import HostBatch, Verifier
    from skymark.suites.loading.tuning import LoadingLimits


@dataclass(frozen=True)
class Served:
    """A job's storage on an object server."""

    stored_bytes: int
    sent_bytes: Callable[[], int]
    """Returns the total bytes that the server has sent."""


class UnseenRegion:
    """A timed region that no engine samples. Implements `skymark.suite.contract.TimedRegion`."""

    slices: tuple[tuple[int, int], ...] = ()

    def begins(self, exclude: tuple[int, ...] = (), *, in_slices: bool = False) -> bool:
        """Begin without sampling."""
        del exclude, in_slices
        return False

    def ends(self) -> Resources:
        """Return empty resources."""
        return Resources()

    def hand_over(self, evidence: Path) -> None:
        """Ignore the evidence."""


@dataclass
class Bench:
    """One round of one cell, set up and ready to be driven."""

    adapter: Adapter
    job: LoadingJob
    oracle: Verifier
    """Checks the loader's batches."""
    limits: LoadingLimits
    round: int
    consumption: Consumption = field(default_factory=Consumption)
    """The use of each batch between two waits."""
    region: TimedRegion = field(default_factory=UnseenRegion)
    """The timed region, which `begin` begins and the drive ends."""
    excluded_pids: tuple[int, ...] = ()
    """Processes of the benchmark, such as the object server, and not of the library."""
    store: Served | None = None
    """Server of the job's storage; None unless over HTTP."""
    batch_bytes: int = 0
    """Bytes of the largest kept batch; grows during the drive."""
    devices: set[str] = field(default_factory=set)
    """Devices of the inspected batches; grows during the drive."""
    reads_disk: bool = False
    """Whether the page cache is cold at the beginning."""
    whole_warm_up: bool = False
    """Whether the figures depend on a whole warm-up epoch, which fills a cache."""
    reference: str = ""
    """Reference of the adapter for a fresh process; see `registry.adapter_class`."""

    @cached_property
    def summary(self) -> Summary:
        """The sums of the elements of epoch 0."""
        return Summary(self.job)

    def begin(self, *, in_slices: bool = False) -> bool:
        """Start sampling the process tree's resources, right before the measured part.

        Args:
            in_slices: whether the drive can tell waits that the edge of a slice cuts.

        Returns:
            Whether the region is measured in slices.
        """
        can = in_slices and self.job.platform == "cpu" and self.waits_for_processors_only
        return self.region.begins(self.excluded_pids, in_slices=can)

    @property
    def waits_for_processors_only(self) -> bool:
        """Whether all waits end by the work of this machine's processors on data in memory.

        Waits for a step, a server or a disk would go on while the processes are frozen.
        """
        return not self.consumption.takes_time and self.store is None and not self.reads_disk

    def cpu_s(self) -> float:
        """Return the total CPU seconds of the process tree, without those of the summary."""
        return cpu_seconds_of_tree(os.getpid(), self.excluded_pids) - self.summary.cpu_s

    def sent_bytes(self) -> int:
        """Return the total bytes that the object server has sent; 0 without one."""
        return 0 if self.store is None else self.store.sent_bytes()

    def check_fetched(self, sent_bytes: int, elements: int) -> None:
        """Compare the object server's bytes in the measured epochs with the delivered elements."""
        if self.store is not None:
            self.oracle.check(FetchedBytes(sent_bytes, elements, self.store.stored_bytes))

    def note_sizes(self, batches: Iterable[HostBatch]) -> None:
        """Record the sizes of kept batches."""
        sizes = [sum(value.nbytes for value in batch.values()) for batch in batches]
        self.batch_bytes = max([self.batch_bytes, *sizes])

    def note_places(self, places: Iterable[str]) -> None:
        """Record the devices of inspected batches; refuse batches on the host instead of a device.

        A CPU's own device is the host, so there is no check on the CPU.
        """
        self.devices.update(places)
        job = self.job
        if job.deliver == "device" and job.platform != "cpu" and HOST in self.devices:
            self.oracle.refuse(
                "not-delivered",
                f"a batch was on the host, and not on the {job.platform}; see `Adapter.delivering`",
            )

    @property
    def is_shipped(self) -> bool:
        """Whether the adapter is one of skymark's own, whose orders its tests compare."""
        return type(self.adapter).__module__.startswith("skymark.")

    @property
    def lead(self) -> int:
        """The number of batches at an epoch's start before its stream."""
        return 0 if self.adapter.works_ahead == "epoch" else lead_of(self.job)

    @property
    def has_stream(self) -> bool:
        """Whether an epoch is long enough for a steady stream."""
        return has_stream(self.job)

    def outcome(self, setup_s: float = 0.0) -> Outcome:
        """Return an empty outcome for the bench's job."""
        return Outcome(setup_s=setup_s, lead=self.lead, has_stream=self.has_stream)

    @contextmanager
    def opened(self) -> Iterator[tuple[Loader, float]]:
        """Open a loader for the bench's job and close it at the end; yields it and `setup_s`."""
        begin = time.perf_counter()
        loader = opened(self.adapter, replace(self.job))  # a copy, which nobody else reads
        try:
            yield loader, time.perf_counter() - begin
        finally:
            loader.close()


def awaiting(loader: Loader) -> Callable[[Any], None] | None:
    """Return the loader's wait for a usable batch; None if batches arrive usable."""
    from skymark.suites.loading.adapter import Loader as Base

    return None if type(loader).ready is Base.ready else loader.ready


@dataclass
class Outcome:
    """The measurements of a drive in one round. Times in ns, sizes in bytes."""

    setup_s: float = 0.0
    lead: int = 0
    """The batches at an epoch's start that are no part of its stream; see `drives.stream`."""
    has_stream: bool = True
    """Whether an epoch is long enough for a stream."""
    first_batch_ns: int | None = None
    first_epoch_elements: int = 0
    """Elements of the warm-up epoch; 0 if it was stopped."""
    first_epoch_ns: int = 0
    first_epoch_cpu_s: float | None = None
    """CPU time of the process tree in the warm-up epoch; None if not measured."""
    timed_ns: int = 0
    busy_ns: int = 0
    """Time in the measured epochs of an accelerator's computation, or of sleep in its place."""
    consumed: float = 0
    """Batches of the measured epochs, per rank, without the last batch of a stopped pass."""
    elements: int = 0
    drained_elements: int = 0
    """Elements of an unmeasured epoch after the warm-up; only the sampling includes it."""
    bytes: int = 0
    wait_ns: list[int] = field(default_factory=list)
    batch_elements: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    restart_ns: list[int] = field(default_factory=list)
    """The wait for the first batch of each measured epoch; with ranks, the longest wait."""
    streamed: Stream = field(default_factory=Stream)
    """The streams of the measured epochs; empty if no epoch has a stream."""
    in_stream: list[bool] = field(default_factory=list)
    """Whether each wait comes after its epoch's lead, and is measured."""
    transfer: Transfer = field(default_factory=Transfer)
    """The measured epochs' copies to the device."""
    work: StepTotals = field(default_factory=StepTotals)
    """The training steps of the measured epochs."""
    resources: Resources = field(default_factory=Resources)
    extra: dict[str, float] = field(default_factory=dict)

    pause_cpu_s: float = 0.0
    """CPU time of the loader between the warm-up and the measured epochs, while no clock ran."""
    cpu_s_at_pause: float = 0.0

    def __post_init__(self) -> None:
        self.measured_from = 1
        """Number of the first measured epoch."""
        self._kept_elements = 0
        self._kept_bytes = 0
        self._own_s = 0.0

    def pause_begins(self, cpu_s: float) -> None:
        """Note the CPU time of the process tree at the end of the warm-up."""
        self.cpu_s_at_pause, self._own_s = cpu_s, time.thread_time()

    def pause_ends(self, cpu_s: float) -> None:
        """Note it before the measured epochs, and take off this thread's, which is skymark's."""
        own_s = time.thread_time() - self._own_s
        self.pause_cpu_s = max(0.0, cpu_s - self.cpu_s_at_pause - own_s)

    @property
    def samples(self) -> dict[str, tuple[int, ...]]:
        """The raw values, by column of the samples file."""
        whole = self.stream is not None
        measured = [epoch >= self.measured_from for epoch in self.epoch]
        in_stream = self.in_stream if self.streamed.ns else [whole and one for one in measured]
        return {
            "epoch": tuple(self.epoch),
            "wait_ns": tuple(self.wait_ns),
            "elements": tuple(self.batch_elements),
            "warm_up": tuple(int(not one) for one in measured),
            "stream": tuple(map(int, in_stream)),
        }

    @property
    def stream(self) -> Stream | None:
        """The streams of the measured epochs; None if all epochs are too short for a stream.

        For a library that works ahead without bounds, it is the whole epochs.
        """
        if not self.has_stream or (self.lead and not self.streamed.ns):
            return None
        whole = Stream(self.elements, self.timed_ns, self.busy_ns)
        return self.streamed if self.streamed.ns else whole

    @property
    def sampled_elements(self) -> int:
        """Elements delivered during the sampling of the process tree."""
        return self.elements + self.drained_elements

    def samples_per_s_over(self, epochs: int) -> float | None:
        """Return the rate of a number of epochs with set-up, the first like the warm-up.

        None without a whole warm-up epoch or without a measured epoch.
        """
        elements = self.first_epoch_elements
        if not elements or not self.elements:
            return None
        later_s = (epochs - 1) * elements * self.timed_ns / self.elements / 1e9
        return epochs * elements / (self.setup_s + self.first_epoch_ns / 1e9 + later_s)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of the steady stream; None without one."""
        return None if self.stream is None else self.stream.elements / self.stream.ns * 1e9

    @property
    def epoch_samples_per_s(self) -> float:
        """Throughput of whole epochs, restarts included."""
        return self.elements / self.timed_ns * 1e9

    def add(self, done: Pass, epoch: int, *, measured: bool, of_ranks: Sequence[Pass] = ()) -> None:
        """Add one pass, or the joint pass of several ranks and each rank's pass.

        Bytes are the kept batches' bytes per element, times the elements.
        """
        sizes = [int(np.asarray(index).size) for index in done.indices]
        if self.first_batch_ns is None and done.wait_ns:
            self.first_batch_ns = done.wait_ns[0]
        self.wait_ns += done.wait_ns
        self.batch_elements += sizes
        self.epoch += [epoch] * len(sizes)
        parts = of_ranks or (done,)
        for part in parts:
            whole = [not cut for cut in part.is_cut] or [True] * len(part.wait_ns)
            self.in_stream += [measured and n >= self.lead and one for n, one in enumerate(whole)]
        if epoch == 0 and done.complete:
            self.first_epoch_elements, self.first_epoch_ns = sum(sizes), done.wall_ns
        if not measured:
            self.measured_from = epoch + 1
            self.drained_elements += sum(sizes) if epoch else 0
        if measured:
            self.timed_ns += done.wall_ns
            self.busy_ns += done.busy_ns
            batches = sum(len(one.wait_ns) - (not one.complete) for one in parts)
            self.consumed += batches / len(parts)
            self.elements += sum(sizes)
            self.transfer = self.transfer.plus(done.transfer or Transfer())
            self.work = self.work.plus(done.work or StepTotals())
            firsts = [one.wait_ns[0] for one in parts if one.wait_ns]
            self.restart_ns += [max(firsts)] if firsts else []
            if self.lead:
                self.streamed = self.streamed.plus(stream_of_ranks(parts, self.lead))
        for batch in done.kept.values():
            self._kept_elements += len(batch["index"])
            self._kept_bytes += sum(value.nbytes for value in batch.values())
        if self._kept_elements:
            self.bytes = round(self._kept_bytes / self._kept_elements * self.elements)
