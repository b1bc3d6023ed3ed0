"""Iterators of libraries without a loader of PyTorch, whose batches count."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from types import GeneratorType, SimpleNamespace
from typing import Any

from skymark.watching.after_import import Hook, replace
from skymark.watching.libraries import SETTINGS
from skymark.watching.recorder import Epoch, Recorder, made_for, recorder


def iterated(library: str, name: str, *methods: str) -> Hook:
    """Return a hook that counts the iterators which a class's methods return.

    In a worker nothing is counted: its iterators serve the loop of another process.
    """

    def make(original: Any) -> Any:
        @wraps(original)
        def iterate(self: Any, *values: Any, **named: Any) -> Any:
            watch = recorder()
            if watch is None or watch.is_over or watch.is_inside or watch.made_for is not None:
                return original(self, *values, **named)
            settings = SETTINGS[library](self) if library in SETTINGS else {}
            epoch = watch.begin(library, self, settings)
            with watch.within(), made_for(epoch):
                made = original(self, *values, **named)
            return _counted(watch, epoch, made)

        return iterate

    def hook(module: Any) -> None:
        for method in methods or ("__iter__",):
            replace(getattr(module, name), method, make)

    return hook


def hook_grain(module: Any) -> None:
    """Count the iterators of Grain's data sets, whose classes each have their own `__iter__`."""
    for name in ("MapDataset", "IterDataset"):
        base = getattr(module, name)
        iterated("grain", name)(module)
        base.__init_subclass__ = classmethod(_hooked_subclass(base))


def _hooked_subclass(base: Any) -> Any:
    own = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: Any, **named: Any) -> None:  # noqa: N807
        if own is not None:
            own.__func__(cls, **named)
        else:
            super(base, cls).__init_subclass__(**named)
        iterated("grain", cls.__name__)(SimpleNamespace(**{cls.__name__: cls}))

    return __init_subclass__


def _counted(watch: Recorder, epoch: Epoch, made: Any) -> Any:
    """Return an iterator of the same type that counts."""
    if isinstance(made, GeneratorType):
        return _generated(watch, epoch, made)
    kind = type(made)
    if not hasattr(kind, "__next__"):
        return made
    if not hasattr(kind.__next__, "_skymark"):
        kind.__next__ = counting(kind.__next__)
    made._skymark_epoch = epoch  # noqa: SLF001
    return made


def counting(original: Any) -> Any:
    """Return a `__next__` that counts the batches of iterators with an epoch."""

    @wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        watch = recorder()
        epoch = self.__dict__.get("_skymark_epoch")
        if watch is None or epoch is None:
            return original(self)
        return watch.next(epoch, original, self)

    __next__._skymark = True  # type: ignore[attr-defined]  # noqa: SLF001
    return __next__


def _generated(watch: Recorder, epoch: Epoch, made: Any) -> Iterator[Any]:
    while True:
        try:
            element = watch.next(epoch, next, made)
        except StopIteration:
            return
        yield element
