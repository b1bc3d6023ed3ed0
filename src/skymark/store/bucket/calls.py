"""Calls of asynchronous clients, each bounded in time, and their errors in skymark's words.

Servers repeat parts of a signed request in their answers, and obstore repeats the answers.
Therefore errors pass on only the status, S3's error code and message, and the kind of failure.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import Context
from typing import NoReturn, TypeVar, TypeVarTuple

from skymark.model.errors import StoreError, StoreRefusedError, StoreUnavailableError
from skymark.store.bucket.address import BucketAddress, has_boto3, wants_profile

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

    A caller waits outside the loop, so Ctrl-C ends the wait at once. An open loop is closed when
    the interpreter ends.
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
        """Return the time limit of a request in seconds, given the bytes that it moves."""
        return self._answer_s + size_bytes / SLOWEST_BYTES_PER_S

    def close(self) -> None:
        """End the thread. It cancels running calls; later calls raise an error."""
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

    obstore's threads hand over their answers this way. A thread that waits for Python's lock at the
    interpreter's end would abort the process: native frames cannot be unwound.
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


NOT_IMPLEMENTED = 501
REFUSED_STATUSES = {301, 307, 400, 401, 403, 404, 405, 411, 413}
MAY_PASS_CODES = {"RequestTimeout", "SlowDown"}
"""S3 sends these with status 400 and 503: the same request may succeed later."""

SIGN_IN = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if any)"
ACTIONS = {
    "AccessDenied": "allow these credentials to list, get, put and delete objects there",
    "AuthorizationHeaderMalformed": "set AWS_REGION to the bucket's region",
    "ExpiredToken": "renew the credentials",
    "InvalidRegionName": "set AWS_REGION to a region that the server knows",
    "PermanentRedirect": "set AWS_REGION to the bucket's region",
    "RequestTimeTooSkewed": "set this machine's clock",
}
"""Next action by S3's error code."""

SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_ACCESS_KEY_ID")
LONGEST_CAUSE = 300

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_PROVIDER = re.compile(r"External AWS credential provider: (.*)")
_SYSTEM = re.compile(r'(?:message|error): "([^"]+)"')
_MACHINE_ROLE = re.compile(r"/latest/(?:api/token|meta-data/)|//169\.254\.170\.")


class ConditionUnknownError(StoreRefusedError):
    """Error of a server that does not know an operation, such as writing on a condition."""


@contextmanager
def explained(address: BucketAddress, path: str) -> Iterator[None]:
    """Translate obstore's errors into skymark's; a condition that did not hold stays obstore's.

    Raises:
        FileNotFoundError: the bucket is there and has no such object.
        StoreUnavailableError: no connection, no answer in time, or an answer such as 429 or 5xx.
        StoreRefusedError: credentials, permission, region, certificate, or no such bucket.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield
    except (StoreError, AlreadyExistsError, PreconditionError):
        raise
    except TimeoutError as error:
        raise StoreUnavailableError(
            f"{_place(address)} did not answer in time; it may be slow or overloaded: "
            "try again later"
        ) from error
    except FileNotFoundError as error:
        if "<Code>NoSuchKey<" in str(error) or "<Code>" not in str(error):
            raise FileNotFoundError(f"{address.below(path).url} is not there") from None
        _raise(address, str(error))
    except (BaseError, ValueError) as error:
        _raise(address, str(error))


def _raise(address: BucketAddress, text: str) -> NoReturn:
    """Raise skymark's error for a text of obstore's, without keeping the text."""
    place = _place(address)
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else None
    if (provider := _PROVIDER.search(text)) or _MACHINE_ROLE.search(text):
        said = f" ({_shown(provider[1])})" if provider else ""
        raise StoreRefusedError(f"{place}: there are no credentials{said}; {_how_to_sign_in()}")
    if "invalid path" in text:
        name = text.partition("Path ")[2].partition('"')[2].partition('"')[0]
        raise StoreRefusedError(
            f"{place}: there is an object with the name {_shown(name)!r}, which skymark never "
            "writes; remove it or choose another prefix"
        )
    if code == "NoSuchBucket":
        raise StoreRefusedError(
            f"{place}: there is no bucket {address.bucket}; make it with: {address.how_to_make}"
        )
    if "Received redirect" in text:
        raise StoreRefusedError(f"{place}: wrong region; {ACTIONS['PermanentRedirect']}")
    if status is None:
        _raise_for_connection(place, text)
    message = f": {_shown(match[1])}" if (match := _MESSAGE.search(text)) and match[1] else ""
    answer = f"{place} answered {status}{f' {code}' if code else ''}{message}"
    if status == NOT_IMPLEMENTED:
        raise ConditionUnknownError(f"{answer}; use a server that speaks S3")
    if status in REFUSED_STATUSES and code not in MAY_PASS_CODES:
        usual = SIGN_IN if status in {401, 403} else "check the endpoint and the region"
        raise StoreRefusedError(f"{answer}; {ACTIONS.get(code or '', usual)}")
    raise StoreUnavailableError(f"{answer}; the server is busy or broken: try again later")


def _raise_for_connection(place: str, text: str) -> NoReturn:
    """Raise the error of a request without an answer."""
    if "certificate" in text.lower():
        raise StoreRefusedError(
            f"{place}: its certificate is not trusted; point SSL_CERT_FILE at the authority's file"
        )
    if "TimedOut" in text or "kind: Timeout" in text:
        cause = "no answer in time"
    else:
        said = _SYSTEM.findall(text)
        cause = _shown(said[-1]) if said else "the connection broke"
    raise StoreUnavailableError(
        f"{place}: {cause}; check the endpoint and the network, or try again later"
    )


def _how_to_sign_in() -> str:
    how = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if wants_profile(os.environ) and not has_boto3():
        return f"{how}, or pip install boto3, which reads the profiles in ~/.aws"
    return how


def _place(address: BucketAddress) -> str:
    return f"{address.url} ({address.server})"


def _shown(text: str) -> str:
    """Return a server's text fit to be printed: short, on one line, without our secrets."""
    for name in SECRET_VARIABLES:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return "".join(c if c.isprintable() else " " for c in text)[:LONGEST_CAUSE].strip()
