"""Functions of the program that make batches, in programs without a loader."""

from __future__ import annotations

import re
import sys
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import Any

from skymark.watching.recorder import FUNCTION, Epoch, recorder
from skymark.watching.sampler import LIBRARIES

MAKES_BATCH = re.compile(r"^_?(get|next|load|fetch|sample|draw|read)_(\w+_)?batch$")
"""Names of functions that make a batch at each call, in programs without a loader."""
NO_FUNCTION = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of generators and coroutines."""


def hook_training(_: ModuleType) -> None:
    """Look for functions that make batches in a program that may train, until a loader is seen."""
    watch = recorder()
    if watch is not None and watch.made_for is None and not watch.is_awake:
        watch.seek = _count_functions
        watch.wake()


def _count_functions() -> None:
    """Count the calls of the functions that make batches, in the program's own file."""
    module = sys.modules.get("__main__")
    for name, value in list(vars(module).items()):
        if _makes_batches(name, value):
            setattr(module, name, _counted_function(value))
        elif isinstance(value, type):
            for own, method in list(vars(value).items()):
                if _makes_batches(own, method):
                    setattr(value, own, _counted_function(method))


def _makes_batches(name: str, value: Any) -> bool:
    """Tell whether a value is a function of the user's that makes a batch at each call."""
    return (
        MAKES_BATCH.match(name) is not None
        and isinstance(value, FunctionType)
        and not hasattr(value, "_skymark")
        and not value.__code__.co_flags & NO_FUNCTION
        and not LIBRARIES.search(value.__code__.co_filename)
    )


def _counted_function(original: Any) -> Any:
    epochs: list[Epoch] = []

    @wraps(original)
    def counted(*values: Any, **named: Any) -> Any:
        watch = recorder()
        if watch is None or watch.is_over or watch.has_loaders:
            return original(*values, **named)
        if not epochs:
            epochs.append(watch.begin(FUNCTION, original, {}))
        return watch.next(epochs[0], partial(original, **named), *values)

    counted._skymark = True  # type: ignore[attr-defined]  # noqa: SLF001
    return counted
