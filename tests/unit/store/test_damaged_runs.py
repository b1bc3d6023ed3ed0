"""Stored copies of runs: nothing whole is replaced by what is damaged, or is another plan's."""

from __future__ import annotations

import shutil

import pytest

from skymark.cli.main import main
from skymark.execute.session import begin_or_resume, held_in
from skymark.rundir.reader import open_run
from skymark.store.directory import DirectoryStore
from skymark.store.storing import Storing
from tests.unit.rundir.test_damage import LOG, RECORD, SAMPLES, flip
from tests.unit.rundir.test_directory import cell_of, create, plan_of, record_of, round_of

HURTS = {
    "manifest.json": b'"test"',
    RECORD: b"0.5",
    SAMPLES: b"PAR1",
    LOG: b"well",
    "SHA256SUMS": b"manifest",
}


def finished(path):
    made = create(path, plan_of(cell_of()))
    made.write_log(cell_of(), "all is well")
    made.write_record(record_of(cell_of(), [round_of(0)]), [round_of(0)])
    made.write_sums()
    return made


def content(path):
    return {
        one.relative_to(path).as_posix(): one.read_bytes()
        for one in path.rglob("*")
        if one.is_file()
    }


@pytest.fixture
def run(tmp_path):
    """A finished run whose directory has its id as name, and a whole copy in a store."""
    (tmp_path / "shared").mkdir()
    made = finished(tmp_path / "r")
    shutil.copytree(made.path, tmp_path / "shared" / "r")
    return made


@pytest.fixture
def shared(run, tmp_path):
    return tmp_path / "shared"


def resume(run, *stores):
    told = []
    manifest = create(run.path.with_name("anew"), plan_of(cell_of())).manifest()
    addressed = {store.url: store for store in stores}
    storing = Storing(addressed, run.path)
    try:
        held = held_in(addressed, told.append)
        found = begin_or_resume(run.path, manifest, held, storing, told.append, resume=True)
    finally:
        storing.close()
    return found, told


@pytest.mark.parametrize("path", HURTS)
def test_a_damaged_file_never_replaces_the_stored_one(run, shared, path, capsys):
    before = content(shared / "r")
    flip(run.path / path, HURTS[path])
    status = main(["export", str(run.path), "--to", shared.as_uri()])
    assert content(shared / "r") == before
    said = capsys.readouterr().err
    if path == "manifest.json":  # it came back from the store
        assert status == 0
        assert (run.path / path).read_bytes() == before[path]
    else:
        assert status == 1
        assert f"  {path}: " in said


def test_what_is_whole_goes_into_a_store_that_has_nothing(run, shared, capsys):
    shutil.rmtree(shared / "r")
    flip(run.path / LOG, b"well")
    assert main(["export", str(run.path), "--to", shared.as_uri()]) == 1
    assert set(content(shared / "r")) == {"manifest.json", RECORD, SAMPLES}
    assert "NOT sent" in capsys.readouterr().err


def test_a_run_of_another_plan_with_the_same_id_is_not_replaced(run, shared, tmp_path, capsys):
    before = content(shared / "r")
    (tmp_path / "elsewhere").mkdir()
    other = create(tmp_path / "elsewhere" / "r", plan_of(cell_of(seed=8)))
    assert main(["export", str(other.path), "--to", shared.as_uri()]) == 2
    said = capsys.readouterr().err
    assert f"{shared.as_uri()}/r" in said
    assert "another plan" in said
    assert content(shared / "r") == before


@pytest.mark.parametrize("path", HURTS)
def test_a_run_that_goes_on_takes_what_is_damaged_from_the_store(run, shared, path):
    before = content(shared / "r")
    flip(run.path / path, HURTS[path])
    found, _ = resume(run, DirectoryStore(shared / "r"))
    del before["SHA256SUMS"]  # true again when the run has ended
    assert content(run.path) == before
    assert found.record(cell_of()) is not None


def test_a_damaged_store_does_not_lock_the_run(run, shared):
    flip(shared / "r" / "manifest.json", b'"test"')
    flip(shared / "r" / RECORD, b"0.5")
    before = content(run.path)
    found, _ = resume(run, DirectoryStore(shared / "r"))
    assert found.record(cell_of()) is not None
    del before["SHA256SUMS"]
    assert content(run.path) == before


def test_what_is_damaged_here_and_there_is_set_aside_and_measured_again(run, shared):
    for root in (run.path, shared / "r"):
        flip(root / RECORD, b"0.5")
        flip(root / "manifest.json", b'"test"')
    found, told = resume(run, DirectoryStore(shared / "r"))
    assert found.record(cell_of()) is None
    assert [cell.id for cell in open_run(run.path).missing] == [cell_of().id]
    assert any("manifest.json" in text and "made anew" in text for text in told)
    assert any(RECORD in text and "damaged" in text for text in told)


def test_a_manifest_is_made_anew_without_any_store(run):
    (run.path / "manifest.json").write_bytes(b"")
    found, told = resume(run)
    assert found.record(cell_of()) is not None
    assert "manifest.json" in told[0]
    assert "1 record" in told[0]


@pytest.mark.parametrize("where", ["root", "folder", "file"])
def test_a_link_in_a_store_leads_nowhere(run, shared, tmp_path, where):
    outside = tmp_path / "outside"
    if where == "file":
        outside.write_text("precious")
        (shared / "r" / LOG).unlink()
        (shared / "r" / LOG).symlink_to(outside)
    else:
        place = shared / "r" if where == "root" else shared / "r" / "records"
        shutil.move(place, outside)
        place.symlink_to(outside)
    before = content(outside) if outside.is_dir() else outside.read_text()
    flip(run.path / LOG, b"well")
    main(["export", str(run.path), "--to", shared.as_uri(), "--wait", "1"])
    assert (content(outside) if outside.is_dir() else outside.read_text()) == before


def test_a_linked_log_is_not_uploaded(run, shared, tmp_path):
    shutil.rmtree(shared / "r")
    (tmp_path / "secret").write_text("the provider's key")
    (run.path / LOG).unlink()
    (run.path / LOG).symlink_to(tmp_path / "secret")
    assert main(["export", str(run.path), "--to", shared.as_uri()]) == 1
    assert LOG not in content(shared / "r")
