"""Two runs in turn with scripted workers: order, ends of cells, and taking up what was left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from skymark.execute.asking import Interpreters
from skymark.execute.measurer import Measurer
from skymark.execute.pairs import PairedRuns
from skymark.execute.worker_pool import WorkerPool
from skymark.measure.slices import OPEN
from skymark.model.errors import UsageError
from skymark.model.record import Cause, Cell, Record, Status, Stop
from skymark.rundir.directory import RunDirectory
from tests.processes.conftest import Bed
from tests.scripted_suite import EFFORT, ScriptedSuite, Witness, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

Build = Callable[..., PairedRuns]
BASELINE, CANDIDATE = "baseline", "candidate"


@pytest.fixture
def pair(bed: Bed) -> Build:
    """Returns a maker of two runs, whose workers share the bed's journal."""

    def make(*cells: Cell, rounds: int = 1, package: Path | None = None) -> PairedRuns:
        bounds = EFFORT.model_copy(
            update={"min_rounds": rounds, "max_rounds": rounds, "cell_timeout_s": 60.0}
        )
        plan, suite = plan_of(*cells, effort=bounds), ScriptedSuite()
        columns = suite.declaration.sample_columns
        python = Path(sys.executable)

        def measurer(name: str, package: Path | None) -> Measurer:
            run = RunDirectory(bed.cache.parent / name, sample_columns=columns)
            interpreters = Interpreters(None, python, "cpu", package)
            pool = WorkerPool(bed.witness.stage, keeps=False, forks=False)
            return Measurer(plan, suite, run, bed.cache, bed.witness, interpreters, workers=pool)

        return PairedRuns(measurer(BASELINE, package), measurer(CANDIDATE, None))

    return make


def runs_in_order(bed: Bed) -> list[tuple[int, str]]:
    """The rounds of a single cell as they were measured: number and run, by their start."""
    found = []
    for name in (BASELINE, CANDIDATE):
        record = RunDirectory(bed.cache.parent / name).record(CELL)
        assert record is not None
        found += [(one.started_at, one.round, name) for one in record.rounds]
    return [(number, name) for _, number, name in sorted(found)]


CELL = cell_of("a")


def test_the_run_that_is_first_changes_from_pair_to_pair(bed: Bed, pair: Build) -> None:
    before, after = pair(CELL, rounds=2).run()
    assert runs_in_order(bed) == [
        *((0, BASELINE), (0, CANDIDATE)),
        *((1, CANDIDATE), (1, BASELINE)),
    ]
    assert [record.stopped_by for record in (*before, *after)] == [Stop.ROUNDS, Stop.ROUNDS]
    assert len({line["pid"] for line in bed.journal("measure")}) == 4


def test_a_run_killed_within_a_pair_loses_no_round_and_pairs_no_round_with_a_later_one(
    bed: Bed, pair: Build
) -> None:
    def interrupt(told: str) -> None:
        if told == f"measuring {CELL.id} 0" and bed.witness.told.count(told) == 2:
            raise KeyboardInterrupt

    bed.witness = Witness(interrupt)
    with pytest.raises(KeyboardInterrupt):
        pair(CELL).run()
    bed.witness = Witness()
    ((before,), (after,)) = pair(CELL).run()
    numbers = [[one.round for one in record.rounds] for record in (before, after)]
    assert numbers == [[0, 1], [1]]


def test_a_cell_that_failed_on_one_side_is_measured_by_itself_and_again_in_pairs_on_request(
    bed: Bed, pair: Build
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    failed = Record(
        cell=CELL,
        cell_hash=CELL.hash,
        status=Status.FAILED,
        cause=Cause(kind="worker-died", message="it is gone"),
        started_at=now,
        ended_at=now,
    )
    RunDirectory(bed.cache.parent / BASELINE).write_record(failed)
    ((before,), (after,)) = pair(CELL).run()
    assert (before.status, after.status) == (Status.FAILED, Status.OK)
    assert [one.round for one in after.rounds] == [0]
    ((before,), (after,)) = pair(CELL).run(retry=[Status.FAILED])
    assert (before.status, after.status) == (Status.OK, Status.OK)
    assert [[one.round for one in record.rounds] for record in (before, after)] == [[1], [1]]


def test_a_baseline_that_does_not_answer_is_refused_before_anything_is_measured(
    bed: Bed, pair: Build, tmp_path: Path
) -> None:
    package = tmp_path / "old" / "skymark"
    (package / "execute").mkdir(parents=True)
    for folder in (package, package / "execute"):
        (folder / "__init__.py").touch()
    (package / "execute" / "worker.py").write_text("raise SystemExit('an older protocol')")
    with pytest.raises(UsageError, match=r"skymark's protocol"):
        pair(CELL, package=package).run()
    assert bed.journal("measure") == []


def test_the_rounds_of_a_pair_run_in_slices_that_do_not_overlap(bed: Bed, pair: Build) -> None:
    cell = cell_of("a", does="go on")
    records = pair(cell, rounds=2).run()
    assert [one.status for (one,) in records] == [Status.OK] * 2
    assert not any(one.kind == "not-in-slices" for (record,) in records for one in record.warnings)
    told = [line["slices"] for line in bed.journal("sliced")]
    assert len(told) == 4
    for pair_of_rounds in (told[:2], told[2:]):
        assert min(map(len, pair_of_rounds)) > 2
        in_order = sorted((b, e) for slices in pair_of_rounds for b, e in slices if e != OPEN)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(in_order))


def test_rounds_that_cannot_be_sliced_run_one_after_the_other_and_say_so(
    bed: Bed, pair: Build
) -> None:
    for (record,) in pair(CELL).run():
        assert "not-in-slices" in {one.kind for one in record.warnings}
    assert bed.journal("sliced") == []


def test_a_side_that_dies_in_a_slice_leaves_the_other_its_rounds(bed: Bed, pair: Build) -> None:
    records = pair(cell_of("a", does="go on or die"), rounds=2).run()
    ended = sorted((one.status, len(one.rounds)) for (one,) in records)
    assert ended == [(Status.FAILED, 0), (Status.OK, 2)]
