"""Child processes that run wandb, and the client of its service, bounded in time.

wandb's library blocks without bound when its server is away, and its own helper process leaves the
process group. So skymark never runs it in its own process: each child is given a time, and is ended
with everything that it started.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, cast

import psutil

from skymark.machine.variables import absolute_path, wandb_variables
from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.store.wandb.messages import Limits, Refusal, read_frame, write_frame

DROPPED = {
    "WANDB_MODE", "WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME", "WANDB_DISABLED", "WANDB_SERVICE",
    "WANDB_SWEEP_ID", "WANDB_ARTIFACT_DIR",
}  # fmt: skip
"""Variables of the caller that would make wandb do something else than what it is told."""

KEYS = {"WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"}
"""Variables with a key; a client that contacts no server does without."""

TERMINATE_PATIENCE_S = 1.0
KILL_PATIENCE_S = 5.0


def run_bounded(
    command: Sequence[str],
    home: Path,
    log: Path,
    limit_s: float,
    variables: Mapping[str, str] | None = None,
    *,
    with_key: bool = False,
) -> int | None:
    """Run a command to its end, or end it at its time limit.

    Args:
        command: what to run.
        home: what it writes stays below it; also its working directory.
        log: the file that its output is appended to.
        limit_s: seconds until it is ended with all that it started.
        variables: added to those it inherits.
        with_key: whether it inherits the user's key.

    Returns:
        Its exit code, which proves nothing; None where it was ended.
    """
    with (
        tempfile.TemporaryDirectory(prefix="skymark-", ignore_cleanup_errors=True) as temporary,
        log.open("ab") as output,
    ):
        inherited = variables_below(home, Path(temporary))
        changed = {name: value for name, value in inherited.items() if with_key or name not in KEYS}
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env=changed | dict(variables or {}),
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_tree(process)


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command of a module; nothing is imported from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def variables_below(home: Path, temporary: Path) -> dict[str, str]:
    """Return the variables of wandb's client, with its files below a directory.

    The user's settings of wandb stay where they are: they are read and hold the server's address.

    Args:
        home: where wandb keeps runs, copies and logs.
        temporary: for what a client that is killed cannot remove. Its sockets lie there too, and
            their paths must be short, so it is not below `home`.
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


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a child process and its descendants; no error if they have ended.

    The root is stopped first, so that it starts nothing more while its descendants are counted.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.poll() is None:
            root = psutil.Process(process.pid)
            root.suspend()
            family = root.children(recursive=True)
            for one in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            root.terminate()
            root.resume()
            psutil.wait_procs(family, KILL_PATIENCE_S)
    try:
        process.wait(TERMINATE_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(KILL_PATIENCE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class Client:
    """Calls of wandb's service; it is started on first use and ended when a call is late.

    Calls of several threads are under way at once. Where one is late, those beside it fail too, and
    the next starts a new process.
    """

    def __init__(self, limits: Limits) -> None:
        """Set how long calls may take; nothing is started or written yet."""
        self._limits = limits
        self._home: Path | None = None
        self._service: _ServiceProcess | None = None
        self._lock = threading.Lock()

    def call(
        self, operation: str, data: bytes = b"", limit_s: float | None = None, **arguments: Any
    ) -> tuple[Any, bytes]:
        """Carry out an operation of `skymark.store.wandb.service`.

        Args:
            operation: its name.
            data: bytes that go with it.
            limit_s: for the whole call, the start of the process included.
            **arguments: what the operation takes.

        Returns:
            What it answered: a JSON value, and bytes.

        Raises:
            FileNotFoundError: what it names is not there.
            StoreRefusedError: the server said no.
            StoreUnavailableError: the server did not answer, or not in time.
        """
        limit_s = limit_s or self._limits.call_s
        service = self._started()
        timer = threading.Timer(limit_s, service.end)
        timer.start()
        try:
            answer, content = service.request(
                {"operation": operation, "arguments": arguments}, data
            )
        except (OSError, ValueError) as error:
            service.end()
            raise _unanswered(operation, limit_s) from error
        except BaseException:
            service.end()
            raise
        finally:
            timer.cancel()
        if "refusal" not in answer:
            return answer["result"], content
        raise _error(Refusal.model_validate(answer["refusal"]))

    def close(self) -> None:
        """End the process, and remove what wandb wrote."""
        if self._service is not None:
            self._service.end()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _started(self) -> _ServiceProcess:
        with self._lock:
            if self._service is None or self._service.ended:
                self._home = self._home or Path(tempfile.mkdtemp(prefix="skymark-wandb-"))
                self._service = _ServiceProcess(self._limits.request_s, self._home)
            return self._service


class _ServiceProcess:
    """Process of `skymark.store.wandb.service`, with the requests that wait for answers."""

    def __init__(self, request_s: int, home: Path) -> None:
        self._process = subprocess.Popen(
            python_module("skymark.store.wandb.service", str(request_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=variables_below(home, home),
            start_new_session=True,  # Ctrl-C is for skymark, which still has files to store
        )
        self._waiting: dict[int, Future[tuple[Any, bytes]]] = {}
        self._numbers = itertools.count()
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        self._is_over = threading.Event()
        threading.Thread(target=self._receive, name="wandb-answers", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether the process has ended, or is being ended."""
        return self._is_over.is_set() or self._process.poll() is not None

    def request(self, head: dict[str, Any], data: bytes) -> tuple[Any, bytes]:
        """Send a request and return the answer to it.

        Raises:
            OSError: it has ended, or ends before it answers.
            ValueError: as `OSError`: its pipes are closed.
        """
        number, answer = next(self._numbers), Future[tuple[Any, bytes]]()
        self._waiting[number] = answer
        with self._sending:
            write_frame(self._to, {"number": number} | head, data)
        return answer.result()

    def end(self) -> None:
        """End the process and all that it started; requests that wait for it then fail.

        What it says meanwhile is about its own end.
        """
        self._is_over.set()
        with self._ending:
            end_tree(self._process)

    @property
    def _to(self) -> IO[bytes]:
        return cast(IO[bytes], self._process.stdin)

    def _receive(self) -> None:
        """Give each answer to its request until the process ends."""
        pipe = cast(IO[bytes], self._process.stdout)
        with contextlib.suppress(EOFError, OSError, ValueError, RecursionError):
            while True:
                head, content = read_frame(pipe)
                if self._is_over.is_set():
                    break
                self._waiting.pop(head["number"]).set_result((head, content))
        self.end()
        while self._waiting:
            _, answer = self._waiting.popitem()
            answer.set_exception(BrokenPipeError("wandb's process ended"))


def _unanswered(operation: str, limit_s: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"W&B: no answer to {operation} within {limit_s:.0f} s; is "
        f"{os.environ.get('WANDB_BASE_URL', 'the server')} reachable?"
    )


def _error(refusal: Refusal) -> Exception:
    if refusal.kind == "absent":
        return FileNotFoundError(refusal.message)
    if refusal.kind == "oversized":
        return StoreRefusedError(f"W&B: {refusal.message}")
    if refusal.kind == "refused":
        return StoreRefusedError(
            f"W&B: {refusal.message}; check WANDB_API_KEY, WANDB_ENTITY and WANDB_PROJECT, "
            "and that the key may write there"
        )
    return StoreUnavailableError(f"W&B: {refusal.message}")
