"""Client of wandb's service: calls from this process, each bounded in time."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, cast

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.store.wandb.limits import Limits
from skymark.store.wandb.messages import Refusal, read_frame, write_frame
from skymark.store.wandb.processes import end_tree, python_module, variables_below


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
