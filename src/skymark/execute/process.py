"""The engine's end of a worker: start it, ask it, hold it to a deadline, end its whole tree."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from skymark.measure.process_tree import MARKER_VARIABLE, TreeSampler, kill_tree
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.record import Cause

WORKER_PATH_VARIABLE = "SKYMARK_WORKER_PATH"
"""Directories with modules that a user's own adapter imports, as ``PYTHONPATH`` has them."""

START_TIMEOUT_S = 60.0
"""Time a worker has to start; the adapter's library is imported later."""

GRACE_S = 5.0
"""Time a worker has to close its adapter and leave by itself."""

DIED = "worker-died"
"""Kind of cause of a worker process that ended without being asked to."""


class WorkerError(Exception):
    """The worker did not deliver. `cause` is what the record will say."""

    def __init__(self, cause: Cause, *, timed_out: bool = False, alive: bool = False) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.timed_out = timed_out
        self.alive = alive
        """Whether the worker can go on with the next cell."""


class WorkerProcess:
    """One running worker. Use as a context manager: leaving it ends the whole tree."""

    def __init__(
        self,
        python: Path,
        runner: str,
        adapter: str,
        cache: Path,
        import_root: Path | None,
        log: Path,
    ) -> None:
        self.id = uuid.uuid4().hex
        environment = {**os.environ, MARKER_VARIABLE: self.id, "PYTHONUNBUFFERED": "1"}
        own_modules = os.environ.get(WORKER_PATH_VARIABLE, "")
        root = "" if import_root is None else os.fspath(import_root)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, own_modules)))
        to_worker, self._out = os.pipe()
        self._in, from_worker = os.pipe()
        command = [
            os.fspath(python),
            "-m",
            "skymark.execute.worker",
            *("--receive", str(to_worker), "--send", str(from_worker)),
            *("--runner", runner, "--adapter", adapter, "--cache", os.fspath(cache)),
        ]
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(to_worker, from_worker),
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            os.close(self._out)
            os.close(self._in)
            raise WorkerError(
                Cause(
                    kind="worker-start",
                    message=f"no worker could be started: {error}",
                    action="make the adapter's environment again: skymark env clean, then run",
                )
            ) from error
        finally:
            os.close(to_worker)
            os.close(from_worker)
        self._buffer = b""
        self.leaked: tuple[str, ...] = ()
        """What the worker left running when it had ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def await_ready(self) -> None:
        """Wait until the worker has started.

        Raises:
            WorkerError: it did not.
        """
        self._await("ready", START_TIMEOUT_S)

    def prepare(self, cell: Cell, log: Path, timeout_s: float) -> None:
        """Have the worker make a cell's data.

        Raises:
            WorkerError: it failed, died or took too long.
        """
        self._request(do="prepare", cell=cell.model_dump(mode="json"), log=os.fspath(log))
        self._await("prepared", timeout_s)

    def measure(self, cell: Cell, round: int, effort: Effort, log: Path) -> dict[str, Any]:
        """Have the worker measure one round; returns ``{"result": …, "versions": …}``.

        The process tree is sampled in the timed region only.

        Raises:
            WorkerError: it failed, died or took too long.
        """
        self._request(
            do="measure",
            cell=cell.model_dump(mode="json"),
            round=round,
            effort=effort.model_dump(mode="json"),
            log=os.fspath(log),
        )
        deadline = time.monotonic() + effort.cell_timeout_s
        sampler: TreeSampler | None = None
        try:
            while True:
                message = self._receive(deadline, effort.cell_timeout_s)
                match message["event"]:
                    case "measured":
                        return message
                    case "timed-begins":
                        sampler = TreeSampler(self._process.pid, exclude=message["exclude"])
                        sampler.begin()
                        self._request(do="go")
                    case "timed-ends" if sampler is not None:
                        sampler.end()
                        seen = sampler.resources()
                        self._request(do="go", **seen.model_dump(mode="json"))
                        sampler = None
                    case "failed":
                        raise WorkerError(cause_of(message), alive=True)
        finally:
            if sampler is not None:
                sampler.end()

    def end(self) -> None:
        """End the worker and everything it started; safe to call again."""
        if self._out < 0:
            return
        with contextlib.suppress(WorkerError):
            self._request(do="end")
        os.close(self._out)
        os.close(self._in)
        self._out = -1
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        finally:
            self.leaked = tuple(kill_tree(self._process.pid, marker=self.id))
            self._process.wait()

    def kill(self) -> None:
        """End the whole tree at once."""
        if self._out >= 0:
            kill_tree(self._process.pid, marker=self.id)
            self._process.wait()
            os.close(self._out)
            os.close(self._in)
            self._out = -1

    def _request(self, **message: Any) -> None:
        try:
            os.write(self._out, (json.dumps(message) + "\n").encode())
        except OSError as error:
            raise WorkerError(self._death()) from error

    def _await(self, event: str, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._receive(deadline, timeout_s)
            if message["event"] == event:
                return message
            if message["event"] == "failed":
                raise WorkerError(cause_of(message), alive=True)

    def _receive(self, deadline: float, timeout_s: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
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
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _death(self) -> Cause:
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return Cause(kind="worker-silent", message="the worker closed its pipes but runs on")
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        hint = "the kernel may have been out of memory; " if code == -signal.SIGKILL else ""
        return Cause(
            kind=DIED,
            message=f"the worker process {how}",
            action=f"{hint}see the cell's log",
        )


def cause_of(message: dict[str, Any]) -> Cause:
    """Turn a worker's ``failed`` message into a cause."""
    return Cause(kind=message["kind"], message=message["message"], action="see the cell's log")


def describe_leaks(leaked: Iterable[str]) -> str:
    """Return the left-over processes in words."""
    names = list(leaked)
    return f"{len(names)} process(es) outlived the adapter and were ended: {', '.join(names[:3])}"
