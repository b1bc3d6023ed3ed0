"""What comes from a store is data: bounded, compared, and kept inside its directory."""

from __future__ import annotations

from hashlib import sha256

import pytest

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.directory import TOO_LARGE
from skymark.store import fetching
from skymark.store.fetching import fetch
from skymark.store.kinds import open_source, open_store, runs_at
from skymark.store.upload import Upload


class Source:
    """Files in memory as a store lists and gives them."""

    url, parallel = "memory:", 2

    def __init__(self, files, sizes=None):
        self.files, self.listed = files, sizes or {}
        self.refusals = 0

    def sizes(self):
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailableError("away")
        return {path: len(data) for path, data in self.files.items()} | self.listed

    def get(self, path):
        return self.files[path]


MANIFEST = {"manifest.json": b"{}"}


def test_a_run_comes_back_as_it_was(store, directory, tmp_path):
    upload = Upload(store, directory)
    upload.drain(60)
    upload.stop()
    assert fetch(store, tmp_path / "back") == []
    for path in store.sizes():
        assert (tmp_path / "back" / path).read_bytes() == (directory / path).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "../evil.json",
        "records/../../evil.json",
        "/etc/passwd",
        "records//etc/passwd.json",
        "records/.hidden.json",
        "records/a\\..\\b.json",
        "records/a\nb.json",
        "records/a.json/b.json",
        "records/a.pkl",
        "rounds/../0.json",
        "wandb/run.json",
        "records/" + "a" * 300 + ".json",
    ],
)
def test_a_path_that_no_run_has_is_left_in_the_store(tmp_path, path):
    fetch(Source({**MANIFEST, path: b"evil"}), tmp_path / "back")
    found = [file.name for file in tmp_path.rglob("*") if file.is_file()]
    assert found == ["manifest.json"]


def test_a_store_without_a_manifest_holds_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        fetch(Source({"records/a.json": b"{}"}), tmp_path / "back")


@pytest.mark.parametrize("size", [LARGEST_FILE_BYTES + 1, 1 << 40])
def test_a_file_that_is_too_large_stays_there_and_all_others_come(tmp_path, size):
    told = []
    source = Source({**MANIFEST, "logs/b.log": b"b"}, {"logs/a.log": size})
    assert fetch(source, tmp_path / "back", announce=told.append) == ["logs/a.log"]
    assert (tmp_path / "back" / "logs" / "b.log").read_bytes() == b"b"
    assert not (tmp_path / "back" / "logs" / "a.log").exists()
    assert any(line.startswith(f"memory:/logs/a.log {TOO_LARGE}") for line in told)


@pytest.mark.parametrize(
    "sizes",
    [
        {"manifest.json": LARGEST_FILE_BYTES + 1},
        {"SHA256SUMS": 1 << 40},
        {f"logs/{number}.log": LARGEST_FILE_BYTES for number in range(201)},
        {"logs/a.log": -1},
    ],
    ids=["manifest", "digests", "all together", "less than nothing"],
)
def test_an_absurdly_large_run_is_refused_before_anything_is_fetched(tmp_path, sizes):
    with pytest.raises(StoreRefusedError, match="nothing was fetched"):
        fetch(Source(MANIFEST, sizes), tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_file_that_is_not_what_the_digests_say_is_named(tmp_path):
    good, bad = "records/good.json", "records/bad.json"
    sums = "".join(
        f"{sha256(data).hexdigest()}  {path}\n"
        for path, data in ((good, b"1"), (bad, b"2"), ("records/gone.json", b"3"))
    )
    files = {**MANIFEST, good: b"1", bad: b"x", "SHA256SUMS": sums.encode()}
    assert fetch(Source(files), tmp_path / "back") == [bad, "records/gone.json"]


def test_files_that_are_there_are_kept_when_a_run_goes_on(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/a.json").write_text("newer")
    fetch(Source({**MANIFEST, "records/a.json": b"older"}), tmp_path, keep={"records/a.json"})
    assert (tmp_path / "records/a.json").read_text() == "newer"
    assert (tmp_path / "manifest.json").exists()


def test_a_store_that_is_away_for_a_moment_is_asked_again(tmp_path):
    source = Source(MANIFEST)
    source.refusals = 1
    fetch(source, tmp_path / "back")
    assert (tmp_path / "back/manifest.json").exists()


def test_a_store_that_stays_away_ends_the_fetch(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    source = Source(MANIFEST)
    source.refusals = 9
    with pytest.raises(StoreUnavailableError):
        fetch(source, tmp_path / "back")


@pytest.mark.parametrize("url", ["ftp://host/x", "results", ""])
def test_an_address_of_no_store_is_refused_with_the_known_ones(url):
    with pytest.raises(UsageError, match="known are"):
        open_store(url, "run")
    with pytest.raises(UsageError, match="known are"):
        open_source(url)


def test_the_runs_at_an_address_are_named(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    (tmp_path / "other").mkdir()
    assert runs_at(tmp_path.as_uri()) == ["a", "b"]
    assert open_source(f"{tmp_path.as_uri()}/a").sizes() == {"manifest.json": 2}
    assert runs_at("wandb://entity/project") == []
