"""A run that a fault is done to: started as a user does, watched from outside, and counted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from skymark.model.record import Cell, Record, Round, RoundResult, Status
from skymark.rundir.directory import RunDirectory
from skymark.rundir.reader import open_run
from tests.faults.table import Row
from tests.waiting import until

WITNESS = Path(__file__).with_name("witness.py")
SMALL = (
    *("--scenarios", "PC-1", "--axis", "depth=1,2"),
    *("--rounds", "2", "--effort", "check", "--timeout", "300"),
)
"""Two cells of every adapter with two rounds each: the first rounds of all come first."""
TWO = (f"{WITNESS}:Witness", f"{WITNESS}:Second")

STARTED: list[subprocess.Popen[str]] = []
"""Every run that was started, for whoever tidies up after a test that failed."""


def started_below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that a command has started and that still run."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def rounds_in(directory: Path) -> dict[str, list[Round]]:
    """Rounds of a run that can be read, by cell id: of finished and of unfinished cells."""
    run = RunDirectory(directory)
    if not (run.path / "manifest.json").exists():
        return {}
    found: dict[str, list[Round]] = {}
    for cell in run.manifest().cells.values():
        if (record := run.record(cell)) is not None:
            found[cell.id] = list(record.rounds)
            continue
        paths = run.path.glob(f"rounds/{cell.id}/*.json")
        contents = [json.loads(path.read_bytes()) for path in sorted(paths)]
        found[cell.id] = [
            RoundResult.model_validate(content["result"]).summary
            for content in contents
            if content["cell_hash"] == cell.hash
        ]
    return found


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes of a run."""
    found = []
    for child in started_below(process):
        with contextlib.suppress(psutil.Error):
            if "skymark.execute.worker" in child.cmdline():
                found.append(child)
    return found


@dataclass
class Case:
    """One run directory with everything that is started into it."""

    directory: Path
    """Of this test; the run's own is `output`."""
    arguments: Sequence[str] = (*SMALL, "--adapters", *TWO)
    output: Path = Path()
    lock: str = "machine.lock"
    variables: dict[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    kept: dict[str, list[Round]] = field(default_factory=dict)
    """Rounds that lay on disk after a fault, by cell id."""
    begins: list[int] = field(default_factory=list)
    """How many rounds had begun when each start ended."""

    def __post_init__(self) -> None:
        if self.output == Path():
            self.output = self.directory / "out"
        self.witness = self.directory / f"witness-{self.output.name}"
        self.hold = self.directory / f"hold-{self.output.name}"

    # Running

    def start(self, *more: str, **variables: str) -> subprocess.Popen[str]:
        """Start the run in a session of its own, so that signals reach nothing else."""
        process = subprocess.Popen(
            [*self.prefix, *command("run", *self.arguments, *more, "--output", str(self.output))],
            env=self.environment() | self.variables | variables,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        STARTED.append(process)
        return process

    def start_and_hold(self, at: int, *more: str) -> subprocess.Popen[str]:
        """Start the run and return when it stands at the beginning of a round, until `release`.

        Args:
            at: number of the round, from 1 on.
            more: further arguments.
        """
        self.hold.write_text(str(at))
        process = self.start(*more, HOLD=str(self.hold))
        until(lambda: len(self.begun()) >= at, 600, what=f"round {at}")
        return process

    def release(self) -> None:
        """Let a run that is held go on."""
        self.hold.unlink()

    def run(self, *more: str, timeout: float = 300, **variables: str) -> tuple[int, str]:
        """Run to the end; returns exit status and standard error."""
        return self.finish(self.start(*more, **variables), timeout)

    def finish(self, process: subprocess.Popen[str], timeout: float = 300) -> tuple[int, str]:
        """Wait for the end of a run and note how far it came."""
        _, stderr = process.communicate(timeout=timeout)
        self.ended()
        return process.returncode, stderr

    def ended(self) -> None:
        """Note that a start ended."""
        self.begins.append(len(self.begun()))

    def environment(self) -> dict[str, str]:
        """The caller's environment, without stores, with a lock and a witness of the test's own."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "AWS_", "R2_"))}
        return plain | {
            "SKYMARK_LOCK": str(self.directory / self.lock),
            "WITNESS": str(self.witness),
            "SKYMARK_PASS_VARIABLES": "WITNESS,HOLD,CLOCK_OFFSET",
            "COLUMNS": "200",
        }

    # Watching

    def begun(self) -> list[str]:
        """The cells whose rounds have begun, in order, as the adapters themselves wrote it."""
        if not self.witness.exists():
            return []
        lines = [json.loads(line) for line in self.witness.read_text().splitlines()]
        return [
            Cell(suite="loading", scenario=scenario, variant="small", adapter=adapter, axes=axes).id
            for scenario, axes, adapter in lines
        ]

    def written(self) -> Counter[str]:
        """Rounds by cell that must be on disk: skymark asked for another one after them."""
        counted: Counter[str] = Counter()
        first, begun = 0, self.begun()
        for end in self.begins:
            counted.update(begun[first : end - 1] if end > first else [])
            first = end
        return counted

    def on_disk(self, output: Path | None = None) -> dict[str, list[Round]]:
        """Rounds that can be read, by cell id: of finished and of unfinished cells."""
        return rounds_in(output or self.output)

    def records(self) -> dict[str, Record]:
        """The readable records by cell id."""
        return open_run(self.output).by_id

    # Counting

    def faulted(self) -> None:
        """See to it that whatever skymark had finished is on disk after a fault."""
        found = self.on_disk()
        missing = {
            cell: count - len(found.get(cell, []))
            for cell, count in self.written().items()
            if len(found.get(cell, [])) < count
        }
        assert not missing, f"rounds that were finished are not on disk: {missing}"
        self.kept = found

    def row(self, *, again: Sequence[str] = ()) -> Row:
        """Count, when all has been mended: every planned cell must have its whole record.

        Args:
            again: cells whose earlier rounds the fault itself made useless, to be repeated whole.
        """
        opened = open_run(self.output)
        assert not opened.problems
        assert not opened.missing
        assert [record.status for record in opened.records] == [Status.OK] * len(opened.records)
        run, manifest = RunDirectory(self.output), opened.manifest
        assert manifest.finished
        rounds = manifest.plan.effort.min_rounds
        whole = {cell.id: run.record(cell) for cell in manifest.cells.values()}
        stored = sum(len(record.rounds) for record in whole.values() if record is not None)
        lost = sum(
            1
            for id, kept in self.kept.items()
            if id not in again
            for one in kept
            if (record := whole[id]) is None or one not in record.rounds
        )
        planned = len(manifest.cells) * rounds
        measured = len(self.begun())
        return Row(
            moments=1,
            cells=len(manifest.cells),
            planned=planned,
            measured=measured,
            stored=stored,
            lost=lost + (planned - stored),
            repeated=measured - planned,
        )


def interrupted(
    directory: Path, chance: random.Random, span_s: float
) -> tuple[Case, subprocess.Popen[str], float]:
    """Start the usual run and let it go for a random while; one that had ended does not count."""
    while True:
        at_s = chance.uniform(0, span_s)
        case = Case(directory, output=directory / f"out-{len(list(directory.glob('out-*')))}")
        process = case.start()
        time.sleep(at_s)
        if process.poll() is None:
            return case, process, at_s
        case.finish(process)
        span_s = at_s


def command(*arguments: str) -> list[str]:
    """The `skymark` command of this interpreter."""
    return [sys.executable, "-m", "skymark", *arguments]


def skymark(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run another command of skymark there."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "200"} | variables,
        cwd=directory,
        check=False,
    )
