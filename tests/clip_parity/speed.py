"""The table of speed of ``evidence.md``: both programs, and the encoders alone, in one run.

    python -m tests.clip_parity.speed docs/reference/evidence.md [ARCHITECTURE …]

clip_benchmark has one process per model and data set, as it is used; `skymark clip run` scores all.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cache.location import cache_directory
from tests.clip_parity.__main__ import (
    HERE,
    answers,
    data_and_checkpoints,
    environment,
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


def adopt() -> None:
    """Become the parent of processes below whose own parent ends, so that their time counts."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, of linux/prctl.h


class Spent:
    """Wall and CPU time of processes that were waited for."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the processes of a block."""
        adopt()
        begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield
        with suppress(ChildProcessError):  # a worker that its own parent did not wait for
            while True:
                os.wait()
        self.wall_s += time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s += after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime

    def row(self, encoders_s: float) -> list[str]:
        """Return the cells of a row, given the CPU time of the encoders alone."""
        others_s = self.cpu_s - encoders_s
        return [f"{self.wall_s:.0f}", *(f"{one:.1f}" for one in (self.cpu_s, encoders_s, others_s))]


def clip_run(models: Sequence[str], sets: Sequence[Path], cache: Path, *more: str) -> None:
    """Score models on data sets by the command, with caches of its own and the suite's venv."""
    cache.mkdir(exist_ok=True)
    if not (cache / "venvs").exists():
        (cache / "venvs").symlink_to(cache_directory() / "venvs")
    command = [sys.executable, "-m", "skymark", "clip", "run", "--models", *models]
    command += ["--datasets", *map(str, sets), *more]
    variables = {**environment(), "SKYMARK_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    out = subprocess.DEVNULL
    subprocess.run(command, env=variables, cwd=cache.parent, check=True, stdout=out)


def model_name(root: Path, architecture: str) -> str:
    """Return a checkpoint's name for the command."""
    own = HERE / "architectures" / f"{architecture}.json"
    owner = str(own) if own.exists() else architecture
    return f"{owner}:{root / f'{architecture}.pt'}"


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
        models = [model_name(root, one) for one in architectures]
        sets = [root / "sets" / case.set for case in CHOSEN]
        for spent in (cold, warm):
            with spent.counting():
                clip_run(models, sets, cache, "--recall-k", "1", "5", "10", "--batch-size", "64")
        for architecture in architectures:
            one_model = [one for one in cells if one.model.architecture == architecture]
            alone = answers(own, "forward.py", cache, one_model)
            whole_s += sum(one["images"] + one["whole_texts"] for one in alone)
            cut_s += sum(one["images"] + one["cut_texts"] for one in alone)
    return {
        "clip_benchmark, a process per pair": pairs.row(whole_s),
        "skymark clip run, empty caches": cold.row(cut_s),
        "skymark clip run, full caches": warm.row(cut_s),
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
