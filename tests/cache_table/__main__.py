"""Make the tables of docs/reference/caches.md: every policy, and the libraries without one.

    python -m tests.cache_table docs/reference/caches.md --processes 1 4 16 64

Needs the venvs of hf-datasets and webdataset (skymark env build hf-datasets webdataset).
"""

from __future__ import annotations

import argparse
import errno
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.sizes import percent
from skymark.model.venv import VenvSpec
from tests.cache_table.jobs import Outcome, run_row, write_data
from tests.faults.table import renew

FLOCK = Path(__file__).parents[1] / "faults" / "flock.c"
LYING = ", flock lies"
"""Behind the name of a row: every lock succeeds at once, as on some file systems."""
REFUSED = {", flock ENOSYS": errno.ENOSYS, ", flock ENOLCK": errno.ENOLCK}
"""Likewise: every lock is refused, as on Lustre without ``-o flock`` and NFS without lockd."""
POLICIES = {
    "json": (
        "plain", f"plain{LYING}", "per-job", "shared", f"shared{LYING}", "prebuilt", "parquet",
        "parquet+shared", "staggered",
        *(f"{policy}{refused}" for policy in ("shared", "prebuilt", "parquet", "parquet+shared")
          for refused in REFUSED),
    ),
    "tar": ("plain", "per-job", "shared", f"shared{LYING}", "prebuilt", "staggered"),
}  # fmt: skip
VENVS = {"json": "hf-datasets", "tar": "webdataset"}
COLUMNS = (
    "policy, processes", "failures", "wrong rows", "source read", "all first batches",
    "CPU per job over plain", "of a 10 min job", "peak disk",
)  # fmt: skip
JOB_S = 600.0


def main() -> None:
    """Run the rows that are asked for, each on its own, and renew them in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--kinds", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--policies", nargs="+")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        data, library = Path(place) / "data", lying_locks(Path(place))
        data.mkdir()
        write_data(data)
        for processes in asked.processes:
            for kind in asked.kinds:
                make_rows(asked.page, kind, processes, data, library, asked.policies)


def make_rows(
    page: Path, kind: str, processes: int, data: Path, library: Path, policies: list[str] | None
) -> None:
    """Run every policy with so many processes, ``plain`` first, and write each row as it ends."""
    spec = VenvSpec(name=VENVS[kind], locked=f"adapters/{VENVS[kind]}.txt")
    python = str(Venvs(cache_directory()).ensure(spec).python)
    order = [f"{one}, {n}" for one in POLICIES[kind] for n in (1, 4, 16, 64)]
    plain: Outcome | None = None
    for name in POLICIES[kind]:
        if policies and name not in policies:
            continue
        policy, _, locks = name.partition(", ")
        preload = {"LD_PRELOAD": str(library)} if locks else {}
        if f", {locks}" in REFUSED:
            preload["FLOCK_ERRNO"] = str(REFUSED[f", {locks}"])
        outcome = run_row(kind, policy, processes, data, python, preload)
        plain = outcome if name == "plain" else plain
        row = cells(outcome, plain)
        print(kind, name, processes, *row, *outcome.errors[:2], sep=" | ", flush=True)
        renew(page, f"{kind} table", COLUMNS, order, {f"{name}, {processes}": row})


def cells(outcome: Outcome, plain: Outcome | None) -> list[str]:
    """Return the columns of a row; without ``plain``, beside which it ran, no overhead."""
    compared = plain is not None and outcome is not plain
    extra_s = (outcome.cpu_s - plain.cpu_s) / outcome.processes if compared else 0.0
    first = "–" if outcome.first_s is None else f"{outcome.first_s:.1f} s"
    return [
        f"{outcome.failures}",
        f"{outcome.wrong_rows:,}",
        f"{outcome.fetched_bytes / outcome.source_bytes:.2f} ×",
        first,
        f"{extra_s:+.2f} s" if compared else "–",
        percent(extra_s / JOB_S, 2, signed=True) if compared else "–",
        f"{outcome.peak_bytes / 1e6:.0f} MB",
    ]


def lying_locks(place: Path) -> Path:
    """Compile the library under which every lock succeeds."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("needs a C compiler, for locks that lie")
    library = place / "flock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, FLOCK], check=True)
    return library


if __name__ == "__main__":
    main()
