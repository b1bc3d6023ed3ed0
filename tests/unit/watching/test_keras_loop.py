"""Keras's loops are seen by the requests of their steps, whatever ends an epoch.

Keras and TensorFlow are stand-ins with the few names that the hook uses, as the tests' own venv has
neither; `tests/functional/test_watched_libraries.py` runs the real ones.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from skymark.watching import keras_loop
from skymark.watching.facts import Facts, facts_of
from skymark.watching.recorder import Recorder

STEPS = 6


class EndOfDataError(Exception):
    """A request after the last batch."""


class Owned:
    """TensorFlow's iterator."""

    def __init__(self) -> None:
        self.left = STEPS

    def _next_internal(self) -> int:
        if not self.left:
            raise EndOfDataError
        self.left -= 1
        return self.left


class Epochs:
    """Keras's iterator over steps: each has the iterator of the data set."""

    def __init__(self, *, x: object, steps: int | None, steps_per_execution: int = 1) -> None:
        self.x, self.steps, self.steps_per_execution = x, steps, steps_per_execution

    def _enumerate_iterator(self):
        iterator = Owned()
        number = 0
        while self.steps is None or number < self.steps:
            yield number, number, iterator
            number += 1

    def __iter__(self):
        self.running = self._enumerate_iterator()  # Keras keeps it, also where a request fails
        return self.running


class Photos:
    """Data of a user."""


def asks_once(iterator: Owned) -> None:
    """A step."""
    iterator._next_internal()


def fit(epochs: object, step=asks_once) -> None:
    try:
        for _, _, iterator in epochs:
            step(iterator)
    except EndOfDataError:
        pass


def evaluate(epochs: object) -> None:
    try:
        for _, _, iterator in epochs:
            asks_once(iterator)
    except EndOfDataError:
        pass


@pytest.fixture
def keras(tmp_path, monkeypatch):
    """The hooked stand-in, and the facts on its loops."""
    watch = Recorder(str(tmp_path))
    owned = type("Owned", (Owned,), {"_next_internal": Owned._next_internal})
    monkeypatch.setattr(sys.modules[__name__], "Owned", owned)
    monkeypatch.setitem(
        sys.modules,
        "tensorflow.python.data.ops.iterator_ops",
        SimpleNamespace(OwnedIterator=owned),
    )
    monkeypatch.setattr(keras_loop, "recorder", lambda: watch)
    epochs = type("Epochs", (Epochs,), {"__init__": Epochs.__init__})
    tensorflow = SimpleNamespace(executing_eagerly=lambda: True)
    keras_loop.hook_trainer(SimpleNamespace(TFEpochIterator=epochs, tf=tensorflow))

    def facts() -> list[Facts]:
        watch.finish()
        return facts_of(str(tmp_path))

    yield SimpleNamespace(epochs=epochs, watch=watch, facts=facts)
    watch.finish()


@pytest.mark.parametrize("steps", [STEPS, None], ids=["a known length", "an unknown length"])
def test_every_step_of_every_epoch_counts_and_a_validation_stands_apart(keras, steps):
    training = keras.epochs(x=Photos(), steps=steps)
    validation = keras.epochs(x=Photos(), steps=steps)
    for _ in range(3):
        fit(training)
        evaluate(validation)
    del training.running, validation.running
    (facts,) = keras.facts()
    names = [facts.name, *(name for name, *_ in facts.others)]
    assert {name.partition(" at ")[0] for name in names} == {"Photos in fit", "Photos in evaluate"}
    assert (facts.batches, facts.epochs) == (3 * STEPS, 3)
    assert 0 < facts.start_s + facts.wait_s <= facts.elapsed_s


@pytest.mark.parametrize(
    ("steps_per_execution", "step"),
    [(2, asks_once), (1, lambda iterator: iterator)],
    ids=["several in one call", "a request that the hook does not see"],
)
def test_steps_whose_waits_cannot_be_told_are_no_loop(steps_per_execution, step, keras):
    epochs = keras.epochs(x=Photos(), steps=STEPS, steps_per_execution=steps_per_execution)
    fit(epochs, step)
    assert keras.facts() == []


def test_other_threads_make_batches_for_a_running_loop_and_have_no_loops_of_their_own(keras):
    seen = []

    def step(iterator: Owned) -> None:
        asks_once(iterator)
        thread = threading.Thread(target=lambda: seen.append(keras.watch.is_inside))
        thread.start()
        thread.join()
        seen.append(keras.watch.is_inside)

    fit(keras.epochs(x=Photos(), steps=1), step)
    assert seen == [True, False]
    thread = threading.Thread(target=lambda: seen.append(keras.watch.is_inside))
    thread.start()
    thread.join()
    assert seen[2] is False


def test_a_graph_that_takes_no_further_operation_gets_its_batch():
    def device(name: str) -> None:
        raise ValueError(name)

    tensorflow = SimpleNamespace(
        executing_eagerly=lambda: False, control_dependencies=nullcontext, device=device
    )
    requests = keras_loop._Requests(tensorflow)
    requests._running = object()
    assert requests.ask(lambda: "batch") == "batch"
