"""One loader of a user's function, consumed as a training loop would: for `skymark tune`.

The other end of two pipes gives the order and says when to count. Between batches the process
sleeps for the time of a step.
"""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from time import perf_counter_ns, sleep
from typing import Any, Callable, TextIO

from skymark.watching.libraries import settings_of
from skymark.watching.loop import watch
from skymark.watching.recorder import FOLDER

LEAST_WARM_UP = 4
"""Batches before the count: worker processes start and caches fill meanwhile."""
DEPTH = 3
"""Levels of a batch in which arrays are looked for."""


class BrokenLoaderError(Exception):
    """A loader that cannot be measured; the text says why."""


def make(file: str, function: str, arguments: dict[str, Any]) -> Callable[[], Any]:
    """Import a file and return a call of its function.

    Args:
        file: path; its directory goes onto the module path, as for a program.
        function: name in it.
        arguments: keywords of the call.
    """
    sys.path.insert(0, os.path.dirname(file))
    name = os.path.splitext(os.path.basename(file))[0]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BrokenLoaderError(f"{file} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # worker processes that start anew import it by this name
    spec.loader.exec_module(module)
    return lambda: getattr(module, function)(**arguments)


def samples_of(batch: Any, depth: int = DEPTH) -> int | None:
    """Return the samples of a batch: the first dimension of its first array; None without one."""
    shape = getattr(batch, "shape", None)
    if shape is not None and len(shape):
        return int(shape[0])
    if not depth:
        return None
    if isinstance(batch, dict):
        parts = list(batch.values())
    elif isinstance(batch, (list, tuple)):
        parts = list(batch)
    else:
        parts = list(getattr(batch, "__dict__", {}).values())
    for part in parts:
        count = samples_of(part, depth - 1)
        if count is not None:
            return count
    if isinstance(batch, list) and batch:
        return len(batch)
    return None


def form_of(batch: Any, depth: int = DEPTH) -> str:
    """Return the fields of a batch with dtypes and shapes, in one line."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        rest = "".join(f"×{size}" for size in tuple(shape)[1:])
        return f"{getattr(batch, 'dtype', '')}[N{rest}]".replace("torch.", "")
    if depth and isinstance(batch, dict):
        return ", ".join(f"{name}: {form_of(part, depth - 1)}" for name, part in batch.items())
    if depth and isinstance(batch, tuple):
        return ", ".join(form_of(part, depth - 1) for part in batch)
    if depth and isinstance(batch, list) and batch and samples_of(batch) != len(batch):
        return ", ".join(form_of(part, depth - 1) for part in batch)
    return type(batch).__name__


def batches_of(call: Callable[[], Any]) -> Iterator[Any]:
    """Yield batches for ever, epoch after epoch.

    In a process with the folder of a watch, the loader is watched.

    Raises:
        BrokenLoaderError: the loader has no batch.
    """
    loader = call()
    while True:
        is_empty = True
        for batch in watch(loader) if FOLDER in os.environ else loader:
            is_empty = False
            yield batch
        if is_empty:
            raise BrokenLoaderError("the loader gave no batch")
        if iter(loader) is loader:  # it can be consumed once
            loader = call()


def held_by(loader: Any) -> int:
    """Return the batches that a loader may hold ready."""
    settings = settings_of(loader)[1]
    workers, factor = settings.get("num_workers"), settings.get("prefetch_factor")
    return workers * (factor or 1) if isinstance(workers, int) else 0


class Count:
    """Batches that count: their waits and samples."""

    def __init__(self) -> None:
        self.began_ns = perf_counter_ns()
        self.waits_ns: list[int] = []
        self.samples = 0

    @property
    def elapsed_ns(self) -> int:
        """Time since the first request that counts."""
        return perf_counter_ns() - self.began_ns


def consume(order: dict[str, Any], commands: TextIO, answers: TextIO) -> None:
    """Carry out an order, and answer with what was seen.

    Args:
        order: ``file``, ``function``, ``arguments``, ``step_s``, ``seconds``, ``batches`` and
            ``samples`` per batch where a batch does not say.
        commands: gives a line when batches begin to count.
        answers: gets a line of JSON for each state.
    """
    began_ns = perf_counter_ns()
    made: list[Any] = []
    function = make(order["file"], order["function"], order["arguments"])

    def call() -> Any:
        made[:] = [function()]
        return made[0]

    following = batches_of(call)
    pause_ns = int(order["step_s"] * 1e9)
    seen = 0
    count = None
    free_ns = perf_counter_ns()
    while True:
        if count is None and seen and select.select([commands], [], [], 0)[0]:
            commands.readline()
            count = Count()
            free_ns = count.began_ns
        batch = next(following)
        now_ns = perf_counter_ns()
        seen += 1
        size = samples_of(batch)
        if count is not None:
            count.waits_ns.append(now_ns - free_ns)
            count.samples += order["samples"] if size is None else size
        elif seen == 1:
            form = form_of(batch)
            setup_s = (now_ns - began_ns) / 1e9
        if count is None and seen == max(LEAST_WARM_UP, held_by(made[0]) + 1):
            _say(answers, state="warm", setup_s=setup_s, form=form)
        del batch
        free_ns = _rest(now_ns + pause_ns)
        if count is not None and _is_enough(count, order, 4 * held_by(made[0])):
            _say(
                answers,
                state="done",
                elapsed_ns=free_ns - count.began_ns,
                waits_ns=count.waits_ns,
                samples=count.samples,
            )
            return


def _is_enough(count: Count, order: dict[str, Any], least: int) -> bool:
    enough = len(count.waits_ns) >= max(order["batches"], least)
    return bool(enough and count.elapsed_ns >= order["seconds"] * 1e9)


def _rest(until_ns: int) -> int:
    """Sleep to a moment, and return the time."""
    while True:
        left_ns = until_ns - perf_counter_ns()
        if left_ns <= 0:
            return perf_counter_ns()
        sleep(left_ns / 1e9)


def _say(answers: TextIO, **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()


def main() -> None:
    """Carry out the order that the first pipe gives."""
    commands, answers = (os.fdopen(int(sys.argv[1]), "r"), os.fdopen(int(sys.argv[2]), "w"))
    sys.argv = sys.argv[:1]
    try:
        consume(json.loads(commands.readline()), commands, answers)
    except Exception as error:
        lines = traceback.format_exception_only(type(error), error)
        _say(answers, state="broken", reason=lines[-1].strip())
        raise  # the log gets the trace


if __name__ == "__main__":
    main()
