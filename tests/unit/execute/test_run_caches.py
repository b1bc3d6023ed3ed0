"""A run under each cache policy: what it reads, what it says, and what it refuses to begin with."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from skymark.cache.location import KEPT_VARIABLE, stand_in
from skymark.cache.providing import MEASURED, Rates
from skymark.cache.sources import GONE, WRONG
from skymark.cli.main import main
from skymark.cli.options import PlanOptions
from skymark.execute.partition.shard import Shard
from skymark.execute.planner import require_data
from skymark.execute.run_caches import caches_of_run as _caches_of_run
from skymark.execute.run_caches import real_data_entry
from skymark.model.errors import DataError, UsageError
from skymark.suites.loading.dataset.importing import RealData, import_data
from skymark.suites.loading.registry import bind_scenario
from skymark.suites.loading.specification import LoadingSpecification

KEEPING = ["prebuilt", "parquet", "parquet+shared"]


def caches_of_run(*asked):
    """Announce on standard error, as the command does."""
    return _caches_of_run(*asked, announce=lambda text: print(text, file=sys.stderr))


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def table(tmp_path):
    """Click logs whose categories are texts that look like numbers, with zeros before them."""
    chance = random.Random(0)
    path = tmp_path / "clicks.csv"
    names = ["label", *(f"I{n}" for n in range(1, 14)), *(f"C{n}" for n in range(1, 27))]
    lines = [",".join(names)]
    for _ in range(300):
        counts = [str(chance.choice(["", 3, 40])) for _ in range(13)]
        lines.append(",".join([str(chance.randint(0, 1)), *counts, *["00000123"] * 26]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def built(root, capfd):
    """Build the sealed cache of data, as a user does."""

    def call(data):
        status = main(["cache", "build", "--data", str(data), "--cache-root", str(root)])
        assert status == 0, capfd.readouterr().err
        return capfd.readouterr().out

    return call


def plan_of(data, scenario="TAB-2"):
    named = {} if data is None else {"data": str(data)}
    return PlanOptions(scenarios=(scenario,), adapters=("numpy",), own=named).plan()


def columns_of(plan, directory):
    """What a run of the plan imports, by column."""
    cell = plan.cells[0].cell
    specification = LoadingSpecification.of(cell)
    dataset = import_data(
        specification.data, bind_scenario(cell), directory, specification.data_fingerprint
    )
    return {name: dataset.column(name).tolist() for name in ("dense", "categorical", "label")}


@pytest.mark.parametrize("policy", KEEPING)
def test_a_run_reads_the_same_values_from_kept_rows(table, root, built, tmp_path, policy):
    plan = plan_of(table)
    plain = columns_of(plan, tmp_path / "plain")
    if policy == "prebuilt":
        assert f"skymark run --data {table} --cache-policy prebuilt" in built(table)
    with caches_of_run(policy, root, plan) as told:
        files = stand_in(RealData(str(table)).fingerprint, os.environ)
        assert sum(pq.read_metadata(file).num_rows for file in files) == 300
        assert told == f"{policy}: {files[0].resolve().parents[1]}"
        own = policy == "parquet"
        assert Path(told.partition(": ")[2]).is_relative_to(root / ("jobs" if own else "converted"))
        assert files[0].is_relative_to(root / "jobs")
        assert columns_of(plan, tmp_path / "kept") == plain
    assert KEPT_VARIABLE not in os.environ
    assert list((root / "jobs").glob("[!.]*")) == []


def test_kept_rows_are_read_in_place_of_the_source(table, root, tmp_path, monkeypatch):
    plan = plan_of(table)
    plain = columns_of(plan, tmp_path / "plain")
    with caches_of_run("parquet", root, plan):
        status = table.stat()
        table.write_bytes(b"\0" * status.st_size)  # which no reader of tables takes
        os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
        # The source is opened to look at its size and time alone.
        monkeypatch.setattr(
            "skymark.suites.loading.dataset.importing.open_source", lambda _: Unread(plan)
        )
        assert columns_of(plan, tmp_path / "kept") == plain


class Unread:
    """A source that tells its fingerprint and has no rows."""

    def __init__(self, plan):
        self.told = LoadingSpecification.of(plan.cells[0].cell).data_fingerprint

    def fingerprint(self):
        return self.told


def test_runs_of_other_data_do_not_take_them(table, root, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("00000123", "00000999"))
    mine = columns_of(plan_of(other), tmp_path / "plain")
    with caches_of_run("parquet", root, plan_of(table)):
        assert columns_of(plan_of(other), tmp_path / "kept") == mine


def test_under_parquet_and_shared_the_second_run_converts_nothing(table, root, capfd):
    for _ in range(2):
        with caches_of_run("parquet+shared", root, plan_of(table)):
            pass
    assert capfd.readouterr().err.count("converting") == 1


def test_prebuilt_says_which_command_builds_it(table, root):
    match = f"there is no sealed cache of {table} .* skymark cache build --data {table} "
    with pytest.raises(DataError, match=match), caches_of_run("prebuilt", root, plan_of(table)):
        pass


def test_prebuilt_names_a_source_that_has_changed(table, root, built):
    built(table)
    table.write_text(table.read_text().replace("00000123", "0000012"))
    with (
        pytest.raises(DataError, match=rf"{table} .*skymark cache build"),
        caches_of_run("prebuilt", root, plan_of(table)),
    ):
        pass


def test_prebuilt_finds_a_flipped_byte_before_anything_is_measured(table, root, built, capfd):
    built(table)
    (file,) = real_data_entry(root, RealData(str(table))).rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    words = ["run", "--scenarios", "TAB-2", "--adapters", "numpy", "--data", str(table)]
    output = root / "out"
    caches = ["--cache-policy", "prebuilt", "--cache-root", str(root), "--output", str(output)]
    assert main([*words, *caches]) == 2
    told = " ".join(capfd.readouterr().err.split())
    assert f"{file.name} has other content" in told
    assert "clean converted/clicks_csv-" in told
    assert not output.exists()


def test_a_sealed_cache_is_listed_verified_and_removed_like_any(table, root, built, capfd):
    built(table)
    assert main(["cache", "list", "--json", "--cache-root", str(root)]) == 0
    (entry,) = json.loads(capfd.readouterr().out)
    assert (entry["kind"], entry["data_set"], entry["sealed"]) == ("converted", "clicks_csv", True)
    assert main(["cache", "verify", "--cache-root", str(root)]) == 0
    with caches_of_run("prebuilt", root, plan_of(table)):
        assert main(["cache", "clean", "--cache-root", str(root)]) == 0
        assert f"kept {entry['name']}" in capfd.readouterr().out
    assert main(["cache", "clean", "--cache-root", str(root)]) == 0
    assert f"removed {entry['name']}" in capfd.readouterr().out


def test_verify_names_the_file_that_is_gone_or_came_since(table, root, built, capfd):
    folder = table.parent / "tables"
    folder.mkdir()
    for name in ("a=1.csv", "b.csv"):
        shutil.copy(table, folder / name)
    built(folder)

    def verified():
        status = main(["cache", "verify", "--json", "--cache-root", str(root)])
        return status, json.loads(capfd.readouterr().out)

    assert verified() == (0, [])
    shutil.copy(table, folder / "c.csv")
    status, (found,) = verified()
    assert (status, found["message"]) == (1, WRONG)
    assert f"{folder} has other files" in found["cause"]
    (folder / "a=1.csv").unlink()
    status, (found,) = verified()
    assert (status, found["message"]) == (1, GONE.format("a=1.csv"))
    assert f"{folder / 'a=1.csv'} is gone" in found["cause"]
    shutil.rmtree(folder)
    assert [one["message"] for one in verified()[1]] == [
        GONE.format("a=1.csv"),
        GONE.format("b.csv"),
    ]


@pytest.mark.parametrize("policy", KEEPING)
def test_data_that_is_generated_cannot_be_kept(root, policy):
    refused = rf"--cache-policy {re.escape(policy)} .*--data"
    with pytest.raises(UsageError, match=refused):
        require_data(policy, plan_of(None))
    with (
        pytest.raises(UsageError, match=refused),
        caches_of_run(policy, root, plan_of(None)),
    ):
        pass
    assert not root.exists()


def test_auto_says_that_it_cannot_tell_how_many_start(table, root, capfd):
    with caches_of_run("auto", root, plan_of(table)) as told:
        assert told.startswith("per-job: ")
    assert re.search(r"per-job \(.*--split", capfd.readouterr().err)


@pytest.mark.parametrize(
    ("rate", "jobs", "policy"), [(1e9, 64, "per-job"), (1.0, 64, "shared"), (1.0, 1, "per-job")]
)
def test_auto_chooses_by_size_and_number(table, root, capfd, rate, jobs, policy):
    root.mkdir()
    (root / MEASURED).write_text(Rates(build_bytes_per_s=rate).model_dump_json())
    with caches_of_run("auto", root, plan_of(table), Shard.of(0, jobs)) as told:
        assert told.startswith(f"{policy}: ")
    assert f"cache policy auto: {policy} (" in capfd.readouterr().err


def test_auto_takes_the_number_of_a_scheduler(table, root, capfd, monkeypatch):
    root.mkdir()
    (root / MEASURED).write_text(Rates(build_bytes_per_s=1.0).model_dump_json())
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    with caches_of_run("auto", root, plan_of(table)) as told:
        assert told.startswith("shared: ")
    assert "shared (8 " in capfd.readouterr().err


@pytest.mark.parametrize(("jobs", "policy"), [(4, "parquet+shared"), (1, "parquet")])
def test_auto_keeps_as_parquet_what_is_too_large_for_a_cache(
    table, root, monkeypatch, jobs, policy
):
    large = shutil.disk_usage(table).free * 3 // 10
    monkeypatch.setattr(RealData, "size_bytes", large)
    with caches_of_run("auto", root, plan_of(table), Shard.of(0, jobs)) as told:
        assert told.startswith(f"{policy}: ")
        assert stand_in(RealData(str(table)).fingerprint, os.environ)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cache-policy", "shared"), "under shared"),
        (("--cache-policy", "parquet"), "under parquet"),
        (("--field", "rows"), "other sources"),
        (("rows.json",), "other sources"),
    ],
)
def test_what_a_build_for_runs_does_not_take_is_refused(table, root, capfd, words, message):
    build = ["cache", "build", "--data", str(table), "--cache-root", str(root)]
    assert main([*build, *words]) == 2
    assert message in " ".join(capfd.readouterr().err.split())
    assert not root.exists()


def test_values_of_several_types_are_named(tmp_path, root):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1, "x": 1}\n{"text": "b", "label": 0, "x": "one"}\n')
    match = rf"{path}:1 and the rows after it cannot be kept"
    plan = plan_of(path, "NLP-1")
    with pytest.raises(DataError, match=match), caches_of_run("parquet", root, plan):
        pass
    assert list((root / "jobs").glob("[!.]*")) == []
