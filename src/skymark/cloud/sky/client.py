"""The client of SkyPilot: load its SDK when needed, await responses, translate its errors."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

from skymark.cloud.own_venv import has_skypilot, how_to_make_it
from skymark.cloud.sky.internals import (
    api_server_runs_here,
    end_idle_api_server,
    is_api_server_here,
    may_start_api_server,
    refuse_strangers,
    withhold_bucket_keys,
)
from skymark.cloud.waiting import in_background
from skymark.model.errors import CloudError, SkymarkError, UsageError
from skymark.store.bucket.address import ENDPOINT_VARIABLES

QUIET = {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
"""Variable that stops usage reports to SkyPilot's authors, unless the user set it."""

LOOK_S = 5.0
START_S = 45.0
"""Longest waits of `server_fault`."""
AWAY_S = 60.0
"""Longest absence of SkyPilot's API server, for example during a restart."""
RETRY_S = 2.0

ANSWER_S = 60.0
"""How long a provider may take to answer."""

FIRST_CHARACTERS, LAST_CHARACTERS = 200, 400
"""Kept of a long message: its beginning says what failed, its end why."""

_SHARED = "status|down|logs|queue|cancel|exec"
OWN = rf"(?<![\w./-])sky (?=(?:{_SHARED})\b(?! -))"
"""Stands before a command of SkyPilot that skymark has, too; not before one with options."""
OTHERS = rf"(?<![\w./-])sky (?=(?:{_SHARED}|api|autostop|check|gpus|jobs|launch|start|stop)\b)"
PIP = re.compile(r"(?<![\w-])(?:uv )?pip3? install\b")
REFUSED = re.compile(
    r"\b401\b|unauthori[sz]ed|invalid\W+(api\W+)?(key|token|credential)|AuthFailure"
    r"|InvalidClientTokenId|ExpiredToken|SignatureDoesNotMatch|invalid_grant",
    re.IGNORECASE,
)
"""Words of providers for a key that is wrong, revoked or too old."""

_IMPORTING = threading.Lock()
Parameters = ParamSpec("Parameters")
Response = TypeVar("Response")


def sdk() -> Any:
    """Return SkyPilot's SDK.

    It sends the keys in the AWS variables along with every request to an API server on this
    machine, which writes them into its database. Keys of another place than AWS, which are of no
    use there, are withheld.

    Raises:
        UsageError: SkyPilot is not installed.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if not has_skypilot():
        raise UsageError(f"this needs SkyPilot, which has a venv of its own; {how_to_make_it()}")
    # Its log keeps the stream of this moment, and our standard output may be JSON. Several threads
    # may ask, and a redirection is of the whole process.
    with _IMPORTING, nullcontext() if "sky" in sys.modules else redirect_stdout(sys.stderr):
        import sky

        refuse_strangers()
    if any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        withhold_bucket_keys()
    return sky


def ask(question: Callable[[Any], Any]) -> Any:
    """Make a request of SkyPilot's API server and return its response.

    Args:
        question: makes the request, given SkyPilot's SDK.

    Raises:
        CloudError: it failed, or the server was away for long.
    """
    with explained():
        return sdk().get(request(question))


def request(question: Callable[[Any], Any]) -> Any:
    """Make a request of SkyPilot's API server, again while it is away; return the request's id.

    Args:
        question: makes the request, given SkyPilot's SDK.
    """
    sky = sdk()
    until_s = time.monotonic() + AWAY_S
    while True:
        try:
            return question(sky)
        except RuntimeError as error:  # also plain, where SkyPilot may start no server itself
            away = type(error) in {RuntimeError, sky.exceptions.ApiServerConnectionError}
            if not away or time.monotonic() > until_s:
                raise
        time.sleep(RETRY_S)


def server_fault() -> str | None:
    """Return why SkyPilot's API server does not answer, with the command that starts it, or None.

    The result comes within seconds, unless SkyPilot may start a server here.
    """
    sky, again = sdk(), f"`{sky_program()} api stop; {sky_program()} api start`"
    try:
        in_background(sky.api_info, LOOK_S)
    except TimeoutError:
        return f"SkyPilot's API server did not answer in {LOOK_S:g} s; start it anew: {again}"
    except Exception as error:  # the boundary to SkyPilot
        fault = error
    else:
        return None
    try:
        if may_start_api_server():
            in_background(lambda: sky.status([]), START_S)
            return None
    except TimeoutError:
        return f"SkyPilot's API server was not up after {START_S:g} s; start it: {again}"
    except Exception as error:  # the boundary to SkyPilot
        fault = error
    where = f": `{sky_program()} api start`" if is_api_server_here() else " on its own machine"
    why = "it takes no connection" if isinstance(fault, OSError) else short(fault)
    return f"SkyPilot's API server does not answer ({why}); start it{where}"


@contextmanager
def new_server_ended() -> Iterator[None]:
    """End SkyPilot's API server on this machine afterwards, if it did not run before."""
    sdk()
    starts = is_api_server_here() and not api_server_runs_here()
    try:
        yield
    finally:
        if starts:
            # A server that does not end stays, as SkyPilot's own commands leave it.
            with suppress(Exception):
                in_background(end_idle_api_server, LOOK_S)


