"""The watch inside a process: waits of its loops, stages, samples of its stacks; all to a folder.

Each process writes one `process-PID.json`, and one file of waits for each of its loops. Whoever
asked for the watch reads them (`skymark.watching.facts`).

The loop records one CUDA event when it asks for a batch. The stream reaches it after all earlier
work. The loop records another event when the batch arrives. An empty stream reaches it at once. The
time between both events is the time without work; nobody waits for it.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter_ns, thread_time_ns
from types import FrameType
from typing import Any, Callable
from weakref import ref

from skymark.watching.sampler import HERE, LIBRARIES, Sampler, cpu_by_thread, snapshot, usable_cores
from skymark.watching.stages import StageClock

MOST_OPEN = 512
"""Pairs that the device may be behind; older ones are given up."""


class StreamEvents:
    """Pairs of events on the current stream; read when the device has passed them."""

    def __init__(self, make_event: Callable[[], Any]) -> None:
        """Prepare.

        Args:
            make_event: makes an event with `record()`, `query()` and `elapsed_time(other)` in ms.
        """
        self._make = make_event
        self._asked: Any | None = None
        self._pairs: deque[tuple[Any, Any]] = deque()
        self._free: list[Any] = []
        self.empty_ms = 0.0
        self.pairs = 0

    def asked(self) -> None:
        """Record that a batch is asked for."""
        self._asked = self._free.pop() if self._free else self._make()
        self._asked.record()

    def arrived(self) -> None:
        """Record that it came, and read the pairs that the device has passed."""
        if self._asked is None:
            return
        arrived = self._free.pop() if self._free else self._make()
        arrived.record()
        self._pairs.append((self._asked, arrived))
        self._asked = None
        while self._pairs and self._pairs[0][1].query():
            first, second = self._pairs.popleft()
            self.empty_ms += first.elapsed_time(second)
            self.pairs += 1
            self._free += (first, second)
        if len(self._pairs) > MOST_OPEN:
            self._pairs.popleft()

    def to_json(self) -> dict[str, float]:
        """Return the time without work and the batches that it counts."""
        return {"empty_ms": self.empty_ms, "pairs": self.pairs}


def cuda_events(torch: Any) -> StreamEvents | None:
    """Return events of the current CUDA stream, if the program uses a GPU by now."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    return StreamEvents(lambda: cuda.Event(enable_timing=True))


FOLDER = "SKYMARK_WATCH"
"""Variable with the folder of a watch."""
LOOP = "SKYMARK_WATCH_LOOP"
"""Variable with the loop for which a process is started."""
BATCHES = "SKYMARK_WATCH_BATCHES"
"""Variable with the batches after which the watch ends."""
DONE = "done"
"""File that says that the watch has seen all the batches that it was to see."""
ROW = 4
"""Numbers in a row of waits: epoch, asked and arrived in ns, CPU time meanwhile (-1: not taken).

An epoch starts at the call of `iter`, which is when its first batch counts as asked for. Its last
row has its number inverted: no batch came.
"""
EVERY_CPU = 4
"""Batches of which one has its CPU time taken, which costs as much as the rest of a row."""
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
"""Variables of a process's rank and the number of ranks."""


