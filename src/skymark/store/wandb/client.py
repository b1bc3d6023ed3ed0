"""wandb's processes: single commands, and a worker for calls of its API, each bounded in time.

wandb's library blocks without bound when its server is away, and its own helper process leaves the
process group. So skymark never runs it in its own process: a keeper (`skymark.machine.keeper`) ends
each process with all that it started, when it is late and when skymark was killed. It is no pool of
`multiprocessing`, whose processes inherit all variables, other services' keys among them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from skymark.machine.children import absolute_path, run_tied, tied, wandb_variables
from skymark.model.base import Frozen
from skymark.model.errors import StoreRefusedError, StoreUnavailableError

CALLS = 8
"""Calls of one client that are under way at once."""

DROPPED = {
    "WANDB_MODE", "WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME", "WANDB_DISABLED", "WANDB_SERVICE",
    "WANDB_SWEEP_ID", "WANDB_ARTIFACT_DIR",
}  # fmt: skip
"""Variables of the caller that would override wandb's instructions."""

KEYS = {"WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"}
"""Variables with a key; a client that contacts no server does without."""


class TimeLimits(Frozen):
    """Time limits of wandb's processes, in seconds; a late one is ended.

    They include the start of a process, which takes many seconds on a busy machine.
    """

    request_s: int = 10
    """One request to the server; wandb's library itself gives up then."""
    call_s: float = 60.0
    """One file sent or read, or one listing, with the start of the process."""
    log_s: float = 120.0
    """Writing the offline run; reading it back has the same time again."""
    sync_s: float = 120.0
    """Uploading the offline run."""
    read_s: float = 60.0
    """Reading the artifact back."""
    per_file_s: float = 0.05
    """Added to the last three for each file of the run."""


def run_bounded(
    command: Sequence[str],
    home: Path,
    limit_s: float,
    variables: Mapping[str, str] | None = None,
    *,
    with_key: bool = False,
) -> tuple[bool, str]:
    """Run a command to its end, or end it at its time limit.

    Args:
        command: the program with its arguments.
        home: its working directory, below which it writes.
        limit_s: seconds until it is ended with all that it started.
        variables: added to those it inherits.
        with_key: whether it inherits the user's key.

    Returns:
        Whether it ended by itself, which proves nothing more, and the end of its output.
    """
    with tempfile.TemporaryDirectory(prefix="skymark-", ignore_cleanup_errors=True) as temporary:
        inherited = variables_below(home, Path(temporary))
        changed = {name: value for name, value in inherited.items() if with_key or name not in KEYS}
        try:
            done = run_tied(command, changed | dict(variables or {}), home, limit_s)
        except subprocess.TimeoutExpired as late:
            return False, str(late.output or "")
    return True, done.stdout


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command of a module; nothing is imported from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def variables_below(home: Path, temporary: Path) -> dict[str, str]:
    """Return the variables of wandb's client, with its files below a directory.

    The user's settings of wandb stay where they are: they are read and hold the server's address.

    Args:
        home: wandb's directory for runs, copies and logs.
        temporary: directory for files that a killed client cannot remove. Its sockets lie there
            too, and their paths must be short, so it is not below `home`.
    """
    variables = {name: value for name, value in wandb_variables().items() if name not in DROPPED}
    settings = Path(variables.get("WANDB_CONFIG_DIR", "~/.config/wandb")).expanduser()
    own = home / "wandb"
    variables |= {
        "PYTHONPATH": absolute_path(os.environ.get("PYTHONPATH", "")),  # skymark's own modules
        "TMPDIR": str(temporary),
        "WANDB_DIR": str(home),
        "WANDB_DATA_DIR": str(own / "data"),
        "WANDB_CACHE_DIR": str(own / "cache"),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        # The manifest has the commit; git's processes would have the key.
        "WANDB_DISABLE_GIT": "true",
    }
    if not (settings / "settings").is_file():
        variables["WANDB_CONFIG_DIR"] = str(own / "config")
    return variables


