"""A changed byte in a run is noticed, named, and taken for what it is: damage."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from contextlib import closing, suppress

import pytest

from skymark.model.errors import DamagedManifestError, RunDirectoryError, StorageFullError
from skymark.model.schema import KEY, seal, sealed, unsealed
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.directory import TOO_LARGE, RunDirectory
from skymark.rundir.mending import damaged_logs, damages, mend
from skymark.rundir.reader import open_run
from tests.unit.rundir.test_directory import cell_of, create, plan_of, record_of, round_of

RECORD = "records/training.T-1.small.jax.json"
SAMPLES = "samples/training.T-1.small.jax.parquet"
LOG = "logs/training.T-1.small.jax.log"


@pytest.fixture
def run(tmp_path):
    """A finished run of one cell."""
    made = create(tmp_path / "run", plan_of(cell_of()))
    made.write_log(cell_of(), "all is well")
    made.write_record(record_of(cell_of(), [round_of(0)]), [round_of(0)])
    made.write_sums()
    return made


def flip(path, what=b"0.5"):
    data = path.read_bytes()
    assert what in data
    path.write_bytes(data.replace(what, what[:-1] + bytes([what[-1] ^ 1]), 1))


def test_a_whole_run_has_no_damage(run):
    assert damages(run.path) == {}


def test_every_changed_byte_of_a_sealed_file_is_noticed():
    data = sealed(record_of(cell_of(), [round_of(0)]))
    unsealed(data)
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(ValueError, match=KEY):
            unsealed(bytes(changed))


def test_one_flipped_digit_of_a_record_is_named_and_the_record_absent(run):
    flip(run.path / RECORD)
    opened = open_run(run.path)
    assert opened.records == ()
    assert RECORD in opened.problems[0]
    assert "its digest" in opened.problems[0]
    assert run.record(cell_of()) is None
    assert set(damages(run.path)) == {RECORD, SAMPLES}


def test_a_record_of_this_schema_without_a_digest_is_damaged(run):
    path = run.path / RECORD
    path.write_bytes(unsealed(path.read_bytes()))
    assert "lacks the digest" in open_run(run.path).problems[0]


def test_one_flipped_digit_of_a_kept_round_is_not_taken_up(run):
    run.write_round(cell_of(), round_of(0), {})
    assert len(list(run.rounds(cell_of()))) == 1
    flip(run.path / f"rounds/{cell_of().id}/0.json")
    assert list(run.rounds(cell_of())) == []


def test_the_list_of_digests_is_not_rewritten_to_match_a_damaged_file(run):
    before = (run.path / "SHA256SUMS").read_bytes()
    flip(run.path / RECORD)
    flip(run.path / LOG, b"well")
    run.write_sums(damages(run.path))
    assert (run.path / "SHA256SUMS").read_bytes() == before


def test_a_damaged_log_goes_aside_when_the_run_goes_on(run):
    flip(run.path / LOG, b"well")
    said = list(mend(run.path, run.manifest(), damaged_logs(run.path)))
    assert LOG in said[0]
    assert not (run.path / LOG).exists()
    assert (run.path / f"{LOG}.damaged").read_text() == "all is welm"
    assert LOG not in run.files()


@pytest.mark.parametrize("damage", ["flipped", "empty", "link", "fifo", "gone"])
def test_a_lost_manifest_is_made_anew_from_the_plan_and_the_records(run, damage):
    manifest, path = run.manifest(), run.path / "manifest.json"
    if damage == "flipped":
        flip(path, b'"test"')
        with pytest.raises(DamagedManifestError, match="--resume"):
            open_run(run.path)
    else:
        path.unlink()
        if damage == "empty":
            path.write_bytes(b"")
        elif damage == "link":
            path.symlink_to("/dev/zero")
        elif damage == "fifo":
            os.mkfifo(path)
    (said,) = mend(run.path, manifest, {})
    assert re.search(r"/manifest\.json .* 1 record$", said)
    assert open_run(run.path).missing == ()


def test_a_lost_manifest_is_not_made_anew_for_another_plan(run):
    manifest = run.manifest()
    (run.path / "manifest.json").write_bytes(b"{")
    plan = plan_of(cell_of(seed=8))
    other = manifest.model_copy(update={"plan": plan, "plan_hash": plan.hash})
    with pytest.raises(RunDirectoryError, match="of another plan"):
        list(mend(run.path, other, {}))
    assert (run.path / "manifest.json").read_bytes() == b"{"


@pytest.mark.parametrize("run_id", ["../../outside", "/abs", ".hidden", "a/b", "a\\b", "", "a\nb"])
def test_a_manifest_whose_run_id_is_a_path_is_refused(run, run_id):
    path = run.path / "manifest.json"
    content = json.loads(path.read_bytes()) | {"run_id": run_id}
    del content[KEY]
    path.write_bytes(seal(json.dumps(content)))
    with pytest.raises(RunDirectoryError, match="run_id"):
        open_run(run.path)


# Links, FIFOs, devices


def in_place_of(path, kind):
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(os.path.relpath(path))
    else:
        path.symlink_to(kind)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["fifo", "socket", "/dev/zero", "/etc/passwd"])
@pytest.mark.parametrize("path", [RECORD, SAMPLES, LOG])
def test_what_is_no_regular_file_is_neither_read_nor_listed(run, kind, path, monkeypatch):
    monkeypatch.chdir(run.path)  # a socket's path is short
    in_place_of(run.path / path, kind)
    assert path not in run.files()
    assert path in damages(run.path)
    open_run(run.path)
    if path != LOG:
        assert run.record(cell_of()) is None
    log = run.open_log(cell_of())
    assert log.is_file()
    assert not log.is_symlink()


@pytest.mark.parametrize("folder", ["records", "samples", "rounds", "logs"])
def test_nothing_is_read_or_written_through_a_linked_folder(run, tmp_path, folder):
    outside = tmp_path / "outside"
    (run.path / "rounds").mkdir()
    shutil.move(run.path / folder, outside)
    (run.path / folder).symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    assert not [path for path in run.files() if path.startswith(folder)]
    for write in (
        lambda: run.write_record(record_of(cell_of(seed=9)), [round_of(1)]),
        lambda: run.write_record(record_of(cell_of(seed=9))),
        lambda: run.write_round(cell_of(), round_of(1), {}),
        lambda: run.open_log(cell_of()),
    ):
        with suppress(StorageFullError, NotADirectoryError):
            write()
    after = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    assert after == before


def test_a_directory_that_is_a_link_itself_is_read(run, tmp_path):
    (tmp_path / "latest").symlink_to(run.path)
    assert len(open_run(tmp_path / "latest").records) == 1
    assert RunDirectory(tmp_path / "latest").files() == run.files()


def test_a_log_that_is_too_large_costs_neither_the_runs_digests_nor_its_going_on(run):
    with (run.path / LOG).open("r+b") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    run.write_sums()
    assert LOG not in run.files()
    assert run.oversized() == [LOG]
    assert damages(run.path) == damaged_logs(run.path) == {LOG: TOO_LARGE}
    (told,) = mend(run.path, run.manifest(), damaged_logs(run.path))
    assert told.endswith(".log.damaged")
    assert damages(run.path) == {}
