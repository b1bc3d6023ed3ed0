"""The request that SkyPilot is working at, so that it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skymark.cloud.sky.jobs import take_back
from skymark.held_interrupts import one_interrupt_held


class RequestInFlight:
    """At most one request for a machine or a job, from when it is made until it is granted."""

    def __init__(self) -> None:
        self._asked: Any = None

    def make(self, call: Callable[[], Any]) -> Any:
        """Make a request, note it and return it.

        Ctrl-C counts when that is done: of a request that is half made nobody knows whether it was
        heard. A second one counts at once.
        """
        with one_interrupt_held() as held:
            self._asked = call()
        if held.came:
            raise KeyboardInterrupt
        return self._asked

    def granted(self) -> None:
        """Forget it: there is nothing to take back any more."""
        self._asked = None

    def take_back(self) -> None:
        """End it, if it has not been granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """
        if self._asked is not None:
            take_back([self._asked])
            self._asked = None
