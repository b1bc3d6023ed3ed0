"""Heads of records: those of the whole records, of every schema, and the same faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skymark.run.heads import open_heads
from skymark.run.reader import open_run

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(params=["run-v1", "run-v2", "run-v3"])
def saved(request, tmp_path):
    return Path(shutil.copytree(DATA / request.param, tmp_path / request.param))


def test_heads_are_those_of_the_records(saved):
    run, heads = open_run(saved), open_heads(saved)
    assert len(run.records) > 3
    assert {id: (head.status, head.cause, head.cell_hash, head.ended_at)
            for id, head in heads.by_id.items()} == {
        id: (record.status, record.cause, record.cell_hash, record.ended_at)
        for id, record in run.by_id.items()
    }  # fmt: skip
    assert heads.missing == run.missing
    assert heads.problems == run.problems == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes().replace(b'"ok"', b'"no"')),
        lambda file: file.write_bytes(file.read_bytes()[:-20]),
        lambda file: file.write_bytes(b""),
        lambda file: file.rename(file.with_name("other.json")),
    ],
)
def test_a_damaged_record_is_named_as_whoever_reads_it_whole_names_it(tmp_path, damage):
    run = Path(shutil.copytree(DATA / "run-v3", tmp_path / "run"))
    damage(min((run / "records").iterdir()))
    heads = open_heads(run)
    assert len(heads.problems) == 1
    assert heads.problems == open_run(run).problems
    assert len(heads.missing) == len(open_run(run).missing)
