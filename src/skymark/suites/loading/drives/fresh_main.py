"""Serve one loader from a fresh process; the program that `FreshLoader` starts."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from skymark.machine.children import leave
from skymark.measure.consumer import work_of
from skymark.measure.loop import timed_pass
from skymark.suites.loading.adapter import Loader
from skymark.suites.loading.delivery.loader import opened, transfer_of
from skymark.suites.loading.delivery.on_jax import await_batch, batch_sharding, misplaced, place
from skymark.suites.loading.drives.epochs import noted_copy
from skymark.suites.loading.drives.fresh import PassOrder, RemotePass
from skymark.suites.loading.drives.outcome import awaiting
from skymark.suites.loading.oracle.arrival import Arrivals
from skymark.suites.loading.registry import adapter_class

if TYPE_CHECKING:
    from skymark.measure.consumer import Consumer
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.oracle import HostBatch
    from skymark.suites.loading.step.consumption import Consumption
    from skymark.suites.loading.work import Batch


class Host:
    """The adapter and the one loader of this process."""

    def __init__(self, reference: str) -> None:
        cls = adapter_class(reference)
        os.environ.update({k: v for k, v in cls.variables.items() if k not in os.environ})
        begin = time.perf_counter()
        cls.import_library()
        self.import_s = time.perf_counter() - begin
        self.adapter = cls()
        self.loader: Loader = NoLoader()
        self.consumer: Consumer | None = None

    def open(self, job: LoadingJob, consumption: Consumption, mesh: bool) -> float:
        """Open the loader and return the time in seconds, without the start of JAX."""
        sharding = batch_sharding() if mesh else None
        self.consumer = consumption.consumer(self.adapter, job)
        begin = time.perf_counter()
        if sharding is None:
            self.loader = opened(self.adapter, job)
        else:
            self.loader = MeshLoader(self.adapter.open(job), sharding)
        return time.perf_counter() - begin

    def run(self, order: PassOrder) -> RemotePass:
        """Run one timed pass, from an epoch's start or from the position to resume."""
        loader, state = self.loader, order.state
        start = loader.epoch if state is None else partial(loader.resume, state=state)
        if order.skip is not None:
            start = partial(loader.seek, batches=order.skip)
        saved: list[bytes] = []
        if order.save_after is not None:
            loader.will_be_saved(order.save_after)
            start = partial(_saving, loader, start, order.save_after, saved)
        places: set[str] = set()

        def copy(batch: Batch) -> HostBatch:
            if isinstance(loader, MeshLoader):
                loader.check(batch)
            return noted_copy(loader, places, batch)

        arrivals = Arrivals()
        begin_ns = time.perf_counter_ns()
        done = timed_pass(
            lambda: islice(start(order.epoch), order.most),
            ready=awaiting(loader),
            keep=order.kept,
            stop_after_ns=order.stop_after_ns,
            consumer=self.consumer,
            copy=copy,
            receiver=arrivals,
        )
        end_ns = time.perf_counter_ns()
        done.transfer, done.work = transfer_of(loader), work_of(self.consumer)
        remote = RemotePass(
            done,
            begin_ns,
            end_ns,
            places=frozenset(places),
            arrival_fault=arrivals.cause,
            state=saved[0] if saved else None,
        )
        if not isinstance(loader, MeshLoader):
            return remote
        return replace(remote, devices=loader.sharding.num_devices, fault=loader.fault)

    def close(self) -> None:
        """Close the loader and the adapter."""
        self.loader.close()
        self.adapter.close()


def _saving(
    loader: Loader,
    start: Callable[[int], Iterator[Batch]],
    after: int,
    saved: list[bytes],
    epoch: int,
) -> Iterator[Batch]:
    """Yield a pass's batches, and save the position before the one after so many."""
    for number, batch in enumerate(start(epoch), 1):
        yield batch
        if number == after:
            saved.append(loader.state())


class NoLoader(Loader):
    """The loader of a process that has opened none yet."""

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield no batches."""
        raise LookupError(f"epoch {epoch} was requested before a loader was opened")


class MeshLoader(Loader):
    """A loader that puts an inner loader's batches on the devices, like a training loop."""

    def __init__(self, loader: Loader, sharding: Any) -> None:
        self.loader = loader
        self.sharding = sharding
        self.fault: str | None = None

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Place every batch."""
        return (place(batch, self.sharding) for batch in self.loader.epoch(epoch))

    def ready(self, batch: Batch) -> None:
        """Wait for the devices."""
        await_batch(batch)

    def check(self, batch: Batch) -> None:
        """Check a batch's placement; outside the clock."""
        self.fault = self.fault or misplaced(batch, self.sharding)

    def close(self) -> None:
        """Close the inner loader."""
        self.loader.close()


def main() -> None:
    """Answer requests until the caller closes the connection."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    host: Host | None = None
    try:
        host = Host(sys.argv[2])
        connection.send((True, host.import_s))
        while (request := connection.recv()) is not None:
            method, arguments = request
            connection.send((True, getattr(host, method)(*arguments)))
    except EOFError:
        pass
    except Exception as error:  # the process boundary: raised again at the other end
        traceback.print_exc()
        connection.send((False, "".join(traceback.format_exception_only(error)).strip()))
    finally:
        if host is not None:
            host.close()
    leave()


if __name__ == "__main__":
    main()
