"""Repeated attempts at an operation of an unreachable store, with growing waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter
from tenacity.stop import stop_base

from skymark.model.errors import StoreError, StoreUnavailableError

LONGEST_WAIT_S = 30.0


def attempts(
    stop: stop_base,
    *,
    after: type[StoreError] = StoreUnavailableError,
    longest_wait_s: float = LONGEST_WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Retrying:
    """Return a caller that repeats a call after an error, and raises the last error at the end.

    Args:
        stop: when to give up.
        after: the errors after which to call again.
        longest_wait_s: between two attempts; the first waits are much shorter.
        sleep: waits that many seconds.
    """
    return Retrying(
        retry=retry_if_exception_type(after),
        wait=wait_exponential_jitter(multiplier=0.5, max=longest_wait_s),
        stop=stop,
        sleep=sleep,
        reraise=True,
    )
