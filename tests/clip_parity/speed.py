"""The table of speed of ``docs/clip.md``: both programs, and the encoders alone, in one run.

    python -m tests.clip_parity.speed docs/clip.md [ARCHITECTURE …]

clip_benchmark has one process per model and data set, as it is used; the clip suite one for all.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.clip_parity.__main__ import (
    answers,
    data_and_checkpoints,
    interpreters,
    specification,
    theirs,
)
from tests.clip_parity.cases import CASES
from tests.faults.table import renew

TITLES = {"classification", "multi-label", "retrieval"}
CHOSEN = tuple(case for case in CASES if case.title in TITLES)
USUAL = ("ViT-parity", "RN-parity", "ViT-S-32-alt")
COLUMNS = ("", "wall s", "CPU s", "encoders alone, CPU s", "all else, CPU s")


class Spent:
    """Wall and CPU time of processes that were waited for."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the processes of a block."""
        begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield
        self.wall_s += time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s += after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime

    def row(self, encoders_s: float) -> list[str]:
        """Return the cells of a row, given the CPU time of the encoders alone."""
        others_s = self.cpu_s - encoders_s
        return [f"{self.wall_s:.0f}", *(f"{one:.1f}" for one in (self.cpu_s, encoders_s, others_s))]


def measured(architectures: Sequence[str]) -> dict[str, list[str]]:
    """Measure everything once."""
    peer, own = interpreters()
    root = data_and_checkpoints(peer, architectures)
    pairs, cold, warm = Spent(), Spent(), Spent()
    whole_s = cut_s = 0.0
    with TemporaryDirectory() as name:
        cache = Path(name) / "cache"
        cells = []
        for architecture in architectures:
            for case in CHOSEN:
                place = Path(name) / architecture / case.set
                place.mkdir(parents=True)
                with pairs.counting():
                    theirs(peer, root, architecture, case, place)
            cells += [specification(root, architecture, case) for case in CHOSEN]
        for spent in (cold, warm):
            with spent.counting():
                answers(own, "ours.py", cache, cells)
        for architecture in architectures:
            one_model = [one for one in cells if one.model.architecture == architecture]
            alone = answers(own, "forward.py", cache, one_model)
            whole_s += sum(one["images"] + one["whole_texts"] for one in alone)
            cut_s += sum(one["images"] + one["cut_texts"] for one in alone)
    return {
        "clip_benchmark, a process per pair": pairs.row(whole_s),
        "skymark, empty caches": cold.row(cut_s),
        "skymark, full caches": warm.row(cut_s),
    }


def main() -> None:
    """Measure, and write the table."""
    page, *named = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = measured(named or USUAL)
    renew(Path(page), "clip speed", COLUMNS, tuple(rows), rows)
    for name, cells in rows.items():
        print(name, *cells)


if __name__ == "__main__":
    main()
