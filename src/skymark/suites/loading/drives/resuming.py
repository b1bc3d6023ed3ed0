"""Drive a loader as usual, then stop in the middle of an epoch and go on in a new process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from skymark.suites.loading.devices import on_host
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.fresh import FreshLoader, PassOrder
from skymark.suites.loading.drives.outcome import Bench, Outcome, awaiting
from skymark.suites.loading.oracle import Elements, kept_content, stream_of
from skymark.suites.loading.step.consumption import Consumption

if TYPE_CHECKING:
    from skymark.measure.loop import Pass
    from skymark.suites.loading.adapter import Loader
    from skymark.suites.loading.dataset.canonical import Array
    from skymark.suites.loading.drives.fresh import RemotePass


@dataclass
class Interrupted:
    """An epoch with a position saved in its middle, which then ran to its end."""

    epoch: int
    before: list[Array] = field(default_factory=list)
    """The ``index`` arrays delivered before the position was saved."""
    after: list[Array] = field(default_factory=list)
    """Those delivered afterwards: what a resumed loader must deliver, too."""
    complete: bool = True
    """Whether the epoch ran to its end, and not only to the time limit."""
    state: bytes = b""
    save_s: float = 0.0

    @property
    def half(self) -> int | None:
        """Batches of the rest after which to save again; None where it has only one."""
        return len(self.after) // 2 or None

    def again(self, resumed: Pass, state: bytes) -> Interrupted:
        """Return the epoch with a position that the resumed loader saved."""
        half = self.half or 0
        delivered = [*self.before, *resumed.indices[:half]]
        return Interrupted(self.epoch, delivered, self.after[half:], self.complete, state)


def drive(bench: Bench) -> Outcome:
    """Measure and verify whole epochs, then resume a further one in a fresh process, and again.

    Figures: ``state_bytes``; ``save_s`` to save; ``resume_s`` from opening the loader to its first
    batch in the new process, whose import of the library is ``resume_import_s``. The resumed loader
    saves its position half way through the rest, and another process goes on from there.
    """
    with bench.opened() as (loader, setup_s):
        outcome = bench.outcome(setup_s)
        passes = epochs.measure(bench, outcome, epochs.run_with(bench, loader))
        interrupted = interrupt(loader, len(passes), passes[0])
    if interrupted.before:
        outcome.extra |= {"state_bytes": len(interrupted.state), "save_s": interrupted.save_s}
        first = resume(bench, interrupted, outcome)
        check(bench, interrupted, first.done)
        if first.state is not None:
            again = interrupted.again(first.done, first.state)
            check(bench, again, resume(bench, again, outcome, figures=False).done)
    else:
        bench.oracle.refuse("no-batches", f"epoch {interrupted.epoch} delivered no batch at all")
    return outcome


def resume(
    bench: Bench, interrupted: Interrupted, outcome: Outcome, *, figures: bool = True
) -> RemotePass:
    """Run the rest of an interrupted epoch in a fresh process.

    Args:
        bench: the cell's.
        interrupted: the epoch.
        outcome: gets the figures.
        figures: whether it gets some, and the position is saved again half way.
    """
    order = PassOrder(
        epoch=interrupted.epoch,
        kept=epochs.batches_holding(bench.job, bench.limits.verified_elements),
        stop_after_ns=int(bench.limits.max_seconds * 1e9),
        state=interrupted.state,
        save_after=interrupted.half if figures else None,
    )
    with FreshLoader(bench.reference, {}) as fresh:
        import_s = fresh.answer()
        fresh.open(bench.job, Consumption())
        open_s = fresh.answer()
        fresh.run(order)
        remote: RemotePass = fresh.answer()
    bench.oracle.check_arrivals(interrupted.epoch, remote.arrival_fault)
    bench.note_places(remote.places)
    if figures:
        outcome.extra["resume_import_s"] = import_s
    if figures and remote.done.wait_ns:
        outcome.extra["resume_s"] = open_s + remote.done.wait_ns[0] / 1e9
    return remote


def interrupt(loader: Loader, epoch: int, like: Pass) -> Interrupted:
    """Run an epoch untimed, with another pass's number of batches; save the position half way."""
    found = Interrupted(epoch, complete=like.complete)
    ready, stop = awaiting(loader), max(1, len(like.indices) // 2)
    loader.will_be_saved(stop)
    for number, batch in enumerate(loader.epoch(epoch), 1):
        if ready is not None:
            ready(batch)
        (found.before if number <= stop else found.after).append(np.array(on_host(batch["index"])))
        if number == stop:
            begin = time.perf_counter()
            found.state = loader.state()
            found.save_s = time.perf_counter() - begin
        if number == len(like.indices) and not like.complete:
            break
    return found


def check(bench: Bench, interrupted: Interrupted, resumed: Pass) -> None:
    """Require that the resumed loader delivered exactly the rest, in the same order."""
    oracle, job, epoch = bench.oracle, bench.job, interrupted.epoch
    before, after = stream_of(interrupted.before), stream_of(interrupted.after)
    rest = stream_of(resumed.indices)
    if not (interrupted.complete and resumed.complete):
        common = min(len(after), len(rest))
        after, rest = after[:common], rest[:common]
    if fault := difference(before, after, rest):
        oracle.refuse("resume", f"resumed in a new process after {len(before)} elements, {fault}")
    oracle.check(
        Elements(
            epoch,
            [*interrupted.before, *resumed.indices],
            complete=resumed.complete,
            drop_last=job.drop_last,
            batch_size=job.batch_size,
        )
    )
    oracle.check(*kept_content(epoch, resumed.indices, resumed.kept))


def difference(before: Array, after: Array, rest: Array) -> str | None:
    """Describe the difference of a resumed stream from the rest of the uninterrupted stream."""
    if np.array_equal(after, rest):
        return None
    if (again := np.intersect1d(before, rest)).size:
        return f"{again.size} elements came again, such as element {again[0]}"
    if (lost := np.setdiff1d(after, rest)).size:
        return f"{lost.size} elements were lost, such as element {lost[0]}"
    common = min(len(after), len(rest))
    place = int(np.argmax(np.append(after[:common] != rest[:common], True)))
    return f"the order differs from that of the uninterrupted epoch from place {place} on"
