"""How long 9,250 pairs of models and data sets take to be planned, listed and filtered.

Run with ``nox -s microbench``; `docs/clip.md` promises the limit. Nothing is measured: the
run's records are made here.
"""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from skymark.execute.planner import load_profile, make_plan
from skymark.machine.facts import capture
from skymark.model.manifest import Manifest
from skymark.model.metric import Figure
from skymark.model.record import Record, Status
from skymark.model.requests import Work
from skymark.model.schema import sealed
from skymark.suite.registry import suite_named

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEASURED = "--benchmark-only" in sys.argv
PAIRS, PENDING = (9_250, 250) if MEASURED else (185, 5)
"""Few where the tests only see to it that this works."""
LIMIT_S = 2.0
TASKS = ("zeroshot_classification", "zeroshot_retrieval", "linear_probe")
WHAT = ("--models", "all", "--datasets", "all", "--tasks", *TASKS)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A run of so many pairs, some of which are pending."""
    directory = tmp_path_factory.mktemp("runs") / "many"
    work = Work(scenarios=("all",), adapters=("all",), options={"tasks": list(TASKS)})
    plan = make_plan(load_profile("clip"), work)
    plan = plan.model_copy(update={"cells": plan.cells[:PAIRS]})
    cells = [one.cell for one in plan.cells]
    (directory / "records").mkdir(parents=True)
    manifest = Manifest(
        run_id="many",
        created_at=NOW,
        plan=plan,
        plan_hash=plan.hash,
        declaration=suite_named("clip").declared(cells),
        machine=capture(directory),
    )
    (directory / "manifest.json").write_bytes(sealed(manifest))
    figures = dict.fromkeys(("score", "acc1", "acc5", "encoded_images_per_s"), Figure(value=0.5))
    for cell in cells[: PAIRS - PENDING]:
        record = Record(
            cell=cell,
            cell_hash=cell.hash,
            status=Status.OK,
            metrics=figures,
            started_at=NOW,
            ended_at=NOW,
        )
        (directory / "records" / f"{cell.id}.json").write_bytes(sealed(record))
    return directory


def lines_of(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "skymark", "clip", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [("plan", *WHAT), ("plan", *WHAT, "--pairs"), ("plan", *WHAT[:3], "wds/vtab/*")],
    ids=["planned", "listed", "filtered"],
)
def test_pairs_are_planned(benchmark, arguments):
    assert len(benchmark.pedantic(lambda: lines_of(*arguments), rounds=3)) > 100
    if MEASURED:
        assert benchmark.stats["min"] < LIMIT_S


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [((), None), (("--only", "pending"), PENDING)],
    ids=["counted", "filtered"],
)
def test_records_are_read(benchmark, many, arguments, lines):
    found = benchmark.pedantic(lambda: lines_of("status", str(many), *arguments), rounds=3)
    assert lines is None or len(found) == lines
    if MEASURED:
        assert benchmark.stats["min"] < LIMIT_S
