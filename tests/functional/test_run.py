"""Runs of real libraries in venvs of their own, from the command line to the files."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from skymark.model.plan import Plan
from skymark.model.record import Record, Status
from skymark.suites.loading.tuning import EFFORTS
from tests.functional.conftest import Ran, run_in

pytestmark = pytest.mark.core

README = Path(__file__).parents[2] / "README.md"
SCENARIOS = ("CV-1", "TAB-1")
ADAPTERS = ("numpy", "grain")
ROUNDS = 2
"""Few: each round of Grain starts processes that import JAX."""
FOUR = ("--profile", "ci_cpu", "--effort", "check", "--rounds", f"{ROUNDS}")
FOUR = (*FOUR, "--scenarios", *SCENARIOS, "--adapters", *ADAPTERS)
IDS = [f"loading.{scenario}.small.{adapter}" for scenario, adapter in product(SCENARIOS, ADAPTERS)]


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """A run of a profile as a user starts it, in short rounds."""
    return run_in(tmp_path_factory.mktemp("four"), "run", *FOUR, "--json")


def arrived_of(ran: Ran, id: str, round: int, epoch: int | None = None) -> int:
    """Return the elements that arrived in a round, or in one epoch of it."""
    table = pq.read_table(ran.output / "samples" / f"{id}.parquet")
    columns = {name: table[name].to_numpy() for name in ("round", "epoch", "elements")}
    asked = columns["round"] == round
    if epoch is not None:
        asked &= columns["epoch"] == epoch
    return int(columns["elements"][asked].sum())


def test_the_run_ends_well_with_a_record_per_cell_and_a_finished_manifest(four):
    assert four.status == 0, four.stderr
    assert set(four.records) == set(IDS)
    manifest = four.manifest
    assert manifest.finished
    assert manifest.counts == {Status.OK: 4}
    assert list(manifest.cells) == IDS
    assert manifest.machine.hardware.logical_cores
    assert list((four.output / "rounds").iterdir()) == []


@pytest.mark.parametrize("id", IDS)
def test_each_record_is_ok_and_verified_in_all_rounds(four, id):
    record = four.records[id]
    assert record.status is Status.OK, record.cause
    assert len(record.rounds) == ROUNDS
    verification = record.verification
    assert verification.passed
    arrived = np.array([arrived_of(four, id, number) for number in range(ROUNDS)])
    assert verification.verified_elements == arrived.sum() > 0
    warm_up = np.array([arrived_of(four, id, number, epoch=0) for number in range(ROUNDS)])
    assert verification.compared_elements >= np.minimum(warm_up, 256).sum() > 0
    assert verification.fields
    rate = record.metrics["samples_per_s"]
    assert 0 < rate.low <= rate.value <= rate.high
    values = {name: figure.value for name, figure in record.metrics.items()}
    assert values["wait_p50_ns"] <= values["wait_p95_ns"] <= values["wait_p99_ns"]
    assert values["first_batch_ns"] > 0
    assert values["peak_pss_bytes"] > 1 << 20
    assert all(one.resources.cpu_s > 0 for one in record.rounds)


@pytest.mark.parametrize("id", IDS)
def test_each_record_has_raw_samples_that_give_its_figures_again(four, id):
    record = four.records[id]
    table = pq.read_table(four.output / "samples" / f"{id}.parquet")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    timed = ~columns["warm_up"]
    assert set(columns["round"]) == {*range(ROUNDS)}
    assert columns["warm_up"].any()
    assert timed.any()
    size, limits = record.cell.specification["size"], EFFORTS["check"].limits
    for number in range(ROUNDS):
        first = (columns["round"] == number) & (columns["epoch"] == 0)
        elements, wait_s = columns["elements"][first].sum(), columns["wait_ns"][first].sum() / 1e9
        is_verified = elements >= limits["verified_elements"]
        took_too_long = is_verified or wait_s > limits["max_seconds"] / 2
        assert elements == size["elements"] or took_too_long
    stream = columns["stream"]
    assert not (stream & ~timed).any()
    assert np.median(columns["wait_ns"][stream]) == record.metrics["wait_p50_ns"].value
    for one in record.rounds:
        mine = timed & (columns["round"] == one.round)
        assert columns["elements"][mine].sum() == one.metrics["elements"]
        assert 0 < columns["wait_ns"][mine].sum() <= one.timed_ns
        seconds = columns["wait_ns"][mine & stream].sum() / 1e9
        rate = columns["elements"][mine & stream].sum() / seconds
        assert rate == pytest.approx(one.metrics["samples_per_s"])


def test_each_library_ran_in_the_version_that_is_pinned_for_it(four):
    pins = README.parent / "requirements" / "adapters"
    for adapter, distribution in (("numpy", "numpy"), ("grain", "grain")):
        text = (pins / f"{adapter}.txt").read_text()
        pinned = re.search(rf"^{distribution}==(\S+)", text, re.MULTILINE)
        version = four.records[f"loading.TAB-1.small.{adapter}"].versions[distribution]
        assert version.partition("+")[0] == pinned[1]


def test_standard_output_is_json_and_nothing_else_and_progress_is_not_in_it(four):
    told = json.loads(four.stdout)
    assert told["run_id"] == four.output.name
    records = [Record.model_validate(one) for one in told["records"]]
    assert {record.cell.id: record for record in records} == four.records
    assert "results in" in four.stderr


def test_a_report_that_needs_no_network_stands_beside_the_records(four):
    page = (four.output / "report.html").read_text()
    for id in IDS:
        assert four.records[id].cell.scenario in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.https?:", page)


def test_the_run_can_be_shown_exported_and_compared_with_itself(four, tmp_path):
    shown = run_in(tmp_path, "report", str(four.output))
    assert shown.status == 0
    assert "CV-1:small" in shown.stdout
    exported = run_in(tmp_path, "export", str(four.output), "--to", "figures.parquet")
    assert exported.status == 0, exported.stderr
    assert pq.read_table(tmp_path / "figures.parquet").num_rows == 4
    compared = run_in(tmp_path, "compare", str(four.output), str(four.output), "--gate")
    assert compared.status == 0, compared.stdout


def test_the_adapter_of_the_readme_runs_and_is_verified(tmp_path):
    (source,) = re.findall(r"(?s)```python\n(.*?class MyLoader.*?)```", README.read_text())
    assert len(source.splitlines()) < 30
    (tmp_path / "my_loader.py").write_text(source)
    ran = run_in(
        *(tmp_path, "run", "--scenarios", *SCENARIOS, "NLP-1", "--effort", "check"),
        *("--adapters", "./my_loader.py:MyLoader"),
    )
    assert ran.status == 0, ran.stderr
    assert set(ran.records) == {
        f"loading.{scenario}.small.mine" for scenario in (*SCENARIOS, "NLP-1")
    }
    for id, record in ran.records.items():
        assert record.status is Status.OK
        warm_up = arrived_of(ran, id, 0, epoch=0)
        assert record.verification.compared_elements >= min(warm_up, 256) > 0


def test_the_running_environment_serves_what_it_has_and_skips_the_rest_with_the_command(tmp_path):
    ran = run_in(
        *(tmp_path, "run", "--env", "current", "--scenarios", "TAB-1", "--effort", "check"),
        *("--adapters", "numpy", "grain"),
    )
    assert ran.status == 0, ran.stderr
    assert ran.records["loading.TAB-1.small.numpy"].status is Status.OK
    assert ran.records["loading.TAB-1.small.numpy"].versions["numpy"] == np.__version__
    absent = ran.records["loading.TAB-1.small.grain"]
    assert absent.status is Status.SKIPPED
    assert absent.cause.kind == "LibraryAbsentError"
    assert "pip install grain" in absent.cause.message


def test_a_venv_that_cannot_be_made_fails_its_cells_and_the_run_goes_on(tmp_path):
    (tmp_path / "own.py").write_text(
        "from skymark.suites.loading.adapters.numpy import NumpyReference\n"
        "class Own(NumpyReference):\n"
        "    slug = 'own'\n"
        "    requirements = ('no-such-package-xyz',)\n"
    )
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "TAB-1", "--effort", "check"),
        *("--adapters", "./own.py:Own", "numpy"),
    )
    assert ran.status == 1, ran.stderr
    failed = ran.records["loading.TAB-1.small.own"]
    assert failed.status is Status.FAILED
    assert "no-such-package-xyz" in failed.cause.message
    assert failed.cause.action == "skymark env build own.py:Own"
    assert (
        "no-such-package-xyz" in (ran.output / "logs" / "loading.TAB-1.small.own.log").read_text()
    )
    assert ran.records["loading.TAB-1.small.numpy"].status is Status.OK
    assert re.search("failed +own: .*venv", ran.stderr)


def test_think_time_gives_the_utilisation_of_an_accelerator(tmp_path):
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check"),
        *("--think-time-ms", "200"),
    )
    assert ran.status == 0, ran.stderr
    (record,) = ran.records.values()
    assert 0.5 < record.metrics["utilisation"].value < 1
    assert record.cell.settings["think_time_ms"] == 200


def test_a_plan_says_what_the_run_of_the_same_options_will_hold(tmp_path, four):
    planned = run_in(tmp_path, "plan", *FOUR, "--json")
    assert planned.status == 0
    plan = Plan.model_validate_json(planned.stdout)
    assert plan.hash == four.manifest.plan_hash
    assert [planned.cell.id for planned in plan.runnable] == IDS


@pytest.mark.parametrize("what", ["scenarios", "adapters", "profiles"])
def test_listings_are_json_where_asked(tmp_path, what):
    listed = run_in(tmp_path, "list", what, "--json")
    assert listed.status == 0
    assert json.loads(listed.stdout)
    assert listed.stderr == ""


def test_the_output_directory_of_another_plan_is_refused(four):
    arguments = ("--scenarios", "NLP-1", "--adapters", "numpy", "--rounds", "1")
    ran = run_in(four.output.parent, "run", *arguments)
    assert ran.status == 2
    assert "holds another plan" in ran.stderr


@pytest.fixture
def photos(tmp_path):
    """A folder of small photographs, one folder per class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / f"class-{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 50, 3), np.uint8)).save(path)
    return tmp_path / "photos"


def test_a_folder_of_photos_is_measured_and_a_truncated_one_is_named(photos, tmp_path):
    arguments = ("run", "--scenarios", "CV-1", "--adapters", "numpy", "--rounds", "1")
    cache = {"SKYMARK_CACHE": str(tmp_path / "cache")}
    ran = run_in(tmp_path, *arguments, "--data", "./photos", **cache)
    assert ran.status == 0, ran.stderr
    assert ran.records["loading.CV-1.small.numpy"].cell.specification["data"]

    broken = photos / "class-1" / "13.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    ran = run_in(tmp_path, *arguments, "--data", "./photos", "--resume", **cache)
    assert ran.status == 2
    assert "class-1/13.jpg" in ran.stderr
