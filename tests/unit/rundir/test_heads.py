"""Heads of records: those of the whole records, and the same faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skymark.rundir.reader import open_heads, open_run

SAVED = Path(__file__).parents[2] / "data" / "run"


@pytest.fixture
def saved(tmp_path):
    return Path(shutil.copytree(SAVED, tmp_path / "run"))


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
def test_a_damaged_record_is_named_as_whoever_reads_it_whole_names_it(saved, damage):
    damage(min((saved / "records").iterdir()))
    heads = open_heads(saved)
    assert len(heads.problems) == 1
    assert heads.problems == open_run(saved).problems
    assert len(heads.missing) == len(open_run(saved).missing)
