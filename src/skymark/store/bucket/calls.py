"""Call asynchronous clients from any thread, each call bounded in time."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import Context
from typing import TypeVar, TypeVarTuple

from skymark.model.errors import StoreUnavailableError

ANSWER_S = 30.0
"""Time limit of one request, besides the time its bytes may take."""
SLOWEST_BYTES_PER_S = 256 << 10
"""The slowest connection that still counts as working."""
WAKING_PATIENCE_S = 5.0
POLL_S = 0.001
CLOSED = "the store was closed before it was done"

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Calls:
    """Event loop in a thread of its own, started by the first call.

    A caller waits outside the loop, so Ctrl-C ends the wait at once. What nobody closed is closed
    when the interpreter ends.
    """

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._loop: _Loop | None = None
        self._closed = False
        self._state = threading.Lock()

    def run(self, work: Coroutine[None, None, Result]) -> Result:
        """Run a coroutine in the loop and return its result, or raise its error.

        Raises:
            StoreUnavailableError: `close` was called before it was done.
        """
        future = self._begin(work)
        try:
            return future.result()
        except CancelledError:
            raise StoreUnavailableError(CLOSED) from None
        finally:
            future.cancel()

    async def in_time(self, work: Awaitable[Result], size_bytes: int = 0) -> Result:
        """Await one request, inside `run`.

        Args:
            work: the request.
            size_bytes: what it moves.

        Raises:
            TimeoutError: it took longer than `longest_s`.
        """
        async with asyncio.timeout(self.longest_s(size_bytes)):
            return await work

    def longest_s(self, size_bytes: int) -> float:
        """Return the time limit of a request that moves so many bytes, in seconds."""
        return self._answer_s + size_bytes / SLOWEST_BYTES_PER_S

    def close(self) -> None:
        """End the thread: calls under way are given up, and later ones are refused."""
        with self._state:
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop.await_wakers()
                atexit.unregister(self.close)
            self._closed = True

    def _begin(self, work: Coroutine[None, None, Result]) -> Future[Result]:
        with self._state:  # so that nothing is begun in a loop that is about to stop
            if self._closed:
                work.close()
                raise StoreUnavailableError(CLOSED)
            if self._loop is None:
                self._loop = _Loop()
                atexit.register(self.close)
                threading.Thread(
                    target=_serve, args=(self._loop,), name="bucket-calls", daemon=True
                ).start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)


class _Loop(asyncio.SelectorEventLoop):
    """Event loop that counts the threads that are waking it.

    obstore's threads hand over their answers so. One that still waits for Python's lock when the
    interpreter ends would abort the process: native frames cannot be unwound.
    """

    _waking = 0

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call a function soon in the loop's thread."""
        self._waking += 1
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self._waking -= 1  # nothing after this gives up Python's lock

    def await_wakers(self) -> None:
        """Wait, for a bounded time, until no thread is waking the loop."""
        end = time.monotonic() + WAKING_PATIENCE_S
        while self._waking and time.monotonic() < end:
            time.sleep(POLL_S)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        under_way = asyncio.all_tasks(loop)
        for task in under_way:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*under_way, return_exceptions=True))
    finally:
        loop.close()
