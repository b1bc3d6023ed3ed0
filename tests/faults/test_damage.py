"""Records that something outside skymark has damaged."""

from __future__ import annotations

import json
import shutil

import pytest

from skymark.model.schema import KEY, seal, unsealed
from skymark.rundir.reader import open_run
from tests.faults.runs import Case, skymark


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run, made once."""
    case = Case(tmp_path_factory.mktemp("whole"))
    status, stderr = case.run()
    assert status == 0, stderr
    return case


@pytest.fixture
def case(whole, tmp_path):
    """A copy of it, as this test's own, with what was measured."""
    copied = Case(tmp_path)
    shutil.copytree(whole.output, copied.output)
    shutil.copyfile(whole.witness, copied.witness)
    copied.ended()
    return copied


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(bytes(range(256)) * 4)


def nested(path):
    path.write_text("[" * 100_000)


def newer(path):
    path.write_bytes(
        seal(json.dumps(json.loads(unsealed(path.read_bytes())) | {"schema_version": 999}))
    )


def other_hash(path):
    content = json.loads(path.read_text()) | {"cell_hash": "0" * 64}
    del content[KEY]
    path.write_bytes(seal(json.dumps(content)))


def flip_a_digit(path):
    data = path.read_bytes()
    place = data.index(b'"value": ') + len(b'"value": ')
    path.write_bytes(
        data[:place] + (b"2" if data[place : place + 1] == b"1" else b"1") + data[place + 1 :]
    )


def without_samples(path):
    (path.parents[1] / "samples" / f"{path.stem}.parquet").unlink()


def others_samples(path):
    first, *_ = sorted((path.parents[1] / "samples").glob("*"))
    own = path.parents[1] / "samples" / f"{path.stem}.parquet"
    assert own != first
    shutil.copyfile(first, own)


@pytest.mark.parametrize(
    ("fault", "damages", "problem"),
    [
        ("record truncated", (truncate, empty), "is no JSON"),
        ("record replaced by garbage", (garbage, nested), "is no JSON"),
        ("record of a newer schema", (newer,), "has schema version 999"),
        ("one digit of a record flipped", (flip_a_digit,), "its digest says"),
        ("record of another hash", (other_hash,), None),
        ("samples of a record missing", (without_samples, others_samples), None),
    ],
)
def test_only_damaged_cells_are_measured_again(case, tmp_path, table, fault, damages, problem):
    before = {path: path.read_bytes() for path in (case.output / "records").glob("*.json")}
    damaged = sorted(before, reverse=True)[: len(damages)]
    case.kept = case.on_disk()
    for damage, path in zip(damages, damaged, strict=True):
        damage(path)
    shown = skymark(tmp_path, "report", str(case.output))
    assert shown.returncode == 0, shown.stderr
    if problem:
        problems = open_run(case.output).problems
        assert [problem in said for said in problems] == [True] * len(damages)
        assert all(path.name in shown.stdout + shown.stderr for path in damaged)
    status, stderr = case.run("--resume")
    assert status == 0, stderr
    row = case.row(again=[path.stem for path in damaged])
    table.add(fault, row)
    assert (row.lost, row.repeated) == (0, 2 * len(damages))
    assert {path for path in before if path.read_bytes() != before[path]} == set(damaged)


def test_damaged_rounds_of_unfinished_cells_are_measured_again(tmp_path):
    case = Case(tmp_path)
    process = case.start_and_hold(5)
    assert len(list(case.output.glob("rounds/*/0.json"))) == 4
    process.kill()
    case.release()
    case.finish(process)
    for damage, path in zip(
        (truncate, nested, other_hash), sorted(case.output.glob("rounds/*/0.json")), strict=False
    ):
        damage(path)
    status, stderr = case.run("--resume")
    assert status == 0, stderr
    assert case.row().repeated == 4, "the damaged ones, and that which was held"
