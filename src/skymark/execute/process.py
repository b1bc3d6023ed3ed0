"""The engine's end of a worker: start it, send requests, enforce deadlines, end its whole tree."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from skymark.execute.machine_fault import LOOK_S, RoundWatch
from skymark.execute.messages import (
    EVENTS,
    Begin,
    End,
    Event,
    Failed,
    Go,
    Judged,
    JudgeRound,
    Measure,
    Measured,
    Prepare,
    Prepared,
    Ready,
    Request,
    Saw,
    See,
    TimedRegionBegins,
    TimedRegionEnds,
    line_of,
)
from skymark.execute.seen_devices import SeenDevices
from skymark.execute.slices import LiveRound, live_s
from skymark.execute.starting import ForkedWorker, WorkerKind, WorkerOutput, WorkerParent, launched
from skymark.machine.processes import kill_tree
from skymark.measure.gpu_sampler import GpuSampler
from skymark.measure.machine_watch import MachineWatch
from skymark.measure.process_tree import TreeSampler
from skymark.model.effort import Effort
from skymark.model.record import Cause, Cell, MachineUse, RoundResult, Verification
from skymark.suite.contract import ObservedRound, SeenBy

START_TIMEOUT_S = 60.0
"""Least time a worker has to start."""

GRACE_S = 5.0
"""Time a worker has to close its adapter and leave by itself."""

SETTLE_S = 5.0
"""Time for a worker's helpers to end after it: a fork server that has imported PyTorch takes more
than a second of CPU time to exit."""

DEATH_S = 5.0
"""Time for a killed process between closing its files and becoming reapable."""

LONGEST_SHOWN = 80
"""Bytes of an invalid message to show in a cause."""

Wanted = TypeVar("Wanted", bound=Event)

DIED = "worker-died"
"""Kind of cause of a worker process that ended without being asked to."""


class WorkerError(Exception):
    """Failure of a worker, with the `cause` for the record."""

    def __init__(self, cause: Cause, *, timed_out: bool = False, alive: bool = False) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.timed_out = timed_out
        self.alive = alive
        """Whether the worker can go on with the next cell."""


@dataclass(frozen=True)
class MeasuredRound:
    """A round as reported by its worker, and as observed by the engine."""

    told: Measured
    seen: ObservedRound
    machine: MachineUse | None = None
    """Use of the processors by others meanwhile."""


class WorkerProcess:
    """One running worker. `end` or `kill` end the whole tree."""

    def __init__(
        self, kind: WorkerKind, cell: Cell, log: Path, parent: WorkerParent | None = None
    ) -> None:
        """Start the worker.

        Args:
            kind: interpreter, code and device.
            cell: any cell of its first group.
            log: file for its output until the first cell.
            parent: parent to fork it from; None for a new process.

        Raises:
            WorkerError: there is no such interpreter, or it cannot be started.
        """
        self.kind = kind
        self.id = uuid.uuid4().hex if parent is None else parent.id
        """The marker of its processes."""
        self.measured: set[str] = set()
        """Ids of the cells in its requests to measure."""
        self.has_started = False
        """Whether it has ever been ready; it may have ended since."""
        self._process: subprocess.Popen[bytes] | ForkedWorker
        to_worker, self._out = os.pipe()
        self._in, from_worker = os.pipe()
        try:
            if parent is None:
                pipes = ("--receive", str(to_worker), "--send", str(from_worker))
                self._output = WorkerOutput(log)
                ends = (to_worker, from_worker)
                self._process = launched(kind, self.id, self._output, pipes, ends)
            else:
                self._output = parent.output
                self._process = parent.serve(log, to_worker, from_worker)
        except OSError as error:
            os.close(self._out)
            os.close(self._in)
            raise WorkerError(not_started(error)) from error
        finally:
            os.close(to_worker)
            os.close(from_worker)
        self._buffer = b""
        self.leaked: tuple[str, ...] = ()
        """Processes that the worker left running at its end."""
        if parent is None:
            with contextlib.suppress(WorkerError):  # `await_ready` reports its death
                self._request(Begin(cell=cell, platform=kind.platform))

    @property
    def is_running(self) -> bool:
        """Whether it is alive; it may still be starting."""
        return self._out >= 0 and self._process.poll() is None

    @property
    def killed_by(self) -> int | None:
        """The signal that ended it; None while it runs, or without a signal."""
        code = self._process.poll()
        return -code if code is not None and code < 0 else None

    @property
    def is_ready(self) -> bool:
        """Whether it has started and is alive."""
        return self.has_started and self.is_running

    def death(self) -> Cause | None:
        """Return the cause of a worker that has just died; None if it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(DEATH_S)
            return self._death()
        return None

    def await_ready(self, timeout_s: float = 0.0) -> None:
        """Wait until the worker has started and imported its library.

        Args:
            timeout_s: time limit, if more than `START_TIMEOUT_S`.

        Raises:
            WorkerError: it did not start in time.
        """
        if not self.has_started:
            self._await(Ready, max(START_TIMEOUT_S, timeout_s))
            self.has_started = True

    def prepare(self, cell: Cell, log: Path, timeout_s: float) -> None:
        """Have the worker make a cell's data.

        Raises:
            WorkerError: it failed, died or took too long.
        """
        self._output.turn_to(log)
        self._request(Prepare(cell=cell))
        self._await(Prepared, timeout_s)

    def measure(
        self,
        cell: Cell,
        round: int,
        effort: Effort,
        log: Path,
        *,
        on_gpu: bool = False,
        watch: RoundWatch | None = None,
        when_ready: Callable[[LiveRound], None] | None = None,
    ) -> MeasuredRound:
        """Have the worker measure one round.

        The process tree and the GPUs are sampled in the timed region only. The loss of a GPU ends
        the worker, which could otherwise hang until its deadline.

        Args:
            cell: a cell of the worker's group.
            round: number of the round.
            effort: bounds of the round.
            log: file for the library's output.
            on_gpu: whether the cell's library computes on NVIDIA GPUs.
            watch: inspects the worker while it does not answer; None for no inspection.
            when_ready: called when the timed region can begin. It may have the region begin in
                slices and measure another round meanwhile, whose time does not count.

        Raises:
            WorkerError: it failed, died, hangs or took too long.
        """
        self.measured.add(cell.id)
        if isinstance(self._process, ForkedWorker):
            self._process.parent.has_measured = True
        self._output.turn_to(log)
        self._request(Measure(cell=cell, round=round, effort=effort))
        deadline = time.monotonic() + effort.cell_timeout_s
        sampler: TreeSampler | None = None
        live: LiveRound | None = None
        begin, seen, machine = 0.0, ObservedRound(), None
        gpus = GpuSampler(self._process.kill, on=on_gpu)

        def start(slices: tuple[()] | None = None) -> None:
            nonlocal begin
            assert sampler is not None
            sampler.begin()
            gpus.begin()
            begin = time.monotonic()
            self._request(Go(slices=slices))

        try:
            while True:
                match event := self._receive(deadline, effort.cell_timeout_s, watch):
                    case Measured():
                        return MeasuredRound(event, seen, machine)
                    case TimedRegionBegins():
                        sampler = TreeSampler(
                            self._process.pid,
                            exclude=event.exclude,
                            forked_from=next(iter(self._spared), None),
                            machine=MachineWatch(self.id),
                        )
                        if when_ready is not None:
                            names = self._process.pid, self.id
                            live = LiveRound(*names, self._in, start, in_slices=event.in_slices)
                            waiting = time.monotonic()
                            when_ready(live)
                            deadline += time.monotonic() - waiting
                        if not begin:
                            start()
                    case TimedRegionEnds() if sampler is not None:
                        slices = None if live is None else live.told
                        wall_s = time.monotonic() - begin if slices is None else live_s(slices)
                        used = gpus.end()
                        sampler.end()
                        if slices is None:  # else the other side's processes are among others
                            machine = sampler.machine_use()
                        resources = sampler.resources().model_copy(update={"gpus": used})
                        seen = ObservedRound(
                            wall_s=wall_s,
                            resources=resources,
                            taken_share=None if machine is None else machine.taken_share,
                        )
                        self._request(Go(seen=seen.resources, slices=slices))
                        sampler = None
                    case Failed():
                        raise WorkerError(cause_of(event), alive=True)
        finally:
            gpus.close()
            if sampler is not None:
                sampler.end()

    def judge(
        self,
        cell: Cell,
        claim: RoundResult,
        evidence: Path,
        seen: ObservedRound,
        log: Path,
        timeout_s: float,
    ) -> Verification:
        """Have a judge judge one round; see `skymark.suite.contract.Judge`.

        Raises:
            WorkerError: it failed, died or took too long.
        """
        self._output.turn_to(log)
        self._request(JudgeRound(cell=cell, claim=claim, evidence=evidence, seen=seen))
        judged = self._await(Judged, timeout_s)
        return judged.verification

    def ask(self, library: SeenBy, measured: tuple[str, ...]) -> None:
        """Request the accelerators that a library computes on; `answer` waits for them.

        Args:
            library: library to query; it keeps the device until the worker ends.
            measured: modules to be measured; without any of them installed, nothing is queried.
        """
        platform = self.kind.platform
        request = See(library=library, platform=platform, measured=measured)
        with contextlib.suppress(WorkerError):  # `answer` reports its death
            self._request(request)

    def answer(self, timeout_s: float) -> SeenDevices:
        """Return the requested accelerators, once the worker is ready.

        Raises:
            WorkerError: it died or took too long.
        """
        return self._await(Saw, timeout_s).seen

    def end(self) -> None:
        """End the worker and everything it started; safe to call again."""
        if self._out < 0:
            return
        with contextlib.suppress(WorkerError):
            self._request(End())
        os.close(self._out)
        os.close(self._in)
        self._out = -1
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        finally:
            self.leaked = kill_tree(
                self._process.pid, marker=self.id, settle_s=SETTLE_S, spared=self._spared
            )
            self._process.wait()
            self._close_output()

    def kill(self) -> None:
        """End the whole tree at once."""
        if self._out >= 0:
            kill_tree(self._process.pid, marker=self.id, spared=self._spared)
            self._process.wait()
            self._close_output()
            os.close(self._out)
            os.close(self._in)
            self._out = -1

    def _close_output(self) -> None:
        """Write the output of its processes to the log; a parent's pipe stays open."""
        if isinstance(self._process, ForkedWorker):
            self._output.flush()
        else:
            self._output.close()

    @property
    def _spared(self) -> tuple[int, ...]:
        """The process id of its living parent; empty without one."""
        process = self._process
        if isinstance(process, ForkedWorker) and process.is_forked:
            return (process.parent.pid,)
        return ()

    def _request(self, request: Request) -> None:
        try:
            os.write(self._out, line_of(request).encode())
        except OSError as error:
            raise WorkerError(self._death()) from error

    def _await(self, wanted: type[Wanted], timeout_s: float) -> Wanted:
        deadline = time.monotonic() + timeout_s
        while not isinstance(event := self._receive(deadline, timeout_s), wanted):
            if isinstance(event, Failed):
                raise WorkerError(cause_of(event), alive=True)
        return event

    def _receive(self, deadline: float, timeout_s: float, watch: RoundWatch | None = None) -> Event:
        """Return the worker's next event.

        Raises:
            WorkerError: no event came in time, the worker has ended, or a line is no event.
        """
        try:
            self._await_line(deadline, timeout_s, watch)
        finally:
            self._output.flush()
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return EVENTS.validate_json(line)
        except ValidationError as error:
            shown = line[:LONGEST_SHOWN].decode(errors="replace")
            raise WorkerError(
                Cause(
                    kind="worker-garbage",
                    message=f"the worker sent an invalid message: {shown!r}",
                    action="see the cell's log; an adapter must not write to descriptors that it "
                    "did not open",
                )
            ) from error

    def _await_line(self, deadline: float, timeout_s: float, watch: RoundWatch | None) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                look = left if watch is None else min(left, LOOK_S)
                if left > 0 and not selector.select(look):
                    if watch is not None and (fault := watch.look(self._process.pid)):
                        raise WorkerError(fault)
                    continue
                if left <= 0:
                    raise WorkerError(
                        Cause(
                            kind="timeout",
                            message=f"no result within {timeout_s:g} s; its processes were ended",
                            action="give it more time with --timeout, or a smaller variant",
                        ),
                        timed_out=True,
                    )
                data = os.read(self._in, 1 << 20)
                if not data:
                    raise WorkerError(self._death())
                self._buffer += data

    def _death(self) -> Cause:
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return Cause(kind="worker-silent", message="the worker closed its pipes but runs on")
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        hint = "the kernel may have been out of memory; " if code == -signal.SIGKILL else ""
        is_lost = isinstance(self._process, ForkedWorker) and self._process.lost_parent
        who = "process that the worker was forked from" if is_lost else "worker process"
        return Cause(
            kind=DIED,
            message=f"the {who} {how}",
            action=f"{hint}see the cell's log",
        )


def not_started(error: OSError) -> Cause:
    """Return the cause of a cell whose process could not be started."""
    return Cause(
        kind="worker-start",
        message=f"no worker could be started: {error}",
        action="make the adapter's venv again: skymark env clean, then run",
    )


def cause_of(failed: Failed) -> Cause:
    """Turn a worker's failure into a cause."""
    return Cause(kind=failed.kind, message=failed.message, action="see the cell's log")


def describe_leaks(leaked: Iterable[str]) -> str:
    """Return the left-over processes in words."""
    names = list(leaked)
    return f"{len(names)} process(es) outlived the adapter and were ended: {', '.join(names[:3])}"
