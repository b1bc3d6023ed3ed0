"""Cores of this machine, divided between the measured processes and an unmeasured server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import psutil

FEWEST = 3
"""Least cores of a machine that gives a core to a server: of two cores, that would be half."""


@dataclass(frozen=True)
class Division:
    """Cores of the measured processes and of a server; both are all cores if shared."""

    measured: frozenset[int]
    server: frozenset[int]

    def __str__(self) -> str:
        if self.measured == self.server:
            return f"measured and server {ranges(self.measured)}"
        return f"measured {ranges(self.measured)}, server {ranges(self.server)}"


def divided(cores: Iterable[int]) -> Division:
    """Give the last core to the server if there are at least `FEWEST`; else share all cores."""
    every = frozenset(cores)
    if len(every) < FEWEST:
        return Division(every, every)
    server = frozenset({max(every)})
    return Division(every - server, server)


@contextmanager
def apart(server: int) -> Iterator[Division]:
    """Pin a server and the rest of this process's tree to separate cores within the context.

    New processes and threads inherit the cores of their parent.

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
    """Return this process and its descendants, except one."""
    children = psutil.Process().children(recursive=True)
    return [os.getpid(), *(child.pid for child in children if child.pid != left_out)]


def keep_to(cores: Iterable[int], processes: Iterable[int]) -> None:
    """Pin all threads of processes to these cores; ended processes are skipped."""
    every = frozenset(cores)
    for process in processes:
        with suppress(ProcessLookupError, FileNotFoundError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), every)


def ranges(cores: Iterable[int]) -> str:
    """Return cores as text: ``0-2,5``."""
    runs = groupby(enumerate(sorted(cores)), lambda pair: pair[1] - pair[0])
    numbers = [[core for _, core in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in numbers)
