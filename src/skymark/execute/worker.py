"""The worker process: one adapter in its own environment, told what to do over a pair of pipes.

Standard output and error belong to the library under test and go to the cell's log. The engine
speaks over two other file descriptors, one JSON object a line.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.errors import SkymarkError
from skymark.model.record import Resources
from skymark.references import load_object
from skymark.suite.contract import Runner


class Channel:
    """The worker's end of the two pipes."""

    def __init__(self, receive: int, send: int) -> None:
        self._receive: TextIO = os.fdopen(receive, "r")
        self._send: TextIO = os.fdopen(send, "w")
        for descriptor in (receive, send):
            # A library's own worker processes must not hold the engine's pipes open.
            os.set_inheritable(descriptor, False)

    def send(self, event: str, **fields: Any) -> None:
        """Tell the engine something."""
        self._send.write(json.dumps({"event": event, **fields}) + "\n")
        self._send.flush()

    def receive(self) -> dict[str, Any] | None:
        """Wait for the engine's next message; None when the engine is gone."""
        line = self._receive.readline()
        return json.loads(line) if line else None


class Session:
    """Carries out the engine's requests, one cell at a time."""

    def __init__(self, channel: Channel, runner: Runner) -> None:
        self.channel = channel
        self.runner = runner

    def serve(self) -> None:
        """Work until the engine says so or is gone."""
        while (request := self.channel.receive()) is not None and request["do"] != "end":
            redirect_output(Path(request["log"]))
            cell = Cell.model_validate(request["cell"])
            try:
                if request["do"] == "prepare":
                    self.runner.prepare(cell)
                    self.channel.send("prepared")
                else:
                    self.measure(cell, request)
            except Exception as error:  # the process boundary: becomes the record
                traceback.print_exc()
                self.channel.send("failed", **describe(error))

    def measure(self, cell: Cell, request: dict[str, Any]) -> None:
        """Measure one round and send its result."""
        effort = Effort.model_validate(request["effort"])
        clock = TimedRegion(self.channel)
        result = self.runner.measure(cell, request["round"], effort, clock.begins, clock.ends)
        self.channel.send(
            "measured",
            result=result.model_dump(mode="json"),
            versions=self.runner.versions(),
        )


class TimedRegion:
    """Marks the timed region, so that the engine samples the process tree in it and only there."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._cpu_s = 0.0

    def begins(self, exclude: tuple[int, ...] = ()) -> None:
        """Wait until the engine is sampling, then note the CPU time used so far.

        `exclude` are processes that serve the benchmark and are not the library's.
        """
        from skymark.measure.process_tree import cpu_seconds_of_tree

        self._exclude = exclude
        self._channel.send("timed-begins", exclude=list(exclude))
        self._channel.receive()
        self._cpu_s = cpu_seconds_of_tree(os.getpid(), exclude)

    def ends(self) -> Resources:
        """Return what the tree used; the engine adds the peak of memory that it saw."""
        from skymark.measure.process_tree import cpu_seconds_of_tree

        cpu_s = cpu_seconds_of_tree(os.getpid(), self._exclude) - self._cpu_s
        self._channel.send("timed-ends")
        seen = self._channel.receive() or {}
        return Resources(
            cpu_s=cpu_s,
            peak_pss_bytes=seen.get("peak_pss_bytes"),
            processes=seen.get("processes"),
        )


def describe(error: Exception) -> dict[str, str | None]:
    """Turn an exception into the kind, message and action of a cause."""
    if isinstance(error, SkymarkError):
        return {"kind": type(error).__name__, "message": str(error)}
    text = "".join(traceback.format_exception_only(error)).strip()
    return {"kind": type(error).__name__, "message": text}


def die_with_engine() -> None:
    """Have the kernel end this process when its engine ends, even if that was killed (prctl(2)).

    Else an adapter that hangs would live on, and disturb whatever is measured next.
    """
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def redirect_output(log: Path) -> None:
    """Send this process's standard output and error to a file, at its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def main() -> None:
    """Run a worker; see `skymark.execute.process` for the other end."""
    parser = argparse.ArgumentParser(prog="skymark-worker")
    parser.add_argument("--receive", type=int, required=True)
    parser.add_argument("--send", type=int, required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    die_with_engine()
    channel = Channel(arguments.receive, arguments.send)
    try:
        runner: Runner = load_object(arguments.runner)(arguments.adapter, arguments.cache)
    except Exception as error:  # the process boundary: becomes the record
        traceback.print_exc()
        channel.send("failed", **describe(error))
        return
    channel.send("ready")
    try:
        Session(channel, runner).serve()
    finally:
        runner.close()


if __name__ == "__main__":
    main()
