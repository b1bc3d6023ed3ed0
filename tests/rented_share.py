"""Make the table of docs/reference/evidence.md: how much of a rented run's time is measuring.

    python -m tests.rented_share docs/reference/evidence.md

carries out the plan of a profile for an accelerator on this machine's CPU: its cells, sizes, rounds
and settings, with data made anew and each adapter's import 6 s longer. Venvs are there before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from skymark.cache.location import cache_directory
from skymark.execute.planner import load_profile, profile_paths
from skymark.model.record import Status
from skymark.rundir.reader import Run, open_run
from skymark.suites.loading.registry import adapter_class
from tests.faults.table import renew

IMPORT_S = 6.0
"""By which an import is longer: torch and JAX for CUDA take 4 to 9 s."""

SLOW_IMPORT = """\
import sys, time
class Slow:
    slept = False
    def find_spec(self, name, path=None, target=None):
        if not Slow.slept and name in {modules!r}:
            Slow.slept = True
            time.sleep({seconds})
if any(word.endswith("bench:AdapterBench") for word in sys.orig_argv):
    sys.meta_path.insert(0, Slow())
"""
"""Python imports it at the start of each process, and it delays workers, not judges."""


@dataclass(frozen=True)
class Share:
    """Where the seconds of a run went."""

    rounds: int
    wall_s: float
    """Of the command."""
    before_s: float
    """Until the first round: data, and the first import."""
    warm_up_s: float
    measured_s: float

    @property
    def cells(self) -> list[str]:
        """The columns of the table."""
        others_s = self.wall_s - self.before_s - self.warm_up_s - self.measured_s
        times = (self.wall_s, self.before_s, self.warm_up_s, self.measured_s, others_s)
        timed = (self.measured_s, self.measured_s + self.warm_up_s)
        return [
            str(self.rounds),
            *(f"{seconds:.0f}" for seconds in times),
            *(f"{seconds / self.wall_s:.2f}" for seconds in timed),
        ]


COLUMNS = (
    "profile",
    "rounds",
    "run, s",
    "before the first round",
    "warm-up",
    "measured",
    "the rest",
    "measured / run",
    "with warm-up",
)


def share_of(run: Run, began_at: float, wall_s: float) -> Share:
    """Return where the seconds of a run went.

    Args:
        run: all of whose cells ended ok.
        began_at: of the command, seconds since the epoch.
        wall_s: of the command.
    """
    bad = [record.cell.id for record in run.records if record.status is not Status.OK]
    if bad:
        raise SystemExit(f"these cells did not end ok: {', '.join(bad)}")
    waits = pq.read_table(run.directory / "samples", columns=["wait_ns", "warm_up"]).to_pydict()
    each = zip(waits["wait_ns"], waits["warm_up"], strict=True)
    warm_up_ns = sum(wait for wait, is_warm_up in each if is_warm_up)
    rounds = [one for record in run.records for one in record.rounds]
    return Share(
        rounds=len(rounds),
        wall_s=wall_s,
        before_s=min(one.started_at.timestamp() for one in rounds) - began_at,
        warm_up_s=warm_up_ns / 1e9,
        measured_s=sum(one.timed_ns for one in rounds) / 1e9,
    )


def carried_out(profile: str, directory: Path, options: list[str]) -> Share:
    """Carry out a profile's plan on the CPU, with a cache that has its venvs and nothing else."""
    adapters = load_profile(profile).adapters
    subprocess.run([sys.executable, "-m", "skymark", "env", "build", *adapters], check=True)
    (directory / "cache").mkdir()
    (directory / "cache" / "venvs").symlink_to(cache_directory() / "venvs")
    path = directory / f"{profile}.toml"
    path.write_text(on_cpu(profile_paths()[profile].read_text()))
    modules = {adapter_class(slug).imports.partition(".")[0] for slug in adapters}
    (directory / "sitecustomize.py").write_text(
        SLOW_IMPORT.format(modules=modules, seconds=IMPORT_S)
    )
    variables = {"SKYMARK_CACHE": directory / "cache", "SKYMARK_WORKER_PATH": directory}
    command = [sys.executable, "-m", "skymark", "run", "--profile", path, *options]
    began, began_at = time.monotonic(), time.time()
    subprocess.run(
        [*command, "--output", directory / "run"],
        env={**os.environ, **{name: os.fspath(value) for name, value in variables.items()}},
        check=True,
    )
    return share_of(open_run(directory / "run"), began_at, time.monotonic() - began)


def on_cpu(profile: str) -> str:
    """Return the text of a profile for an accelerator, for a machine that has none."""
    lines = profile.splitlines()
    platforms = [line for line in lines if line.startswith("platform = ")]
    if len(platforms) != 1:
        raise SystemExit("the profile names no platform in a line of its own")
    return profile.replace(platforms[0], 'platform = "cpu"')


def main() -> None:
    """Carry out, write the table and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--profile", default="gpu_h100")
    parser.add_argument("--directory", type=Path, help="for the run, which stays there")
    parser.add_argument("options", nargs="*", help="of `skymark run`, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = (arguments.directory or Path(name)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        share = carried_out(arguments.profile, directory, arguments.options)
    row = f"`{arguments.profile}`"
    print(dict(zip(COLUMNS, [row, *share.cells], strict=True)))
    if not arguments.options:
        renew(arguments.page, "rented share", COLUMNS, (row,), {row: share.cells})


if __name__ == "__main__":
    main()
