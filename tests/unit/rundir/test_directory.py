"""A run directory: written whole or not at all, taken up only by the plan that made it."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset

from skymark.machine.facts import capture
from skymark.model.effort import Effort
from skymark.model.errors import RunDirectoryError, StorageFullError
from skymark.model.manifest import Manifest
from skymark.model.metric import SAMPLE_ORIGIN, Declaration, Metric
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import (
    SCHEMA_VERSION,
    Cell,
    MachineUse,
    Record,
    RoundResult,
    Status,
    Verification,
)
from skymark.rundir import directory
from skymark.rundir.directory import RunDirectory
from skymark.rundir.reader import read_sums

NOW = datetime(2026, 1, 1, tzinfo=UTC)

EFFORT = Effort(
    name="quick", min_rounds=3, max_rounds=3, target_relative_interval=0.1, cell_timeout_s=60.0
)

DECLARATION = Declaration(
    suite="training",
    metrics=(Metric(name="steps_per_s", heading="steps/s", better="higher"),),
    primary="steps_per_s",
    sample_columns={"step_ns": "int64", "loss": "float64", "device": "int32", "warm_up": "bool"},
)


def cell_of(adapter="jax", **specification):
    return Cell(
        suite="training",
        scenario="T-1",
        variant="small",
        adapter=adapter,
        specification=specification,
    )


def round_of(number):
    return RoundResult(
        round=number,
        started_at=NOW,
        setup_s=0.1,
        timed_ns=90,
        metrics={"steps_per_s": 2e7, "loss": 0.5},
        samples={
            "step_ns": (70, 2**40, 50 + number, 40),
            "loss": (0.5, 0.25, 1 / 3, 0),
            "device": (0, 1, 0, 1),
            "warm_up": (1, 1, 0, 0),
        },
        verification=Verification(passed=True),
    )


def record_of(cell, rounds=()):
    return Record(
        cell=cell,
        cell_hash=cell.hash,
        status=Status.OK,
        rounds=tuple(result.summary for result in rounds),
        started_at=NOW,
        ended_at=NOW,
    )


def plan_of(*cells, **effort):
    planned = tuple(PlannedCell(cell=cell, group="g", shard_key="s") for cell in cells)
    chosen = EFFORT.model_copy(update=effort)
    return Plan(suite="training", profile="test", effort=chosen, cells=planned)


def create(path, plan, *, resume=False, run_id="r"):
    manifest = Manifest(
        run_id=run_id,
        created_at=NOW,
        plan=plan,
        plan_hash=plan.hash,
        declaration=DECLARATION,
        machine=MACHINE,
    )
    return RunDirectory.create(path, manifest, resume=resume)


MACHINE = capture(Path.cwd())


@pytest.fixture
def run(tmp_path):
    return create(tmp_path / "run", plan_of(cell_of()))


def files(run):
    return sorted(str(p.relative_to(run.path)) for p in run.path.rglob("*") if p.is_file())


# Starting and taking up


def test_a_new_run_has_a_manifest_that_reads_back(run):
    manifest = run.manifest()
    assert manifest.plan == plan_of(cell_of())
    assert manifest.declaration == DECLARATION
    assert not manifest.finished
    assert files(run) == ["manifest.json"]


def test_the_same_plan_is_taken_up_only_with_resume(run):
    with pytest.raises(RunDirectoryError, match="add --resume"):
        create(run.path, plan_of(cell_of()))
    assert create(run.path, plan_of(cell_of()), resume=True).manifest() == run.manifest()


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize(
    "other",
    [plan_of(cell_of("torch")), plan_of(cell_of(seed=8)), plan_of(cell_of(), max_rounds=9)],
    ids=["adapter", "seed", "effort"],
)
def test_another_plan_is_refused_and_nothing_is_touched(run, other, resume):
    before = (run.path / "manifest.json").read_bytes()
    with pytest.raises(RunDirectoryError, match="another plan"):
        create(run.path, other, resume=resume)
    assert (run.path / "manifest.json").read_bytes() == before


def test_a_longer_time_limit_is_the_same_plan(run):
    create(run.path, plan_of(cell_of(), cell_timeout_s=999.0), resume=True)


def test_a_damaged_manifest_is_refused(run):
    (run.path / "manifest.json").write_bytes(b'{"schema_version": 1, "run')
    with pytest.raises(RunDirectoryError, match=r"manifest\.json: .*JSON"):
        create(run.path, plan_of(cell_of()), resume=True)


def test_a_directory_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunDirectoryError, match="not empty"):
        create(tmp_path, plan_of(cell_of()))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(RunDirectoryError, match="cannot write to"):
        create(file, plan_of(cell_of()))
    with pytest.raises(RunDirectoryError, match="cannot write to"):
        create(file / "below", plan_of(cell_of()))
    assert file.read_text() == "precious"


def test_what_a_run_leaves_that_was_killed_before_its_manifest_is_taken_for_nothing(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / ".abc123.part").write_bytes(b'{"schema')
    create(tmp_path, plan_of(cell_of()))


def test_a_record_of_a_newer_schema_is_not_taken_for_one_of_this(run):
    run.write_record(record_of(cell_of()))
    path = run.record_path(cell_of())
    newer = json.loads(path.read_text()) | {"schema_version": SCHEMA_VERSION + 1}
    path.write_text(json.dumps(newer))
    assert run.record(cell_of()) is None


def test_rounds_of_absurdly_nested_json_are_left_out(run):
    run.write_round(cell_of(), round_of(0), {})
    (run.path / "rounds" / cell_of().id / "1.json").write_text("[" * 100_000)
    assert len(list(run.rounds(cell_of()))) == 1


def test_an_empty_directory_is_taken(tmp_path):
    assert create(tmp_path, plan_of(cell_of())).manifest().run_id == "r"


# Records


def test_a_record_reads_back_and_its_rounds_are_dropped(run):
    cell = cell_of()
    run.write_round(cell, round_of(0), {"jax": "2"})
    assert run.record(cell) is None
    record = run.write_record(record_of(cell, [round_of(0)]), [round_of(0)])
    assert run.record(cell) == record
    assert files(run) == [
        "manifest.json",
        "records/training.T-1.small.jax.json",
        "samples/training.T-1.small.jax.parquet",
    ]


def test_a_round_without_samples_is_kept_and_its_record_written(run):
    cell, bare = cell_of(), round_of(1).model_copy(update={"samples": {}})
    run.write_round(cell, bare, {"jax": "2"})
    assert [result.samples for result, _ in run.rounds(cell)] == [{}]
    run.write_record(record_of(cell, [bare]), [bare])
    table = pq.read_table(run.samples_path(cell))
    assert len(table) == 0
    assert set(table.column_names) == SAMPLE_ORIGIN | DECLARATION.sample_columns.keys()
    run.write_record(record_of(cell, [round_of(0), bare]), [round_of(0), bare])
    assert pq.read_table(run.samples_path(cell))["round"].to_pylist() == [0] * 4


def test_the_samples_of_many_runs_and_cells_are_one_table_that_names_them(tmp_path):
    cells = [
        cell.model_copy(update={"settings": {"workers": 2}, "axes": {"depth": depth}})
        for cell in (cell_of(), cell_of("torch"))
        for depth in (1, 2)
    ]
    wanted = []
    for name in ("a", "b"):
        run = create(tmp_path / name, plan_of(*cells), run_id=name)
        for cell in cells:
            record = record_of(cell, [round_of(0)]).model_copy(update={"versions": {name: "1.2"}})
            run.write_record(record, [round_of(0)])
            wanted += [
                {
                    "run_id": name,
                    "cell_id": cell.id,
                    "cell_hash": cell.hash,
                    "suite": "training",
                    "scenario": "T-1",
                    "variant": "small",
                    "axes": json.dumps(cell.axes),
                    "adapter": cell.adapter,
                    "settings": '{"workers": 2}',
                    "versions": json.dumps(record.versions),
                    "hardware_key": MACHINE.hardware_key,
                    "step_ns_count": 4,
                }
            ]
    files = sorted(tmp_path.glob("*/samples/*"))
    table = dataset(list(map(str, files))).to_table()
    origin = sorted(SAMPLE_ORIGIN - {"round", "taken_share"})
    found = table.group_by(origin).aggregate([("step_ns", "count")]).to_pylist()
    assert sorted(found, key=str) == sorted(
        ({name: row[name] for name in [*origin, "step_ns_count"]} for row in wanted), key=str
    )
    # Many equal texts take no room: a cell's file stays as small as one round's.
    assert all(path.stat().st_size < 8_000 for path in files)


def test_no_suite_declares_a_column_that_names_a_sample():
    for name in SAMPLE_ORIGIN:
        with pytest.raises(ValueError, match=f"{name}.* skymark adds to all samples"):
            Declaration(
                suite="training",
                metrics=DECLARATION.metrics,
                primary="steps_per_s",
                sample_columns={name: "int64"},
            )


def test_a_record_without_the_samples_it_was_made_of_is_measured_again(run):
    cell = cell_of()
    run.write_record(record_of(cell, [round_of(0)]), [round_of(0)])
    path = run.samples_path(cell)
    path.write_bytes(path.read_bytes()[:-1])
    assert run.record(cell) is None
    path.unlink()
    assert run.record(cell) is None


def test_rounds_that_another_machine_measured_are_not_continued(run):
    run.write_round(cell_of(), round_of(0), {"jax": "2"})
    assert len(list(run.rounds(cell_of()))) == 1
    elsewhere = RunDirectory(run.path, hardware_key="another machine")
    assert list(elsewhere.rounds(cell_of())) == []


def test_a_run_that_goes_on_elsewhere_says_so_once(run):
    hardware = MACHINE.hardware.model_copy(update={"cpu_model": "another"})
    there = MACHINE.model_copy(update={"hardware": hardware})
    for _ in range(2):
        manifest = run.manifest().model_copy(update={"machine": there, "stores": ("s3://b/r",)})
        RunDirectory.create(run.path, manifest, resume=True)
    assert run.manifest().machine == MACHINE
    assert run.manifest().continued_on == (there,)
    assert run.manifest().stores == ("s3://b/r",)


def test_digests_are_those_that_sha256sum_checks_and_go_when_the_run_goes_on(run):
    run.write_record(record_of(cell_of(), [round_of(0)]), [round_of(0)])
    run.write_sums()
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=run.path, check=False
    )
    assert done.returncode == 0
    create(run.path, plan_of(cell_of()), resume=True)
    assert not (run.path / "SHA256SUMS").exists()


def test_every_write_is_told_by_cell(run):
    told = []
    run.changed = lambda cell, paths: told.append((cell, list(paths)))
    run.write_round(cell_of(), round_of(0), {})
    run.write_record(record_of(cell_of(), [round_of(0)]), [round_of(0)])
    id = cell_of().id
    assert told == [
        (id, [f"rounds/{id}/0.json"]),
        (
            id,
            [
                f"samples/{id}.parquet",
                f"logs/{id}.log",
                f"records/{id}.json",
                f"rounds/{id}/0.json",
            ],
        ),
    ]


def test_a_record_of_another_specification_is_not_taken_for_the_cells(run):
    run.write_record(record_of(cell_of(seed=7)))
    assert run.record(cell_of(seed=7)) is not None
    assert run.record(cell_of(seed=8)) is None


@pytest.mark.parametrize("keep", [0, 1, 100, -2])
def test_a_truncated_record_is_as_good_as_none(run, keep):
    cell = cell_of()
    run.write_record(record_of(cell))
    path = run.record_path(cell)
    path.write_bytes(path.read_bytes()[:keep])
    assert run.record(cell) is None


def test_a_record_with_an_unknown_key_is_not_read(run):
    cell = cell_of()
    run.write_record(record_of(cell))
    path = run.record_path(cell)
    path.write_text(path.read_text().replace('"status"', '"state"'))
    assert run.record(cell) is None


# Samples


def test_samples_hold_every_value_of_every_round_in_the_columns_that_are_declared(run):
    use = MachineUse(cores=2.0, others_cores=0.5)
    noted = round_of(1).model_copy(update={"machine": use})
    run.write_record(record_of(cell_of()), [round_of(0), noted])
    table = pq.read_table(run.samples_path(cell_of()))
    own = {
        "round": pa.int16(),
        "taken_share": pa.float32(),
        "step_ns": pa.int64(),
        "loss": pa.float64(),
        "device": pa.int32(),
        "warm_up": pa.bool_(),
    }
    texts = dict.fromkeys(SAMPLE_ORIGIN - own.keys(), pa.string())
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == own | texts
    assert table.select(list(own)).to_pydict() == {
        "round": [0] * 4 + [1] * 4,
        "taken_share": [None] * 4 + [0.25] * 4,
        "step_ns": [70, 2**40, 50, 40, 70, 2**40, 51, 40],
        "loss": [0.5, 0.25, 1 / 3, 0.0] * 2,
        "device": [0, 1, 0, 1] * 2,
        "warm_up": [True, True, False, False] * 2,
    }


def test_a_run_that_is_taken_up_writes_samples_in_the_same_columns(run):
    again = create(run.path, plan_of(cell_of()), resume=True)
    again.write_record(record_of(cell_of()), [round_of(0)])
    names = pq.read_schema(run.samples_path(cell_of())).names
    assert set(names) == SAMPLE_ORIGIN | DECLARATION.sample_columns.keys()


def test_rounds_without_samples_make_a_file_without_rows(run):
    empty = round_of(0).model_copy(
        update={"samples": dict.fromkeys(DECLARATION.sample_columns, ())}
    )
    run.write_record(record_of(cell_of()), [empty])
    assert pq.read_table(run.samples_path(cell_of())).num_rows == 0
    assert run.record(cell_of()) is not None


def test_a_column_that_a_round_lacks_is_no_measurement(run):
    short = round_of(0).model_copy(update={"samples": {"step_ns": (1, 2)}})
    with pytest.raises(KeyError, match="loss"):
        run.write_record(record_of(cell_of()), [short])


def test_a_record_without_rounds_has_no_samples_and_removes_older_ones(run):
    run.write_record(record_of(cell_of()), [round_of(0)])
    run.write_record(record_of(cell_of()))
    assert not run.samples_path(cell_of()).exists()


@pytest.mark.parametrize("interrupted", ["samples", "records"])
def test_a_record_has_its_own_samples_where_another_run_writes_the_same_cell_between(
    run, monkeypatch, interrupted
):
    """Write the other's record whole before or after one file of this run's."""
    cell, theirs, written = cell_of(), round_of(1), []
    original = directory.write_below

    def write(folder, path, data):
        original(folder, path, data)
        first = not any(one.startswith(interrupted) for one in written)
        written.append(path)
        if first and path.startswith(interrupted):
            run.write_record(record_of(cell, [theirs]), [theirs])

    monkeypatch.setattr(directory, "write_below", write)
    run.write_record(record_of(cell, [round_of(0)]), [round_of(0)])
    assert len(written) > 2, "the other run has written nothing"
    assert run.record(cell) is not None


def test_a_record_whose_samples_are_replaced_again_and_again_is_left_to_the_next_run(
    run, monkeypatch
):
    cell, original, written = cell_of(), directory.write_below, []

    def write(folder, path, data):
        written.append(path)
        original(folder, path, b"theirs" if path.startswith("samples/") else data)

    monkeypatch.setattr(directory, "write_below", write)
    run.write_record(record_of(cell, [round_of(0)]), [round_of(0)])
    assert run.record(cell) is None
    assert len(written) == 2 * directory.WRITES


@pytest.mark.parametrize(("times", "written"), [(2, True), (100, False)])
def test_a_file_is_written_though_another_run_removes_its_directory_meanwhile(
    run, monkeypatch, times, written
):
    original, left = directory.write_below, [None] * times

    def write(folder, path, data):
        if left:
            left.pop()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        original(folder, path, data)

    monkeypatch.setattr(directory, "write_below", write)
    refused = nullcontext() if written else pytest.raises(StorageFullError, match="No such file")
    with refused:
        run.write_round(cell_of(), round_of(0), {})
    assert len(list(run.rounds(cell_of()))) == written


def test_sums_leave_out_a_round_that_goes_while_they_are_made(run, monkeypatch):
    original = directory.read_below
    run.write_round(cell_of(), round_of(0), {})

    def read(folder, path):
        if path.startswith("rounds/"):
            shutil.rmtree(folder / "rounds")
        return original(folder, path)

    monkeypatch.setattr(directory, "read_below", read)
    run.write_sums()
    assert read_sums(run.path).keys() == {"manifest.json"}


# Rounds


def test_rounds_come_back_in_the_order_they_were_measured(run):
    cell = cell_of()
    for number in (10, 2, 0, 1):
        run.write_round(cell, round_of(number), {"jax": str(number)})
    found = list(run.rounds(cell))
    assert [result for result, _ in found] == [round_of(number) for number in (0, 1, 2, 10)]
    assert [versions["jax"] for _, versions in found] == ["0", "1", "2", "10"]


def test_rounds_that_are_damaged_or_of_another_specification_are_left_out(run):
    cell = cell_of()
    for number in range(4):
        run.write_round(cell, round_of(number), {})
    folder = run.path / "rounds" / cell.id
    (folder / "0.json").write_bytes((folder / "0.json").read_bytes()[:50])
    (folder / "1.json").write_text("{}")
    (folder / "3.json").write_text((folder / "3.json").read_text().replace(cell.hash, "0" * 64))
    (folder / ".abc.part").write_text("half")
    (folder / "notes.json").write_text("{}")
    assert [result.round for result, _ in run.rounds(cell)] == [2]
    assert list(run.rounds(cell_of(seed=8))) == []


# Logs


def test_a_log_is_made_for_workers_to_append_to_and_never_cut(run):
    path = run.open_log(cell_of())
    path.write_text("first\n")
    assert run.open_log(cell_of()) == path == run.log_path(cell_of())
    assert path.read_text() == "first\n"
    run.write_log(cell_of(), "instead")
    assert path.read_text() == "instead"


# Writing whole or not at all


def test_a_failing_write_leaves_the_old_file_and_no_part(run, monkeypatch):
    before = files(run), (run.path / "manifest.json").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(StorageFullError, match=r"disk is full.*--resume"):
            run.write_manifest(run.manifest().model_copy(update={"finished": True}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (files(run), (run.path / "manifest.json").read_bytes()) == before
    assert not run.manifest().finished


def test_a_directory_that_cannot_be_written_is_told_with_its_reason(run):
    (run.path / "records").write_text("in the way")
    with pytest.raises(StorageFullError, match="File exists"):
        run.write_record(record_of(cell_of()))
    (run.path / "logs").write_text("in the way")
    with pytest.raises(StorageFullError):
        run.open_log(cell_of())


WRITER = """
import sys
from pathlib import Path
from skymark.rundir.directory import RunDirectory
run = RunDirectory(Path(sys.argv[1]))
manifest = run.manifest()
print("writing", flush=True)
for number in range(10**6):
    run.write_manifest(manifest.model_copy(update={"stores": ("x" * (number % 2 * 10**6),)}))
"""


WRITTEN = {(), ("",), ("x" * 10**6,)}


def test_a_writer_that_is_killed_leaves_a_whole_file(run):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run.path)], stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        for _ in range(50):
            assert run.manifest().stores in WRITTEN
        writer.kill()
    assert run.manifest().stores in WRITTEN


def test_files_can_be_read_by_others_whatever_the_umask(run):
    mask = os.umask(0o077)
    try:
        run.write_record(record_of(cell_of()))
    finally:
        os.umask(mask)
    assert run.record_path(cell_of()).stat().st_mode & 0o777 == 0o644
