"""How long 10,000 records on disk, or in a bucket, take to be listed, resumed and reported.

Run with ``nox -s microbench``; `docs/stores.md` has the figures. The directory is made without
measuring: real records, with samples, of a real plan of that many cells.
"""

import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from skymark.cli.options import PlanOptions
from skymark.model.schema import KEY, seal, sealed
from skymark.rundir.reader import open_run
from skymark.rundir.row import samples_file
from skymark.suites.loading.metrics import DECLARATION
from tests.data.make_run import measured, rounds_of, write_run
from tests.stores.s3_server import s3_server

ADAPTERS = (
    "numpy",
    "pytorch",
    "grain",
    "spdl",
    "dali",
    "ray",
    "litdata",
    "mosaic",
    "tfdata",
    "energon",
)
CELLS = 10_000 if "--benchmark-only" in sys.argv else 200
"""Few where the tests only see to it that this works."""
LIMIT_S = 10.0
"""What each of the three may take from disk."""
BUCKET_LIMIT_S = 60.0
"""What all of it together may take from a bucket."""
OPTIONS = {
    "scenarios": ("PC-1",),
    "adapters": ADAPTERS,
    "axis": ("depth=" + ",".join(map(str, range(1, CELLS // len(ADAPTERS) + 1))),),
    "effort": "quick",
}
ARGUMENTS = [
    word for name, value in OPTIONS.items()
    for word in (f"--{name}", *([value] if isinstance(value, str) else value))
]  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A finished run of so many cells."""
    work = {name: value for name, value in OPTIONS.items() if name != "axis"}
    plan = PlanOptions(**work, own={"axis": OPTIONS["axis"]}).plan()
    cells = [planned.cell for planned in plan.cells]
    rounds = rounds_of(20_000, name="many")
    samples = samples_file(rounds, DECLARATION.sample_columns)
    first = measured(cells[0], rounds, samples_sha256=sha256(samples).hexdigest())
    records = [first.model_copy(update={"cell": cell, "cell_hash": cell.hash}) for cell in cells]
    directory = write_run(tmp_path_factory.mktemp("many") / "run", records)
    manifest = open_run(directory).manifest
    manifest = manifest.model_copy(update={"plan": plan, "plan_hash": plan.hash})
    (directory / "manifest.json").write_bytes(sealed(manifest))
    for folder in ("samples", "logs", "rounds"):
        (directory / folder).mkdir()
    for cell in cells:
        (directory / "samples" / f"{cell.id}.parquet").write_bytes(samples)
        (directory / "logs" / f"{cell.id}.log").touch()
    # Its end lets the intervals borrow from one another, as in every run that ended.
    skymark(directory, "run", *ARGUMENTS, "--output", str(directory), "--resume")
    return directory


def skymark(directory, *arguments, **variables):
    lock = {"SKYMARK_LOCK": str(directory.parent / "machine.lock")}
    done = subprocess.run(
        [sys.executable, "-m", "skymark", *arguments],
        env=os.environ | lock | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_many_records_are_listed(benchmark, many):
    opened = benchmark.pedantic(open_run, args=(many,), rounds=3)
    assert (len(opened.records), opened.problems, opened.missing) == (CELLS, (), ())
    assert benchmark.stats is None or benchmark.stats.stats.median < LIMIT_S


@pytest.mark.parametrize("command", ["report", "run"])
def test_many_records_are_reported_and_resumed(benchmark, many, command):
    before = {path: path.stat().st_mtime_ns for path in (many / "records").iterdir()}
    more = {"report": (str(many),), "run": (*ARGUMENTS, "--output", str(many), "--resume")}
    benchmark.pedantic(skymark, args=(many, command, *more[command]), rounds=3)
    assert {path: path.stat().st_mtime_ns for path in (many / "records").iterdir()} == before
    assert (many / "report.html").stat().st_size > CELLS
    assert benchmark.stats is None or benchmark.stats.stats.median < LIMIT_S


def test_many_records_are_continued_from_a_bucket_by_another_machine(benchmark, many, tmp_path):
    """Everything at once: listed and fetched, resumed, reported, and compared with the bucket."""
    with s3_server() as server:
        server.make_bucket("many")
        put = {"manifest.json": (many / "manifest.json").read_bytes()}
        for path in (many / "records").iterdir():
            content = json.loads(path.read_bytes()) | {"samples_sha256": None}
            del content[KEY]
            put[f"records/{path.name}"] = seal(json.dumps(content))
        server.fill("many", {f"run/{name}": data for name, data in put.items()})
        directory = tmp_path / "run"
        arguments = (*ARGUMENTS, "--output", str(directory), "--store", "s3://many", "--resume")
        ran = benchmark.pedantic(
            skymark, args=(directory, "run", *arguments), kwargs=server.variables, rounds=1
        )
    assert "read back" in ran.stderr
    assert len(list((directory / "records").iterdir())) == CELLS
    assert benchmark.stats is None or benchmark.stats.stats.median < BUCKET_LIMIT_S