def leaves_no_server(function: Callable[Parameters, Response]) -> Callable[Parameters, Response]:
    """Let a function end the API server that it started for its ``dry_run``."""

    @wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Response:
        with new_server_ended() if named.get("dry_run") else nullcontext():
            return function(*arguments, **named)

    return call


def sky_program() -> str:
    """Return SkyPilot's program as a user can type it; mostly it is on no path."""
    beside = Path(sys.executable).with_name("sky")
    return str(beside) if shutil.which("sky") is None and beside.is_file() else "sky"


@contextmanager
def explained(action: str = "SkyPilot") -> Iterator[None]:
    """Translate SkyPilot's errors into skymark's, with the failed action.

    SkyPilot works in other processes and calls providers' libraries, whose exceptions arrive as any
    type. Types that the SDK does not know arrive as bare `Exception`.
    """
    sky = sdk()
    try:
        yield
    except SkymarkError:
        raise
    except (sky.exceptions.ClusterDoesNotExist, sky.exceptions.ClusterNotUpError) as error:
        raise UsageError(f"{short(error)}; `skymark status` shows what there is") from error
    except Exception as error:  # the boundary to SkyPilot's processes
        raise CloudError(f"{action}: {short(error)}") from error


def answer_of(provider: str, question: Callable[[], Any]) -> Any:
    """Return what a provider answers; SkyPilot's own requests to it have no time limit.

    Args:
        provider: its name, for messages.
        question: asks it, with SkyPilot's private parts.

    Raises:
        CloudError: it failed, or did not answer in time.
    """
    with explained(provider):
        try:
            return in_background(question, ANSWER_S)
        except TimeoutError as error:
            raise CloudError(f"{provider} did not answer in {ANSWER_S:g} s") from error
        except Exception as error:  # of SkyPilot's part for the provider
            if not REFUSED.search(str(error)):
                raise
            raise CloudError(
                f"{provider} refuses the key on this machine: it is wrong, revoked or too old "
                f"({short(error)}); set up a new key, see `skymark doctor --cloud`"
            ) from error


def short(error: BaseException) -> str:
    """Return an error's text on one line, without colours, of a readable length."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error) or type(error).__name__)
    text = advice_for_here(" ".join(plain.split()))
    if len(text) <= FIRST_CHARACTERS + LAST_CHARACTERS:
        return text
    return f"{text[:FIRST_CHARACTERS]} … {text[-LAST_CHARACTERS:]}"


class OwnWords:
    """Stream of SkyPilot's own words, with commands that work here."""

    def __init__(self, log: TextIO) -> None:
        self._log = log

    def write(self, text: str) -> int:
        """Write text and return its length."""
        self._log.write(advice_for_here(text))
        return len(text)

    def flush(self) -> None:
        """Write what is held back."""
        self._log.flush()

    def isatty(self) -> bool:
        """Return whether it goes to a terminal."""
        return self._log.isatty()


def response_of(asked: Any, log: TextIO, timeout_s: float | None = None) -> Any:
    """Show SkyPilot's words on a request until it is done; returns the response.

    Raises:
        TimeoutError: it takes longer than allowed.
    """
    stream = OwnWords(log)
    return in_background(lambda: sdk().stream_and_get(asked, output_stream=stream), timeout_s)


def advice_for_here(text: str) -> str:
    """Return SkyPilot's advice with commands that work here: it is in a venv of its own."""
    text = re.sub(OWN, "skymark ", text)
    text = re.sub(OTHERS, f"{sky_program()} ", text)
    return PIP.sub(f"uv pip install --python {sys.executable}", text)
