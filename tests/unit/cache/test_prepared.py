"""A prepared cache is built once, read through a private overlay, and noticed when it is stale."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from skymark.cache.building import CONTENT, read_manifest
from skymark.cache.entries import troubles
from skymark.cache.location import DATA_VARIABLE, Policy
from skymark.cache.providing import PLAIN, build_prepared, prepared_entry, provided
from skymark.cache.recipe import recipe_of
from skymark.model.errors import CacheError, UsageError

FILL = """
import os, pathlib, sys
place = pathlib.Path(os.environ["HF_DATASETS_CACHE"], "json")
place.mkdir()
(place / "rows").write_text(pathlib.Path(sys.argv[1]).read_text())
(place / "x.lock").touch()
pathlib.Path(sys.argv[2]).open("a").write("built\\n")
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"a": 1}\n')
    return path


@pytest.fixture
def fill(tmp_path, source):
    """A command that stands for a library: it writes a file and a lock, and counts its calls."""
    script = tmp_path / "fill.py"
    script.write_text(FILL)
    return (sys.executable, str(script), str(source), str(tmp_path / "calls"))


@pytest.fixture
def recipe(source, fill):
    return recipe_of((str(source),), prepare=fill)


def rows(variables):
    return Path(variables["HF_DATASETS_CACHE"], "json", "rows").read_text()


def test_under_shared_the_first_builds_and_all_read_the_same(tmp_path, recipe, source):
    root, read = tmp_path / "root", []

    def job():
        with provided(Policy.SHARED, recipe, root, {}) as variables:
            read.append(rows(variables))

    threads = [threading.Thread(target=job) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert read == [source.read_text()] * 6
    assert (tmp_path / "calls").read_text() == "built\n"
    assert list((root / "jobs").glob("[!.]*")) == []


def test_what_a_job_writes_into_its_overlay_reaches_neither_the_cache_nor_another(tmp_path, recipe):
    root = tmp_path / "root"
    with provided(Policy.SHARED, recipe, root, {}) as one:
        place = Path(one["HF_DATASETS_CACHE"], "json")
        assert [path.name for path in place.iterdir()] == ["rows"]
        (place / "x.lock").touch()
        (place / "rows.tmp").touch()
        (place / "rows.tmp").replace(place / "rows")
        with provided(Policy.SHARED, recipe, root, {}) as other:
            assert rows(other) == '{"a": 1}\n'
    assert list(troubles(prepared_entry(root, recipe, sealed=False))) == []


def test_a_sealed_cache_must_have_been_built_and_is_read_only(tmp_path, recipe):
    root = tmp_path / "root"
    with (
        pytest.raises(CacheError, match="skymark cache build"),
        provided(Policy.PREBUILT, recipe, root, {}),
    ):
        pass
    entry = build_prepared(root, recipe, sealed=True)
    files = [path for path in (entry / CONTENT).rglob("*") if path.is_file()]
    assert files
    assert all(path.stat().st_mode & 0o222 == 0 for path in [*files, files[0].parent])
    with provided(Policy.PREBUILT, recipe, root, {}) as variables:
        assert rows(variables) == '{"a": 1}\n'
    assert read_manifest(entry).sealed


def test_a_source_that_changed_since_is_noticed_and_named(tmp_path, recipe, source, fill):
    root = tmp_path / "root"
    entry = build_prepared(root, recipe, sealed=True)
    source.write_text('{"a": 2, "b": 3}\n')
    now = recipe_of((str(source),), prepare=fill)
    with (
        pytest.raises(CacheError, match=rf"{source} has changed"),
        provided(Policy.PREBUILT, now, root, {}),
    ):
        pass
    (found,) = troubles(entry)
    assert "has changed" in found.cause
    with provided(Policy.SHARED, now, root, {}) as variables:
        assert rows(variables) == '{"a": 2, "b": 3}\n'


def test_a_damaged_sealed_cache_is_refused_before_the_job_starts(tmp_path, recipe):
    root = tmp_path / "root"
    entry = build_prepared(root, recipe, sealed=True)
    (file,) = (entry / CONTENT).rglob("json/rows")
    file.chmod(0o644)
    file.write_text("cut")
    with (
        pytest.raises(CacheError, match=r"json/rows .*\b3 bytes\D+9\b"),
        provided(Policy.PREBUILT, recipe, root, {}),
    ):
        pass


def test_a_flipped_byte_is_found_by_its_digest(tmp_path, recipe):
    entry = build_prepared(tmp_path / "root", recipe, sealed=True)
    (file,) = (entry / CONTENT).rglob("json/rows")
    file.chmod(0o644)
    file.write_text('{"a": 7}\n')
    (found,) = troubles(entry)
    assert found.message == "Can't read rows"
    assert "other content" in found.cause


def test_a_command_that_fails_tells_its_last_words(tmp_path, source):
    command = (sys.executable, "-c", "raise SystemExit('no hub')")
    recipe = recipe_of((str(source),), prepare=command)
    with (
        pytest.raises(CacheError, match=r"status 1\nno hub"),
        provided(Policy.SHARED, recipe, tmp_path / "root", {}),
    ):
        pass
    assert list((tmp_path / "root" / "prepared").glob("[!.]*")) == []


def test_per_job_builds_nothing_and_staggered_waits_its_turn(tmp_path, recipe):
    root, told = tmp_path / "root", []
    with provided(Policy.PER_JOB, None, root, {"SLURM_JOB_ID": "7"}, told.append) as variables:
        assert variables["HF_DATASETS_CACHE"].startswith(str(root / "jobs" / "7"))
        assert any(str(root / "jobs" / "7") in line for line in told)
    with provided(
        Policy.STAGGERED, None, root, {}, told.append, turn=2, stagger_s=0.01
    ) as variables:
        assert variables["HF_DATASETS_CACHE"].startswith(str(root / PLAIN))
    assert any("0.02 s" in line and "2 jobs" in line for line in told)
    assert not (tmp_path / "calls").exists()


def test_parquet_names_the_converted_data(tmp_path, source):
    recipe = recipe_of((str(source),), needs_library=False)
    with provided(Policy.PARQUET, recipe, tmp_path / "root", {}) as variables:
        (file,) = Path(variables[DATA_VARIABLE]).iterdir()
        assert file.name == "train-00000-of-00001.parquet"


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ((), {}, "--prepare"),
        (("a.xyz",), {}, "skymark knows .csv"),
        (("a.csv",), {"field": "rows"}, "--field rows.* csv"),
        (("a.csv", "a.json"), {}, "several kinds"),
        (("a.json",), {"prepare": ("no-such-command",)}, "--prepare 'no-such-command'"),
        (("s3://bucket/a.json",), {}, "--prepare"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path, monkeypatch, sources, options, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.xyz", "a.csv", "a.json"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=message):
        recipe_of(sources, **options)


def test_an_absent_source_or_library_says_what_to_do(tmp_path, source):
    with pytest.raises(CacheError, match=r"/none\.json"):
        recipe_of((str(tmp_path / "none.json"),))
    with pytest.raises(CacheError, match="--python"):
        recipe_of((str(source),), python=str(tmp_path / "none"))
    with pytest.raises(CacheError, match="has no datasets"):
        recipe_of((str(source),), python=sys.executable)
