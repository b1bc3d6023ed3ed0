"""The worker process: a runner of cells, or their judge, alone or forked from a parent.

It is started alone, or forked from a parent that has made the runner (`skymark.execute.worker`).

Standard output and error belong to the library under test; the engine reads them and writes the
cell's log (`skymark.execute.starting`). It speaks over two other file descriptors
(`skymark.execute.messages`).

It runs in the adapter's venv. A fork copies a process's memory, and of its threads only the caller.
A parent with other threads therefore serves the first worker itself. `obstacle` has all conditions.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import subprocess
import sys
import traceback
import warnings
from multiprocessing import popen_fork
from pathlib import Path
from typing import Any, NoReturn, TextIO

from skymark.execute.messages import (
    REQUESTS,
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
    Serve,
    Serving,
    TimedRegionBegins,
    TimedRegionEnds,
    WorkerEnded,
    line_of,
)
from skymark.execute.seen_devices import SeenDevices
from skymark.machine.children import PARENT_VARIABLE, die_with, leave
from skymark.machine.disk import MappedFiles
from skymark.model.errors import SkymarkError
from skymark.model.record import Resources
from skymark.resources import load_object
from skymark.suite import contract

PACKET_BYTES = 1 << 16
DESCRIPTORS = 2
"""Number of descriptors in a request: a worker's two pipes."""
PROCESS = Path("/proc/self")
DEVICES = ("/dev/nvidia", "/dev/accel", "/dev/vfio", "/dev/dri", "/dev/kfd")
"""Beginnings of the device files of accelerators."""
KERNEL_OBJECTS = ("socket:", "anon_inode:")
"""Beginnings of descriptors that all forks would share: connections and event queues."""


