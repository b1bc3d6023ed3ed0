"""Keras's loop on TensorFlow, whose steps ask for their batches inside a graph.

A watched step reads TensorFlow's clock before and after its request, and adds the time between to a
variable. Several steps in one call (`steps_per_execution`) overlap with their requests, so they do
not count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial, wraps
from time import perf_counter_ns
from types import FrameType, ModuleType
from typing import Any, Callable

from skymark.watching.after_import import replace
from skymark.watching.libraries import settings_of
from skymark.watching.recorder import Epoch, Recorder, made_for, recorder

CALLS = ("fit", "evaluate", "predict")
"""Functions of a model that loop over data."""
EVERY_NS = 1_000_000_000
"""Time between two readings of the variable, of which each may wait 10 ms for Python's lock."""


class _Requests:
    """Requests of the running epoch and the time that they take, in graphs and outside."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._in_graphs: Any = None  # seconds and requests
        self._outside = (0.0, 0.0)
        self._running: tuple[Recorder, Epoch] | None = None
        self._steps: list[tuple[int, int]] = []
        self._was_traced = False
        self._last = (0.0, 0.0)  # sums of both at the last reading
        self._last_ns = 0

    def ask(self, request: Callable[[], Any]) -> Any:
        """Carry out a request, or put it into the graph that is made."""
        if self._running is None:
            return request()
        if not self._tensorflow.executing_eagerly():
            return self._ask_in_graph(request)
        asked = perf_counter_ns()
        batch = request()
        waited_s = (perf_counter_ns() - asked) / 1e9
        self._outside = self._outside[0] + waited_s, self._outside[1] + 1
        return batch

    def _ask_in_graph(self, request: Callable[[], Any]) -> Any:
        tensorflow, before = self._tensorflow, []
        self._was_traced = True
        # A graph that takes no further operation is made as without a watch, and does not count.
        with suppress(Exception), tensorflow.device("CPU:0"):
            if self._in_graphs is None:
                with tensorflow.init_scope():
                    self._in_graphs = tensorflow.Variable([0.0, 0.0], False, dtype="float64")
            before.append(tensorflow.timestamp())
        with tensorflow.control_dependencies(before):
            batch = request()
        with suppress(Exception):
            elements = tensorflow.nest.flatten(batch, expand_composites=True)
            parts = [element for element in elements if element is not None]
            with tensorflow.control_dependencies(parts), tensorflow.device("CPU:0"):
                waited = tensorflow.timestamp() - before[0]
                self._in_graphs.assign_add(tensorflow.stack([waited, 1.0]))
        return batch

    def begin(self, watch: Recorder, epoch: Epoch) -> None:
        """Count for an epoch. One that was left at the end of its data is over."""
        self.settle()
        self._running = watch, epoch
        watch.asks_in_graph = epoch.loop.thread

    def end(self, watch: Recorder, epoch: Epoch) -> None:
        """Count for an epoch no longer."""
        if self._running == (watch, epoch):
            self.settle()
            self._running = watch.asks_in_graph = None

    def add(self, epoch: Epoch, asked: int) -> None:
        """Take a step that is over."""
        now = perf_counter_ns()
        self._steps.append((asked, now))
        if epoch.started_ns or now - self._last_ns > EVERY_NS:
            self.settle()

    def settle(self) -> None:
        """Note the steps since the last call. Each waited for the same part of its time."""
        steps, self._steps = self._steps, []
        in_graphs = (0.0, 0.0) if self._in_graphs is None else self._in_graphs.numpy()
        before_s, before = self._last
        self._last = float(in_graphs[0]) + self._outside[0], float(in_graphs[1]) + self._outside[1]
        self._last_ns = perf_counter_ns()
        was_traced, self._was_traced = self._was_traced, False
        if self._running is None or not steps or self._last[1] == before:
            return
        watch, epoch = self._running
        if was_traced and epoch.started_ns:  # the making of the graph is no step
            epoch.started_ns = self._last_ns
            return
        whole_ns = sum(ended - asked for asked, ended in steps)
        part = min((self._last[0] - before_s) * 1e9 / whole_ns, 1.0)
        for asked, ended in steps:
            watch.note(epoch, asked, asked + round(part * (ended - asked)))


def hook_trainer(module: ModuleType) -> None:
    """Count the steps of the loops over data that Keras runs on TensorFlow."""
    epochs = module.TFEpochIterator
    iterators = sys.modules["tensorflow.python.data.ops.iterator_ops"]
    requests = _Requests(module.tf)

    def make_init(original: Any) -> Any:
        @wraps(original)
        def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
            self._skymark_data = named.get("x")
            watch = recorder()
            if watch is None:
                original(self, *values, **named)
                return
            with watch.within():  # the first batches tell Keras their shapes
                original(self, *values, **named)

        return __init__

    def make_next(original: Any) -> Any:
        @wraps(original)
        def _next_internal(self: Any) -> Any:
            return requests.ask(partial(original, self))

        return _next_internal

    # Until Keras 3.6 at least, the steps of TensorFlow have a function of their own.
    name = "enumerate_epoch" if "enumerate_epoch" in vars(epochs) else "_enumerate_iterator"
    plain = getattr(epochs, name)

    def enumerate_steps(self: Any) -> Iterator[Any]:
        return _steps(self, plain(self), requests)

    replace(epochs, "__init__", make_init)
    replace(iterators.OwnedIterator, "_next_internal", make_next)
    setattr(epochs, name, enumerate_steps)


def _steps(epochs: Any, steps: Iterator[Any], requests: _Requests) -> Iterator[Any]:
    """Yield the steps of an epoch, and note how long each waits for its batches."""
    watch = recorder()
    if watch is None or watch.is_over or watch.is_inside:
        yield from steps
        return
    data = epochs._skymark_data  # noqa: SLF001
    library, settings = settings_of(data)
    source = getattr(data, "dataset", data)
    epoch = watch.begin(library, source, settings, epochs, within=_call())
    requests.begin(watch, epoch)
    try:
        while True:
            asked = perf_counter_ns()
            with watch.within(), made_for(epoch):
                step = next(steps, None)
            if step is None:
                requests.settle()
                if not epoch.started_ns:  # a request was seen
                    watch.end(epoch, asked)
                return
            asked = perf_counter_ns()
            yield step
            if epochs.steps_per_execution == 1 and not watch.is_over:
                requests.add(epoch, asked)
    finally:
        requests.end(watch, epoch)


def _call() -> str:
    """Return the name of the function of a model that runs the loop."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # `inspect` reads whole files
    while frame is not None and frame.f_code.co_name not in CALLS:
        frame = frame.f_back
    return frame.f_code.co_name if frame else CALLS[0]
