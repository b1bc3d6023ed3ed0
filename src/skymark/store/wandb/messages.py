"""Messages between `skymark.store.wandb.client` and the service, and their time limits."""

from __future__ import annotations

import json
from typing import IO, Any

from skymark.model.base import Frozen

CALLS = 8
"""Requests of one client that are under way at once."""


class Refusal(Frozen):
    """Answer of the service with the reason for having no result."""

    kind: str
    """``refused``, ``oversized``, ``unavailable`` or ``absent``."""
    message: str


def write_frame(pipe: IO[bytes], head: Any, data: bytes = b"") -> None:
    """Write one message: a line of JSON that says how many bytes follow."""
    pipe.write(json.dumps({"head": head, "bytes": len(data)}).encode() + b"\n")
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[Any, bytes]:
    """Read one message.

    Raises:
        EOFError: the other side is gone.
    """
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    told = json.loads(line)
    data = pipe.read(told["bytes"])
    if len(data) != told["bytes"]:
        raise EOFError
    return told["head"], data


class Limits(Frozen):
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