class Parent:
    """Forks workers one at a time, each from the same state."""

    def __init__(self, control: socket.socket, works: Any) -> None:
        """Set up the parent.

        Args:
            control: socket of the engine's requests.
            works: the runner; None if it could not be made.
        """
        self._control = control
        self._works = works

    def next_worker(self) -> Channel | None:
        """Return a worker's channel in the worker's process; None in the parent at the end.

        Returns once in each fork. A parent that cannot be forked returns as the worker itself.
        """
        hindered = obstacle(self._works, self._control.fileno())
        files = MappedFiles() if hindered is None else None
        if files is not None:
            files.drop()
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, DESCRIPTORS)
            if not packet:
                return None
            request = Serve.model_validate_json(packet)
            if files is None:
                self._tell(Serving(pid=os.getpid(), obstacle=hindered))
                return Channel(*descriptors)
            parent = os.getpid()
            if (pid := os.fork()) == 0:
                os.setsid()
                die_with(parent)
                files.map_again()
                self._works.forked(first=request.first)
                self._tell(Serving(pid=os.getpid()))
                self._control.close()
                return Channel(*descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            _, status = os.waitpid(pid, 0)
            self._tell(WorkerEnded(code=os.waitstatus_to_exitcode(status)))

    def _tell(self, news: Serving | WorkerEnded) -> None:
        self._control.send(line_of(news).encode())


def obstacle(works: Any, control: int) -> str | None:
    """Return the reason not to fork this process after its import; None without one.

    Args:
        works: the runner; its `forks` says whether its library allows it.
        control: the descriptor of the engine's socket, which does not count.
    """
    if works is None or not getattr(works, "forks", False):
        return "its library does not allow it"
    if held := [one for one in _descriptors(control) if one.startswith(DEVICES + KERNEL_OBJECTS)]:
        return f"the import opened {', '.join(sorted(set(held)))}"
    if _has_children():
        return "the import started a process"
    _fork_and_end()
    if threads := len(list((PROCESS / "task").iterdir())) - 1:
        return f"the import started {threads} thread(s)"
    return None


def _descriptors(control: int) -> list[str]:
    """Return the open descriptors of this process, without the engine's socket."""
    found = []
    for one in (PROCESS / "fd").iterdir():
        try:
            if int(one.name) != control:
                found.append(str(one.readlink()))
        except OSError:  # the descriptor by which the folder is read
            continue
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _fork_and_end() -> None:
    """Fork once for nothing: a thread pool that survives forks, such as OpenBLAS's, ends before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (pid := os.fork()) == 0:
            os._exit(0)
    os.waitpid(pid, 0)


class Channel:
    """The worker's end of the two pipes."""

    def __init__(self, receive: int, send: int) -> None:
        self._receive: TextIO = os.fdopen(receive, "r")
        self._send: TextIO = os.fdopen(send, "w")
        for descriptor in (receive, send):
            # A library's own worker processes must not hold the engine's pipes open.
            os.set_inheritable(descriptor, False)

    def send(self, event: Event) -> None:
        """Send a message to the engine."""
        self._send.write(line_of(event))
        self._send.flush()

    def receive(self) -> Request:
        """Wait for the engine's next request; if the engine is gone, return `End`."""
        line = self._receive.readline()
        return REQUESTS.validate_json(line) if line else End()


class WorkerSession:
    """Carries out the engine's requests, one cell at a time."""

    def __init__(
        self, channel: Channel, works: contract.Runner | contract.Judge, output: int
    ) -> None:
        self.channel = channel
        self.works: Any = works
        self.output = output
        """Descriptor that the engine reads what is printed from."""

    def serve(self) -> None:
        """Work until the engine sends `End` or is gone."""
        while isinstance(request := self.channel.receive(), (Prepare, Measure, JudgeRound, See)):
            print_into(self.output)
            try:
                match request:
                    case Prepare():
                        self.works.prepare(request.cell)
                        self.channel.send(Prepared())
                    case Measure():
                        self.measure(request)
                    case JudgeRound():
                        self.judge(request)
                    case See():
                        self.see(request)
            except Exception as error:  # the process boundary: becomes the record
                traceback.print_exc()
                for number in sorted(signals_of_children()):
                    sys.stderr.write(f"a process of the library was killed by signal {number}\n")
                self.channel.send(failure(error))

    def measure(self, request: Measure) -> None:
        """Measure one round and send its result."""
        region = SampledRegion(self.channel)
        result = self.works.measure(request.cell, request.round, request.effort, region)
        versions = self.works.versions()
        self.channel.send(Measured(result=result, versions=versions, evidence=region.evidence))

    def judge(self, request: JudgeRound) -> None:
        """Judge one round and send the verdict."""
        verdict = self.works.judge(request.cell, request.claim, request.evidence, request.seen)
        self.channel.send(Judged(verification=verdict))

    def see(self, request: See) -> None:
        """Send the accelerators that a library computes on."""
        from skymark.execute.device_program import answer_of

        answer = answer_of(request.library, request.platform, request.measured)
        self.channel.send(Saw(seen=SeenDevices.model_validate(answer)))


class SampledRegion:
    """The timed region, in which the engine samples the process tree, and only there.

    Implements `skymark.suite.contract.TimedRegion`.
    """

    def __init__(self, channel: Channel) -> None:
        self.evidence: Path | None = None
        self.slices: tuple[tuple[int, int], ...] = ()
        self._channel = channel
        self._exclude: tuple[int, ...] = ()
        self._cpu_s = 0.0

    def begins(self, exclude: tuple[int, ...] = (), *, in_slices: bool = False) -> bool:
        """Wait until the engine is sampling, then record the present CPU time."""
        from skymark.measure.process_tree import cpu_seconds_of_tree

        self._exclude = exclude
        self._channel.send(TimedRegionBegins(exclude=exclude, in_slices=in_slices))
        answer = self._channel.receive()
        self._cpu_s = cpu_seconds_of_tree(os.getpid(), exclude)
        return isinstance(answer, Go) and answer.slices is not None

    def ends(self) -> Resources:
        """Return the tree's resources; the engine adds the peak of memory."""
        from skymark.measure.process_tree import cpu_seconds_of_tree

        used_s = cpu_seconds_of_tree(os.getpid(), self._exclude) - self._cpu_s
        # The cost of the query is subtracted, which is only known to some µs.
        cpu_s = max(0.0, used_s)
        self._channel.send(TimedRegionEnds())
        answer = self._channel.receive()
        go = answer if isinstance(answer, Go) else Go()
        seen, self.slices = go.seen, go.slices or ()
        return seen.model_copy(update={"cpu_s": cpu_s})

    def hand_over(self, evidence: Path) -> None:
        """Remember the round's evidence for a judge."""
        self.evidence = evidence


def signals_of_children() -> set[int]:
    """Return the signals that ended child processes, from Python's own objects.

    A library that lost a process may not report the signal.
    """
    kinds = (subprocess.Popen, popen_fork.Popen)
    processes = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    codes = [one.poll() for one in processes]
    return {-code for code in codes if code is not None and code < 0}


def failure(error: Exception) -> Failed:
    """Turn an exception into the kind and message of a cause."""
    if isinstance(error, SkymarkError):
        return Failed(kind=type(error).__name__, message=str(error))
    text = "".join(traceback.format_exception_only(error)).strip()
    return Failed(kind=type(error).__name__, message=text)


def print_into(output: int) -> None:
    """Send standard output and error to the engine, even if a library has redirected them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(output, 2)


def main() -> None:
    """Run a worker; `skymark.execute.starting` is the engine's end."""
    parser = argparse.ArgumentParser(prog="skymark-worker")
    parser.add_argument("--receive", type=int)
    parser.add_argument("--send", type=int)
    parser.add_argument("--control", type=int, help="a socket, for a parent of workers")
    parser.add_argument("--runner", required=True, help="module:Class of a Runner or a Judge")
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    die_with(int(os.environ.get(PARENT_VARIABLE) or os.getppid()))
    output = os.dup(1)  # not inherited by what a library starts
    if arguments.control is not None:
        serve_as_parent(arguments, output)
    channel = Channel(arguments.receive, arguments.send)
    request = channel.receive()
    if isinstance(request, Begin):
        serve(channel, made(arguments, request), output)


def serve_as_parent(arguments: argparse.Namespace, output: int) -> NoReturn:
    """Make the runner, and serve in each fork; the parent leaves when the engine is gone."""
    control = socket.socket(fileno=arguments.control)
    control.set_inheritable(False)
    request = REQUESTS.validate_json(control.recv(PACKET_BYTES) or line_of(End()))
    if isinstance(request, Begin):
        works = made(arguments, request)
        runner = None if isinstance(works, Failed) else works
        if (channel := Parent(control, runner).next_worker()) is not None:
            print_into(output)
            serve(channel, works, output)
    leave()


def made(arguments: argparse.Namespace, request: Begin) -> Any:
    """Return the runner or judge, or the failure to make it."""
    try:
        return load_object(arguments.runner)(request.cell, arguments.cache, request.platform)
    except Exception as error:  # the process boundary: becomes the record
        traceback.print_exc()
        return failure(error)


def serve(channel: Channel, works: Any, output: int) -> NoReturn:
    """Carry out the engine's requests and exit; without a runner, exit at once."""
    if isinstance(works, Failed):
        channel.send(works)
        leave()
    channel.send(Ready())
    try:
        WorkerSession(channel, works, output).serve()
    finally:
        works.close()
    leave()


if __name__ == "__main__":
    main()
