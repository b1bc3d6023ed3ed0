"""The table of speed of ``evidence.md``: both programs, and the encoders alone, in turn.

    python -m tests.clip_parity.speed docs/reference/evidence.md [--rounds 3] [ARCHITECTURE …]

clip_benchmark has one process per model and data set, as it is used; `skymark clip run` scores all.
CPU time counts all processes of a command, start-up included; the table has medians of rounds.
skymark's encoders are timed in the very run, in one thread; the peer's run once more, alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from skymark.cache.location import cache_directory
from skymark.rundir.newest import newest_run
from skymark.rundir.reader import open_run
from tests.clip_parity.__main__ import (
    HERE,
    answers,
    data_and_checkpoints,
    environment,
    interpreters,
    specification,
    theirs,
)
from tests.clip_parity.cases import CASES, Case
from tests.faults.table import renew

TITLES = {"classification", "multi-label", "retrieval"}
CHOSEN = tuple(case for case in CASES if case.title in TITLES)
MANY = Case("2,000 small images", "pictures", "wds/pictures", "zeroshot_classification")
USUAL = ("ViT-parity", "RN-parity", "ViT-S-32-alt")
COLUMNS = ("", "wall s", "CPU s", "encoders, s", "all else, CPU s")
PEER, COLD, WARM = (
    "clip_benchmark, a process per pair",
    "skymark clip run, empty caches",
    "skymark clip run, full caches",
)
PEER_ON_MANY, OWN_ON_MANY = f"{MANY.title}: clip_benchmark", f"{MANY.title}: skymark clip run"
MOST = 0.1
"""Largest share of the peer's CPU time beside the encoders, with empty caches."""


def adopt() -> None:
    """Become the parent of processes below whose own parent ends, so that their time counts."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, of linux/prctl.h


@dataclass
class Spent:
    """Wall and CPU time of processes that were waited for."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

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


@dataclass(frozen=True)
class Row:
    """Time of a way to score, in one round."""

    spent: Spent
    encoders_s: float
    """Time of the encoders alone."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """The columns of the table."""
        spent = self.spent
        return spent.wall_s, spent.cpu_s, self.encoders_s, spent.cpu_s - self.encoders_s


def clip_run(models: Sequence[str], sets: Sequence[Path], cache: Path, *more: str) -> float:
    """Score models on data sets by the command, with caches of its own and the suite's venv.

    Returns the seconds in which encoders ran.
    """
    cache.mkdir(exist_ok=True)
    if not (cache / "venvs").exists():
        (cache / "venvs").symlink_to(cache_directory() / "venvs")
    command = [sys.executable, "-m", "skymark", "clip", "run", "--models", *models]
    command += ["--datasets", *map(str, sets), *more]
    variables = {**environment(), "SKYMARK_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    out = subprocess.DEVNULL
    subprocess.run(command, env=variables, cwd=cache.parent, check=True, stdout=out)
    records = open_run(newest_run(cache.parent / "results")).records
    return sum(one.metrics["encoder_s"].value for one in records)


def model_name(root: Path, architecture: str) -> str:
    """Return a checkpoint's name for the command."""
    own = HERE / "architectures" / f"{architecture}.json"
    owner = str(own) if own.exists() else architecture
    return f"{owner}:{root / f'{architecture}.pt'}"


def measured(architectures: Sequence[str], cases: Sequence[Case]) -> tuple[Row, Row, Row]:
    """Measure everything once: the peer, and the command with empty and with full caches."""
    peer, own = interpreters()
    root = data_and_checkpoints(peer, architectures)
    pairs, rows, whole_s = Spent(), [], 0.0
    with TemporaryDirectory() as name:
        cache = Path(name) / "cache"
        for architecture in architectures:
            for case in cases:
                place = Path(name) / architecture / case.set
                place.mkdir(parents=True)
                with pairs.counting():
                    theirs(peer, root, architecture, case, place)
        models = [model_name(root, one) for one in architectures]
        sets = [root / "sets" / case.set for case in cases]
        options = ("--recall-k", "1", "5", "10", "--batch-size", "64")
        for _ in ("cold", "warm"):
            spent = Spent()
            with spent.counting():
                encoders_s = clip_run(models, sets, cache, *options)
            rows.append(Row(spent, encoders_s))
        for architecture in architectures:
            cells = [specification(root, architecture, case) for case in cases]
            alone = answers(own, "forward.py", cache, cells)
            whole_s += sum(one["images"] + one["texts"] for one in alone)
    return Row(pairs, whole_s), rows[0], rows[1]


def main() -> None:
    """Measure in rounds, write the table, and fail where the command takes more than it may."""
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("architectures", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_intermixed_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    numbers: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(arguments.rounds):
        all_pairs = measured(arguments.architectures, CHOSEN)
        one_pair = measured(arguments.architectures[:1], [MANY])[:2]
        rows = zip(
            (PEER, COLD, WARM, PEER_ON_MANY, OWN_ON_MANY), (*all_pairs, *one_pair), strict=True
        )
        for title, row in rows:
            numbers.setdefault(title, []).append(row.numbers)
            print(title, *(f"{one:.1f}" for one in row.numbers), flush=True)
    middle = {title: [*map(median, zip(*each, strict=True))] for title, each in numbers.items()}
    cells = {
        title: [f"{wall:.0f}", *(f"{one:.1f}" for one in more)]
        for title, (wall, *more) in middle.items()
    }
    renew(arguments.page, "clip speed", COLUMNS, tuple(cells), cells)
    cpu_s, others_s = ({title: each[column] for title, each in middle.items()} for column in (1, 3))
    faults = [
        f"{title}: {took:.1f} s, and {most:.1f} s are allowed"
        for title, took, most in (
            (COLD, others_s[COLD], MOST * others_s[PEER]),
            (WARM, others_s[WARM], others_s[COLD]),
            (OWN_ON_MANY, cpu_s[OWN_ON_MANY], cpu_s[PEER_ON_MANY]),
        )
        if took > most
    ]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
