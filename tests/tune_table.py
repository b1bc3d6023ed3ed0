"""Make the table of evidence.md: a tune's choice beside the best of an exhaustive sweep.

The sweep measures every candidate as long as a tune's finalists. Its best is by the sweep's own
figures, and the tune's choice is judged by those, too: how much worse the chosen candidate is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.sizes import percent
from skymark.suites.loading.suite import LoadingSuite
from tests.faults.table import renew

ADAPTERS = ("numpy", "spdl", "pytorch", "grain", "tfdata", "webdataset")
LOADERS = Path(__file__).parent / "planted_loops" / "loaders.py"
LIBRARIES = {
    "CV-1:small, 20 ms": ("--scenarios", "CV-1:small", "--step-ms", "20"),
    "CV-1:small, 5 ms": ("--scenarios", "CV-1:small", "--step-ms", "5"),
    "NLP-1:small, 2 ms": ("--scenarios", "NLP-1:small", "--step-ms", "2"),
    "TAB-1:small, 1 ms": ("--scenarios", "TAB-1:small", "--step-ms", "1"),
}
"""Options of the tunes of libraries."""
WORKERS = "num_workers=0,1,2,4,8"
OWN = {
    "own loader: decoding, 20 ms": ("decoding", "--step-ms", "20"),
    "own loader: transforms, 20 ms": ("transforming", "--step-ms", "20"),
    "own loader: slow storage, 10 ms": ("waiting", "--step-ms", "10", "--try", WORKERS),
    "own loader: two decoders, 20 ms": ("choosing", "--step-ms", "20", "--try", "decode=slow,fast"),
}
"""Function of `loaders.py` and options of the tunes of a user's own loader."""
WORKLOADS = (*LIBRARIES, *OWN)
COLUMNS = ("candidates", "chosen", "best of the sweep", "worse by", "tune", "sweep", "part")


@dataclass(frozen=True)
class Searched:
    """The outcome of a search, and the time that it took."""

    outcome: dict[str, Any]
    seconds: float


def search(directory: Path, words: Sequence[str]) -> Searched:
    """Tune, and return the outcome."""
    command = [sys.executable, "-m", "skymark", "tune", *words, "--output", os.fspath(directory)]
    began = time.monotonic()
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
    return Searched(json.loads(done.stdout), time.monotonic() - began)


def order(candidate: dict[str, Any], outcome: dict[str, Any]) -> tuple[float, float]:
    """Return a candidate's place: the least cost that reaches the target, else the rate."""
    figures = {kind: candidate["metrics"][name] for kind, name in outcome["metrics"].items()}
    if any(one is None for one in figures.values()):
        return 2.0, 0.0
    if figures["goal"] >= outcome["target"]:
        return 0.0, figures["cost"]
    return 1.0, -figures["rate"]


def worse_by(chosen: tuple[float, float], best: tuple[float, float]) -> str:
    """Return how much worse a place is than the best one, relative to it."""
    if chosen[0] != best[0]:
        return "does not reach the target"
    return percent(abs(chosen[1] / best[1] - 1), 1)


def words_of(workload: str, adapters: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a tune."""
    if workload in LIBRARIES:
        return (*LIBRARIES[workload], "--adapters", *adapters)
    function, *options = OWN[workload]
    venv = Venvs(cache_directory()).ensure(LoadingSuite().venvs(["pytorch"])["pytorch"])
    return (f"{LOADERS}:{function}", *options, "--python", str(venv.python))


def row(shared: Sequence[str], directory: Path) -> list[str]:
    """Tune and sweep one workload, and return its row."""
    tuned = search(directory / "tune", shared)
    swept = search(directory / "sweep", (*shared, "--exhaustive"))
    by_id = {one["id"]: one for one in swept.outcome["candidates"]}
    best = min(by_id.values(), key=lambda one: order(one, swept.outcome))
    chosen = by_id[tuned.outcome["chosen"]["id"]]
    places = (order(chosen, swept.outcome), order(best, swept.outcome))
    return [
        str(len(by_id)),
        named(chosen),
        named(best),
        worse_by(*places),
        f"{tuned.seconds:.0f} s",
        f"{swept.seconds:.0f} s",
        f"{tuned.seconds / swept.seconds:.2f}",
    ]


def named(candidate: dict[str, Any]) -> str:
    """Return a candidate in a few words."""
    name = candidate["adapter"].rpartition(":")[2]
    return " ".join((name, *(f"{k}={v}" for k, v in candidate["settings"].items())))


def main() -> None:
    """Tune and sweep every workload, and renew the table in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--adapters", nargs="+", default=list(ADAPTERS))
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--effort", default="standard", help="of each tune and sweep")
    asked = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        for place, name in enumerate(asked.workloads):
            words = (*words_of(name, asked.adapters), "--effort", asked.effort)
            rows[name] = row(words, Path(directory) / str(place))
    renew(asked.page, "tune", ("workload", *COLUMNS), list(WORKLOADS), rows)


if __name__ == "__main__":
    main()