FUNCTION = "function"
"""Library of a loop whose batches a function of the program makes."""
Kind = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Library, name of the type of the data set, functions and places of a loop."""


class _Known:
    """An object that is kept alive by others only."""

    def __init__(self, known: Any) -> None:
        self._id = id(known)
        self._reference: Callable[[], Any] | None = None
        with suppress(TypeError):  # a list, for example, has no weak references
            self._reference = ref(known)

    @property
    def is_gone(self) -> bool:
        """Whether the object is known to be there no longer."""
        return self._reference is not None and self._reference() is None

    def is_for(self, other: Any) -> bool:
        """Tell whether an object is this one."""
        return self._id == id(other) and not self.is_gone


class Loop:
    """Waits of one loader over its epochs."""

    def __init__(self, number: int, kind: Kind, settings: dict[str, Any]) -> None:
        """Prepare.

        Args:
            number: of the loop in its process.
            kind: of its first epoch.
            settings: of the loader.
        """
        self.number = number
        self.kind = kind
        self.library = kind[0]
        self.name = ", from ".join([" at ".join([kind[1], *kind[3][:1]]), *kind[3][1:]])
        self.settings = settings
        self.has_ended = False
        self.thread = _thread.get_ident()
        self.in_main_thread = _thread.get_native_id() == os.getpid()
        self.epoch = -1
        self.batches = 0
        self.events: StreamEvents | None = None
        self._rows = array("q")

    @property
    def is_function(self) -> bool:
        """Whether a function makes the batches, and no loader."""
        return self.library == FUNCTION

    def iterates(self, source: Any, loader: Any) -> None:
        """Take a data set and its loader as those of the running epoch."""
        self._source, self._loader = _Known(source), _Known(loader)

    def goes_on_with(self, source: Any, loader: Any, kind: Kind, settings: dict[str, Any]) -> bool:
        """Tell whether an epoch with the same settings is one of this loop.

        It is where the loader is the same in the same function. In the same line it is, too, where
        the data set is the same, or was made anew in place of one that is gone. One line may loop
        over several data sets that are there at once.
        """
        if self.settings != settings:
            return False
        if self._loader.is_for(loader) and self.kind[:3] == kind[:3]:
            return True
        renewed = self._source.is_gone or (self.library != "torch" and self.has_ended)
        return self.kind == kind and (renewed or self._source.is_for(source))

    def to_json(self) -> dict[str, Any]:
        """Return everything but the waits."""
        return {
            "number": self.number,
            "library": self.library,
            "name": self.name,
            "settings": self.settings,
            "in_main_thread": self.in_main_thread,
            "events": None if self.events is None else self.events.to_json(),
        }

    def add(self, row: tuple[int, int, int, int]) -> None:
        """Add a row."""
        self._rows.extend(row)

    def write(self, folder: str) -> None:
        """Append the rows since the last call to the loop's file."""
        rows, self._rows = self._rows, array("q")
        if rows:
            path = os.path.join(folder, f"loop-{os.getpid()}-{self.number}.waits")
            with open(path, "ab") as file:
                rows.tofile(file)


class Epoch:
    """One pass over a loader, which `Recorder.next` counts."""

    __slots__ = ("loop", "number", "started_ns")

    def __init__(self, loop: Loop, started_ns: int) -> None:
        self.loop = loop
        self.started_ns = started_ns
        loop.epoch += 1
        self.number = loop.epoch


