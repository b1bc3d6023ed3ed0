"""The scripted suite, with real worker processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from skymark.execute import process, worker_pool
from skymark.execute.asking import Interpreters
from skymark.execute.measurer import Measurer
from skymark.execute.partition.shard import Shard
from skymark.execute.process import MeasuredRound, WorkerProcess
from skymark.execute.venvs import Venvs
from skymark.machine.processes import Table
from skymark.model.effort import Effort
from skymark.model.machine import Target
from skymark.model.plan import Plan
from skymark.model.record import Cell, MachineUse, Verification
from skymark.rundir.directory import RunDirectory
from skymark.suite.contract import Suite
from tests.scripted_suite import ScriptedSuite, Witness

WORKER_SIDE = Path(__file__).with_name("worker_side")


class Bed:
    """Where a measurer works: a run directory, a cache with the workers' journal, a witness."""

    def __init__(self, root: Path) -> None:
        self.run = RunDirectory(
            root / "run", sample_columns=ScriptedSuite.declaration.sample_columns
        )
        self.cache = root / "cache"
        self.cache.mkdir()
        self.witness = Witness()

    def measurer(
        self,
        plan: Plan,
        *,
        own: bool = False,
        suite: Suite | None = None,
        shard: Shard | None = None,
        target: Target = "cpu",
        sets_aside: bool = False,
    ) -> Measurer:
        """A measurer of a plan, with the tests' own Python or venvs of the cache.

        Other programs on the machine change nothing unless rounds are set aside.
        """
        return Measurer(
            plan=plan,
            suite=suite or ScriptedSuite(),
            run=self.run,
            cache=self.cache,
            observer=self.witness,
            interpreters=Interpreters(
                Venvs(self.cache, self.witness.stage) if own else None,
                Path(sys.executable),
                target,
            ),
            cells=None if shard is None else shard.take(plan.cells),
            sets_aside=sets_aside,
        )

    def journal(self, do: str) -> list[dict]:
        """What workers were asked to do, in order."""
        path = self.cache / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["do"] == do]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


@pytest.fixture(autouse=True)
def time_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers leave by themselves on a busy machine, too."""
    monkeypatch.setattr(process, "GRACE_S", 60.0)


@pytest.fixture(autouse=True)
def memory_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep parents whatever other programs leave of this machine's memory."""
    monkeypatch.setattr(worker_pool, "_free_share", lambda: 1.0)


@pytest.fixture
def short_time_for_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what hangs a thirtieth of its cell's time: 2 s of 60 s, which are for the others."""
    measure, judge = WorkerProcess.measure, WorkerProcess.judge

    def measuring(
        worker: WorkerProcess, cell: Cell, round: int, effort: Effort, log: Path, **more: bool
    ) -> MeasuredRound:
        if cell.settings.get("does") == "hang":
            limit_s = effort.cell_timeout_s / 30
            effort = effort.model_copy(update={"cell_timeout_s": limit_s})
        return measure(worker, cell, round, effort, log, **more)

    def judging(worker: WorkerProcess, cell: Cell, *told: Any) -> Verification:
        *others, limit_s = told
        if cell.settings.get("hands-over") == "hang":
            limit_s /= 30
        return judge(worker, cell, *others, limit_s)

    monkeypatch.setattr(WorkerProcess, "measure", measuring)
    monkeypatch.setattr(WorkerProcess, "judge", judging)


@pytest.fixture(autouse=True)
def worker_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers import the scripted runner, besides what the session lets them import."""
    paths = filter(None, [os.fspath(WORKER_SIDE), os.environ.get("SKYMARK_WORKER_PATH")])
    monkeypatch.setenv("SKYMARK_WORKER_PATH", os.pathsep.join(paths))


class Taken:
    """A watch that tells given shares of the processors, one a round."""

    def __init__(self) -> None:
        self.shares: list[float] = []

    def begin(self, own_s: float, table: Table) -> None:
        """Begin; nothing is read."""

    def end(self, own_s: float, table: Table, own: Collection[int]) -> MachineUse:
        return MachineUse(cores=2.0, others_cores=2 * self.shares.pop(0), program="stress-ng")


@pytest.fixture
def taken(monkeypatch) -> Taken:
    """Tells what others take in the rounds of this test."""
    told = Taken()
    monkeypatch.setattr(process, "MachineWatch", lambda _: told)
    return told