class WandbClient:
    """Calls of wandb's API; the worker starts on first use, and ends when a call is late.

    Calls of several threads are under way at once. If a call is late, parallel calls fail, too, and
    the next call starts a new worker.
    """

    def __init__(self, limits: TimeLimits) -> None:
        """Set how long calls may take; nothing is started or written yet."""
        self._limits = limits
        self._home: Path | None = None
        self._worker: _Worker | None = None
        self._lock = threading.Lock()

    @property
    def home(self) -> Path:
        """Directory that the worker works in, and through which files pass; `close` removes it."""
        with self._lock:
            self._home = self._home or Path(tempfile.mkdtemp(prefix="skymark-wandb-"))
            return self._home

    def call(self, operation: str, limit_s: float | None = None, **arguments: Any) -> Any:
        """Carry out an operation of `skymark.store.wandb.service`, and return its JSON value.

        Args:
            operation: its name.
            limit_s: for the whole call, the start of the process included.
            **arguments: of the operation.

        Raises:
            FileNotFoundError: what it names is not there.
            StoreRefusedError: the server said no.
            StoreUnavailableError: the server did not answer, or not in time.
        """
        limit_s = limit_s or self._limits.call_s
        worker = self._started()
        try:
            answer = worker.ask(operation, arguments).result(limit_s)
        except (TimeoutError, OSError, ValueError) as error:
            worker.end()
            raise StoreUnavailableError(
                f"W&B: no answer to {operation} within {limit_s:.0f} s; is "
                f"{os.environ.get('WANDB_BASE_URL', 'the server')} reachable?"
            ) from error
        except BaseException:
            worker.end()
            raise
        if "refusal" in answer:
            raise _error(answer["refusal"], answer["message"])
        return answer["result"]

    def close(self) -> None:
        """End the worker, and remove what it wrote."""
        if self._worker is not None:
            self._worker.end()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _started(self) -> _Worker:
        home = self.home
        with self._lock:
            if self._worker is None or self._worker.over.is_set():
                self._worker = _Worker(self._limits.request_s, home)
            return self._worker


class _Worker:
    """Process of `skymark.store.wandb.service`, with the calls that wait for its answers."""

    def __init__(self, request_s: int, home: Path) -> None:
        self.over = threading.Event()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._sending = threading.Lock()
        started: Future[subprocess.Popen[str]] = Future()
        service = python_module("skymark.store.wandb.service", str(request_s), str(CALLS))
        self._thread = threading.Thread(
            target=self._serve, args=(tied(service), home, started), name="wandb", daemon=True
        )
        self._thread.start()
        self._process = started.result()

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Send a call and return the answer to come.

        Raises:
            OSError: the process has ended.
            ValueError: the same.
        """
        number, answer = next(self._numbers), Future[dict[str, Any]]()
        asked = {"number": number, "operation": operation, "arguments": arguments}
        self._waiting[number] = answer
        with self._sending:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        if self.over.is_set():  # nobody may hand out its answer any more
            raise BrokenPipeError("wandb's process has ended")
        return answer

    def end(self) -> None:
        """End the process and all that it started; calls that wait for it then fail."""
        self.over.set()
        self._process.terminate()
        self._thread.join()

    def _serve(
        self, command: Sequence[str], home: Path, started: Future[subprocess.Popen[str]]
    ) -> None:
        """Start the process, whose keeper ends with this thread, and hand out its answers."""
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=home,
                env=variables_below(home, home),
                text=True,
                start_new_session=True,  # Ctrl-C is for skymark, which still has files to store
            )
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError, RecursionError), process:
            for line in process.stdout:
                if self.over.is_set():  # what it says now is about its own end
                    break
                answer = json.loads(line)
                self._waiting.pop(answer["number"]).set_result(answer)
            self.over.set()
            process.terminate()
        self.over.set()
        while self._waiting:
            _, waiting = self._waiting.popitem()
            waiting.set_exception(BrokenPipeError("wandb's process ended"))


def _error(refusal: str, message: str) -> Exception:
    """Return the error for a refusal of the service: absent, oversized, refused or unavailable."""
    if refusal == "absent":
        return FileNotFoundError(message)
    if refusal == "unavailable":
        return StoreUnavailableError(f"W&B: {message}")
    advice = (
        "; check WANDB_API_KEY, WANDB_ENTITY and WANDB_PROJECT, and that the key may write there"
    )
    return StoreRefusedError(f"W&B: {message}{advice if refusal == 'refused' else ''}")
