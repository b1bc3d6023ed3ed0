"""The planning side and the worker's: cells that sleep for about as long as is guessed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from skymark.execute.duration import EXPECTED_START_S
from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.metric import Declaration, Metric
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cell, RoundResult, Verification
from skymark.suite.contract import Row, Suite, TimedRegion

GUESS_S = {"s": 15.0, "l": 60.0}
"""Of a round, by a sleeper's first letter: a sixtieth of a quarter of an hour, or of an hour."""
LOOK_S = 0.5
"""Between two looks at the sleepers on a card, which share its time as real work does."""
SPREAD = 0.3
FACTOR_VARIABLE = "STANDIN_FACTOR"
"""How many times as long as guessed a cell sleeps: for jobs that only a ceiling ends."""

EFFORTS = {
    name: Effort(
        name=name,
        min_rounds=1,
        max_rounds=1,
        target_relative_interval=0.1,
        cell_timeout_s=3600,
        limits={},
    )
    for name in ("quick", "standard", "rigorous")
}


class StandInSuite(Suite):
    """Sleeps of known length."""

    name: ClassVar = "standin"
    title: ClassVar = "sleeps in place of work"
    runner: ClassVar = "skymark_standin.suite:Sleeper"
    declaration: ClassVar = Declaration(
        suite="standin",
        metrics=(Metric(name="sleeps_per_s", heading="sleeps/s", unit="1/s", better="higher"),),
        primary="sleeps_per_s",
        sample_columns={"sleep_ns": "int64"},
    )
    efforts: ClassVar[Mapping[str, Effort]] = EFFORTS
    shares_machine: ClassVar = True

    def scenarios(self) -> list[Row]:
        """Return a line per scenario."""
        return [{"id": "sleep"}]

    def adapters(self) -> list[Row]:
        """Return a line per sleeper."""
        short = [{"slug": f"s{number}"} for number in range(1, 17)]
        return short + [{"slug": f"l{number}"} for number in range(1, 65)]

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return a cell per sleeper, each a group of its own."""
        del effort
        names = selection.adapters
        if "all" in names:
            names = tuple(str(row["slug"]) for row in self.adapters())
        return [
            PlannedCell(
                cell=Cell(suite="standin", scenario="sleep", variant="long", adapter=name),
                group=name,
                shard_key=name,
                guess=guess_of(name),
            )
            for name in names
        ]

    def venv(self, cell: Cell) -> None:
        """Return None: a sleeper runs in the interpreter that skymark runs in."""
        del cell


def guess_of(name: str) -> Span:
    """Return the expected time of a sleeper."""
    expected_s = GUESS_S[name[0]]
    low_s, high_s = expected_s * (1 - SPREAD), expected_s * (1 + SPREAD)
    return Span(low_s=low_s, expected_s=expected_s, high_s=high_s)


def is_live(mark: Path) -> bool:
    """Whether the sleeper that made a file is there."""
    return Path("/proc", mark.name).exists()


class Sleeper:
    """Sleeps. Implements `skymark.suite.contract.Runner`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        del platform
        self._card = cache / "cards" / os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        self._factor = random.Random(cell.adapter).uniform(1 - SPREAD, 1 + SPREAD)
        time.sleep(EXPECTED_START_S * self._factor)  # for the import of a library
        self._factor *= float(os.environ.get(FACTOR_VARIABLE) or 1)

    def versions(self) -> dict[str, str]:
        """Return nothing."""
        return {}

    def prepare(self, cell: Cell) -> None:
        """Make nothing."""

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Sleep."""
        del effort
        started_at = datetime.now(UTC)
        region.begins()
        begin_ns = time.perf_counter_ns()
        left_s = guess_of(cell.adapter).expected_s * self._factor
        mark = self._card / str(os.getpid())
        self._card.mkdir(parents=True, exist_ok=True)
        mark.touch()
        while left_s > 0:
            before_s = time.monotonic()
            time.sleep(LOOK_S)
            sharing = sum(map(is_live, self._card.iterdir()))
            left_s -= (time.monotonic() - before_s) / max(1, sharing)
        mark.unlink()
        timed_ns = time.perf_counter_ns() - begin_ns
        resources = region.ends()
        return RoundResult(
            round=round,
            started_at=started_at,
            setup_s=0,
            timed_ns=timed_ns,
            metrics={"sleeps_per_s": 1e9 / timed_ns},
            resources=resources,
            samples={"sleep_ns": (timed_ns,)},
            verification=Verification(
                passed=True, cause=None, verified_elements=1, compared_elements=1, fields=("sleep",)
            ),
            conditions={},
        )

    def close(self) -> None:
        """Free nothing."""