class Recorder:
    """Everything that the watch knows in this process."""

    def __init__(self, folder: str, batches: int | None = None) -> None:
        """Prepare; nothing is started or written.

        Args:
            folder: that exists.
            batches: after which the watch ends.
        """
        self.folder = folder
        self.clock = StageClock()
        self.batches = batches
        self.is_over = False
        self.made_for: int | None = None
        self.seek: Callable[[], None] | None = None
        self.asks_in_graph: int | None = None  # thread whose loop asks for its batches in a graph
        self._loops: list[Loop] = []
        self._inside: set[int] = set()
        self._inside_functions: set[int] = set()
        self._first: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._threads: dict[str, int] = {}
        self._changed = True
        self._written_active = 0  # looks at running threads that the file has
        self._sampler = Sampler(self._phase, self.flush)
        self._was_running = False
        self._ending: set[int] = set()
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork_here,
            after_in_child=self._after_fork_in_child,
        )

    def wake(self) -> None:
        """Start the thread that looks at the stacks."""
        if not (self._sampler.is_running or self.is_over):
            self._first = self._first or snapshot()
            self._threads = self._threads or cpu_by_thread()
            self._sampler.start()
            util = sys.modules.get("multiprocessing.util")
            if util is not None and os.getpid() not in self._ending:
                self._ending.add(os.getpid())  # its processes do not run `atexit`
                util.Finalize(self, self.finish, exitpriority=100)

    def begin(
        self,
        library: str,
        source: Any,
        settings: dict[str, Any],
        loader: Any = None,
        within: str = "",
    ) -> Epoch:
        """Begin an epoch, before the loader's iterator is made.

        Args:
            library: of the loader.
            source: the data set, or the loader itself.
            settings: of the loader.
            loader: that iterates the source, if there is one beside it.
            within: function of a library that runs the loop.
        """
        started_ns = perf_counter_ns()
        loader = source if loader is None else loader
        name = source.__name__ if library == FUNCTION else type(source).__name__
        kind = (library, f"{name} in {within}" if within else name, *calling_places())
        for loop in self._loops:
            if loop.goes_on_with(source, loader, kind, settings):
                break
        else:
            loop = Loop(len(self._loops), kind, settings)
            self._loops.append(loop)
        loop.iterates(source, loader)
        loop.has_ended = False
        loop.thread = _thread.get_ident()
        if self.seek is not None:  # what came before the loop is no part of it
            self.seek = None
            self._sampler.forget()
            self._first, self._threads = snapshot(), cpu_by_thread()
        self.wake()
        return Epoch(loop, started_ns)

    @property
    def is_awake(self) -> bool:
        """Whether a thread looks at the stacks."""
        return self._sampler.is_running

    @property
    def has_loaders(self) -> bool:
        """Whether a loader of a known library was iterated."""
        return any(not loop.is_function for loop in self._loops)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is waiting for a batch that counts, or makes one for a graph."""
        thread = _thread.get_ident()
        return thread in self._inside or self.asks_in_graph not in {None, thread}

    @contextmanager
    def within(self) -> Iterator[None]:
        """Count no loader that begins meanwhile in this thread."""
        thread = _thread.get_ident()
        self._inside.add(thread)
        try:
            yield
        finally:
            self._inside.discard(thread)

    def changed(self) -> None:
        """Say that there is something new to write."""
        self._changed = True

    def next(self, epoch: Epoch, following: Callable[..., Any], *values: Any) -> Any:
        """Return what a function returns, and note how long that took.

        Inside another call of this method in the same thread nothing is noted.
        """
        loop, thread = epoch.loop, _thread.get_ident()
        inside = self._inside_functions if loop.is_function else self._inside
        if thread in inside or self.is_over:
            return following(*values)
        events = loop.events
        inside.add(thread)
        in_detail = loop.batches % EVERY_CPU == 0
        cpu = thread_time_ns() if in_detail else 0
        asked = perf_counter_ns()
        if events is not None:
            events.asked()
        try:
            batch = following(*values)
        except BaseException:
            inside.discard(thread)
            self.end(epoch, asked)
            raise
        inside.discard(thread)
        if events is not None:
            events.arrived()
        arrived = perf_counter_ns()
        self.note(epoch, asked, arrived, thread_time_ns() - cpu if in_detail else -1)
        return batch

    def note(self, epoch: Epoch, asked: int, arrived: int, cpu: int = -1) -> None:
        """Note a batch: when it was asked for and arrived, and the CPU time meanwhile, in ns."""
        loop = epoch.loop
        if epoch.started_ns:
            asked, epoch.started_ns = epoch.started_ns, 0
        loop.add((epoch.number, asked, arrived, cpu))
        loop.batches += 1
        self._changed = True
        if loop.batches == self.batches:
            self.finish()
            with open(os.path.join(self.folder, DONE), "w", encoding="ascii"):
                pass

    def end(self, epoch: Epoch, asked: int) -> None:
        """Note the end of an epoch, which came in place of a batch that was asked for."""
        epoch.loop.add((~epoch.number, asked, perf_counter_ns(), -1))
        epoch.loop.has_ended = True

    def rest(self) -> None:
        """Write everything, and look at no stack until the next epoch."""
        self._sampler.stop()
        self.flush()

    def finish(self) -> None:
        """End the watch in this process; the program goes on."""
        if self.is_over:
            return
        self._sampler.stop()
        self.flush()
        self.is_over = True

    def flush(self) -> None:
        """Write everything that is known, unless nothing came since the last time."""
        if self.seek is not None and not self._loops:
            self.seek()
        works = not self._loops and self._sampler.active != self._written_active
        if self.is_over or not (self._changed or self._inside or works):
            return
        self._changed = False
        self._written_active = self._sampler.active
        lowest = (self._last or {}).get("shm_free_bytes")
        self._last = snapshot()
        if lowest is not None and "shm_free_bytes" in self._last:
            self._last["shm_free_bytes"] = min(self._last["shm_free_bytes"], lowest)
        for loop in list(self._loops):
            loop.events = loop.events or cuda_events(sys.modules.get("torch"))
            loop.write(self.folder)
        path = os.path.join(self.folder, f"process-{os.getpid()}.json")
        partial = f"{path}.part"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(self._to_json(), file)
        os.replace(partial, path)

    def _to_json(self) -> dict[str, Any]:
        sampler = self._sampler
        now = cpu_by_thread()
        return {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "loop": self.made_for,
            "seeks": self.seek is not None,
            "program": os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else "",
            "python": ".".join(map(str, sys.version_info[:3])),
            "cores": usable_cores(),
            **_rank(),
            "loops": [loop.to_json() for loop in list(self._loops)],
            **self.clock.to_json(),
            "looks": sampler.looks,
            "late_ns": sampler.late_ns,
            "active": sampler.active,
            "stacks": [[*key, count] for key, count in list(sampler.counts.items())],
            "threads": {name: cpu - self._threads.get(name, 0) for name, cpu in now.items()},
            "first": self._first,
            "last": self._last,
        }

    def _phase(self, thread: int) -> str:
        if thread in self._inside or thread in self._inside_functions:
            return "wait"
        if any(loop.thread == thread for loop in list(self._loops)):
            return "step"
        return "work"

    def _before_fork(self) -> None:
        self._was_running = self._sampler.is_running
        self._sampler.stop()

    def _after_fork_here(self) -> None:
        if self._was_running:
            self._sampler.start()

    def _after_fork_in_child(self) -> None:
        """Become a worker: it starts to look at stacks with its first stage."""
        self._sampler.clear()
        self.clock.clear()
        if self._loops:
            self.made_for = max(self._loops, key=lambda loop: loop.batches).number
        loop_given = os.environ.get(LOOP, "")
        self.made_for = int(loop_given) if loop_given.isdigit() else self.made_for
        self.seek = None
        self._loops = []
        self._inside, self._inside_functions = set(), set()
        self._first = self._last = None
        self._threads = {}


def calling_places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the innermost function of the user's and that of the next file, and their lines."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # `inspect` reads whole files
    functions: dict[str, str] = {}
    places: list[str] = []
    while frame is not None and len(places) < 2:
        path = frame.f_code.co_filename
        if not (path.startswith(HERE) or LIBRARIES.search(path) or path in functions):
            functions[path] = f"{path} {frame.f_code.co_name}"
            places.append(f"{os.path.basename(path)}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(functions.values()), tuple(places)


def _rank() -> dict[str, int]:
    for rank, size in RANKS:
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            return {"rank": int(os.environ[rank]), "ranks": int(os.environ[size])}
    return {"rank": 0, "ranks": 1}


@contextmanager
def made_for(epoch: Epoch) -> Iterator[None]:
    """Tell processes that are started meanwhile for which loop they work."""
    before = os.environ.get(LOOP)
    os.environ[LOOP] = str(epoch.loop.number)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(LOOP, None)
        else:
            os.environ[LOOP] = before


_recorders: list[Recorder] = []


def recorder() -> Recorder | None:
    """Return the watch of this process, if there is one."""
    return _recorders[0] if _recorders else None


def start(folder: str, batches: int | None = None) -> Recorder:
    """Start the watch of this process, unless it is watched already."""
    if not _recorders:
        _recorders.append(Recorder(folder, batches))
    return _recorders[0]
