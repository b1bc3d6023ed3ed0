"""Cores of this machine, divided between what is measured and a server that is not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import psutil

FEWEST = 3
"""Cores of a machine that has one for a server: of two, the measured ones would be halved."""


@dataclass(frozen=True)
class Division:
    """The cores of the measured processes, and those of a server; both all where shared."""

    measured: frozenset[int]
    server: frozenset[int]

    def __str__(self) -> str:
        if self.measured == self.server:
            return f"measured and server {ranges(self.measured)}"
        return f"measured {ranges(self.measured)}, server {ranges(self.server)}"


def divided(cores: Iterable[int]) -> Division:
    """Give the last of `FEWEST` cores or more to the server; fewer are shared."""
    every = frozenset(cores)
    if len(every) < FEWEST:
        return Division(every, every)
    server = frozenset({max(every)})
    return Division(every - server, server)


@contextmanager
def apart(server: int) -> Iterator[Division]:
    """Keep a server and the rest of this process's tree to cores of their own meanwhile.

    Processes and threads that start meanwhile keep to those of the one that starts them.

    Args:
        server: the process's id.
    """
    every = os.sched_getaffinity(0)
    division = divided(every)
    try:
        if division.measured != division.server:
            keep_to(division.server, [server])
            keep_to(division.measured, tree_without(server))
        yield division
    finally:
        if division.measured != division.server:
            keep_to(every, tree_without(server))


def tree_without(left_out: int) -> list[int]:
    """Return this process and those that it has started, but for one."""
    children = psutil.Process().children(recursive=True)
    return [os.getpid(), *(child.pid for child in children if child.pid != left_out)]


def keep_to(cores: Iterable[int], processes: Iterable[int]) -> None:
    """Let all threads of processes run on these cores only; what has ended is passed over."""
    every = frozenset(cores)
    for process in processes:
        with suppress(ProcessLookupError, FileNotFoundError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), every)


def ranges(cores: Iterable[int]) -> str:
    """Return cores as text: ``0-2,5``."""
    runs = groupby(enumerate(sorted(cores)), lambda pair: pair[1] - pair[0])
    found = [[core for _, core in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)
