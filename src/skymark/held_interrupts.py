"""Delay of Ctrl-C and requests to terminate during work that must not stop half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Held:
    """Whether an interruption is pending."""

    def __init__(self) -> None:
        self.came = False


@contextmanager
def one_interrupt_held(told: Callable[[], None] = lambda: None) -> Iterator[Held]:
    """Hold back the first interruption; the second one counts at once.

    Args:
        told: called when the first comes.
    """
    held = Held()

    def note(signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        if held.came:
            raise KeyboardInterrupt
        held.came = True
        told()

    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    heeded = [
        number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))
    ]
    before = {number: signal.signal(number, note) for number in heeded}
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undivided() -> Iterator[None]:
    """Finish the work of the context before the first interruption counts."""
    with one_interrupt_held() as held:
        yield
    if held.came:
        raise KeyboardInterrupt
