"""Messages between `skymark.store.wandb.client` and the service in wandb's process."""

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
