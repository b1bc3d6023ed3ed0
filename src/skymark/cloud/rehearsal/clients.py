"""Processes that a rehearsal's clients left running: SkyPilot's watchers, which linger for 30 s."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from skymark.cloud.rehearsal.namespaces import GONE_TIMEOUT_S


def processes_at_home(home: Path) -> list[psutil.Process]:
    """Return the processes that were started with `home` as their home directory."""
    return [process for process in psutil.process_iter() if _home_of(process) == os.fspath(home)]


def end_processes_at_home(home: Path) -> None:
    """Kill the processes that were started with `home` as their home directory.

    Returns when they have ended, or after `GONE_TIMEOUT_S` seconds. Who started them may still
    wait for their status.
    """
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while (left := processes_at_home(home)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.02)


def _home_of(process: psutil.Process) -> str | None:
    try:
        home: str | None = process.environ().get("HOME")
    except psutil.Error:
        return None
    return home
