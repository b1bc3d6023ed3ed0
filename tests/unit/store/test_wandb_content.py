"""What W&B is told of a run, and under which names."""

from __future__ import annotations

import json

import pytest

from skymark.model.schema import KEY, seal
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.directory import RunDirectory
from skymark.store.wandb.content import RunContent, wandb_id
from tests.data.make_run import MACHINE
from tests.stores.finished_run import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run-1")


def with_git(run, git):
    directory = RunDirectory(run)
    machine = MACHINE.model_copy(update={"git": git})
    directory.write_manifest(directory.manifest().model_copy(update={"machine": machine}))
    return RunContent(run)


def test_the_artifact_is_named_by_commit_and_says_when_files_were_changed(run):
    commit = MACHINE.git.commit
    assert RunContent(run).artifact == f"benchmark-results-{commit}"
    dirty = MACHINE.git.model_copy(update={"dirty": True})
    assert with_git(run, dirty).artifact == f"benchmark-results-{commit}-dirty"


def test_an_installed_skymark_is_named_by_its_version(run):
    content = with_git(run, None)
    assert content.artifact == "benchmark-results-0.1.0"
    assert content.tags == ["ci_cpu"]


def test_every_row_has_every_column(run):
    content = RunContent(run)
    assert [len(row) for row in content.rows()] == [len(content.columns)] * 3


def test_columns_are_the_declared_metrics_with_the_interval_of_those_that_are_compared(run):
    columns = RunContent(run).columns
    of_metrics = columns[columns.index("versions") + 1 : columns.index("price_usd")]
    assert of_metrics == (
        "samples_per_s", "samples_per_s_low", "samples_per_s_high", "bytes_per_s",
        "epoch_samples_per_s", "utilisation", "first_batch_ns", "epoch_restart_ns",
        "wait_p50_ns", "wait_p95_ns", "wait_p99_ns", "cpu_s_per_1000_samples",
        "cores_used", "cores_idle", "cut_waits", "cores_of_consumer", "peak_pss_bytes", "import_s",
        "open_s", "first_epoch_s",
        "first_epoch_cpu_s_per_1000_samples", "samples_per_s_over_1_epochs",
        "samples_per_s_over_10_epochs", "samples_per_s_over_100_epochs", "elements",
    )  # fmt: skip


def test_a_bar_is_the_primary_metric_of_a_cell(run):
    content = RunContent(run)
    figures = {one.cell.adapter: one.metrics.get("samples_per_s") for one in content.records}
    assert content.bars() == {
        "TAB-1": [[f"small.{name}", figures[name].value] for name in ("numpy", "grain")]
    }


def test_figures_that_only_some_scenarios_have_are_in_the_summary_too(run):
    path = run / "records" / "loading.TAB-1.small.grain.json"
    content = json.loads(path.read_bytes())
    content["metrics"]["state_bytes"] = {"value": 12.0}
    del content[KEY]
    path.write_bytes(seal(json.dumps(content)))
    assert RunContent(run).summary()["loading.TAB-1.small.grain/state_bytes"] == 12


def test_a_damaged_record_goes_as_a_file_and_not_as_a_row(run):
    (run / "records" / "loading.TAB-1.small.grain.json").write_text("{")
    content = RunContent(run)
    assert [record.cell.adapter for record in content.records] == ["numpy", "ray"]
    assert "records/loading.TAB-1.small.grain.json" in content.files


def test_rounds_of_unfinished_cells_and_wandb_s_own_files_stay_behind(run):
    (run / "wandb").mkdir()
    (run / "wandb" / "x.log").touch()
    (run / "report.html").touch()
    folders = {path.partition("/")[0] for path in RunContent(run).files}
    assert folders == {"manifest.json", "SHA256SUMS", "records", "samples", "logs"}


@pytest.mark.parametrize("id", ["20260115-093000-ci_cpu", "a.b-c_d"])
def test_a_plain_run_id_is_kept(id):
    assert wandb_id(id) == id


def test_other_run_ids_stay_apart():
    names = [wandb_id(id) for id in ("a b", "a/b", "a-b", "ä" * 200, "ä" * 201)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 and name.isascii() and "/" not in name for name in names)


def test_a_log_that_is_too_large_stays_behind_and_the_run_goes(run):
    log = run / "logs" / "loading.TAB-1.small.grain.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    RunDirectory(run).write_sums()
    content = RunContent(run)
    content.require_whole()
    assert "logs/loading.TAB-1.small.grain.log" not in content.files
    assert "records/loading.TAB-1.small.grain.json" in content.files
