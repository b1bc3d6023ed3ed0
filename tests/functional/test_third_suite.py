"""A suite of another package does all that skymark can do, and skymark does not know of it.

`tests/data/sorting_suite` is installed into a venv beside skymark, as its users would.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from skymark.model.plan import Plan
from skymark.model.record import RoundResult, Status
from skymark.rundir.reader import Run, open_run
from tests.functional.conftest import environment
from tests.installed_suite import SORTING_SUITE, venv_with
from tests.stores.s3_server import s3_server
from tests.stores.wandb_server import wandb_server

PROFILE = """
description = "Two shapes, every algorithm"
suite = "sorting"
platform = "cpu"
scenarios = ["random", "reversed"]
"""
CELLS = {
    f"sorting.{shape}.small.{algorithm}"
    for shape in ("random", "reversed")
    for algorithm in ("builtin", "heap", "insertion", "merge")
}
ONE_CELL = ("--scenarios", "random", "--adapters", "builtin")
FOUR_CELLS = ("--adapters", "builtin", "heap")
OF_FOUR = {id for id in CELLS if id.endswith(("builtin", "heap"))}
HEADINGS = ("elements/s", "comparisons", "× builtin")
TITLES = ("distinct elements in random order", "in order, from the last to the first")
BEST_FIRST = ["builtin", "heap", "merge", "insertion"]
"""By elements per second, on any machine: C before Python, n log n before n²."""


@dataclass(frozen=True)
class Bench:
    """A directory with a profile, and the interpreter that the suite is installed for."""

    python: Path
    directory: Path

    def command(self, *arguments: str) -> list[str]:
        """A command of the installed skymark, with the profile where one is read."""
        chosen = ("--profile", "sorting.toml") if arguments[0] in {"run", "plan"} else ()
        if "--plan" in arguments:
            chosen = ()
        return [os.fspath(self.python), "-m", "skymark", *arguments, *chosen]

    def environment(self, **variables: str) -> dict[str, str]:
        """The caller's, with nothing that leads to another skymark or another store."""
        away = ("WANDB_", "AWS_", "R2_", "PYTHONPATH")
        plain = environment(self.directory)
        return {k: v for k, v in plain.items() if not k.startswith(away)} | variables

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command there."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env=self.environment(**variables),
        )

    def __call__(self, *arguments: str, status: int = 0, **variables: str) -> tuple[str, str]:
        """Carry out a command there; returns standard output and error."""
        process = self.start(*arguments, **variables)
        stdout, stderr = process.communicate(timeout=600)
        assert process.returncode == status, f"{arguments}\n{stdout}\n{stderr}"
        return stdout, stderr

    def run(self, name: str) -> Run:
        """The run in a directory there."""
        return open_run(self.directory / name)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return venv_with(SORTING_SUITE, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture
def bench(python: Path, tmp_path: Path) -> Bench:
    (tmp_path / "sorting.toml").write_text(PROFILE)
    return Bench(python, tmp_path)


@pytest.fixture(scope="module")
def measured(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench with a whole run in ``out``, which tests only read."""
    bench = Bench(python, tmp_path_factory.mktemp("measured"))
    (bench.directory / "sorting.toml").write_text(PROFILE)
    bench("run", "--output", "out")
    return bench


# Listed and planned


def test_it_is_listed_beside_the_suites_of_skymark(bench):
    suites = {row["name"]: row for row in json.loads(bench("list", "suites", "--json")[0])}
    assert len(suites) > 1
    assert suites["sorting"]["compares"] == ["elements_per_s", "comparisons"]
    own = ("--suite", "sorting")
    assert [one["id"] for one in json.loads(bench("list", "scenarios", *own, "--json")[0])] == [
        "random", "sorted", "reversed", "few-distinct",
    ]  # fmt: skip
    adapters = json.loads(bench("list", "adapters", *own, "--json")[0])
    states = {one["slug"]: one["venv"] for one in adapters}
    assert states["merge"] == "not needed"
    assert "few-distinct" in bench("list", "scenarios", *own)[0]


def test_its_plan_is_shown_and_is_a_file_that_is_run(bench):
    shown, _ = bench("plan")
    assert re.search(r"\b8 cells\b.*\b4 adapters\b", shown)
    assert all(f"{shape}:small" in shown for shape in ("random", "reversed"))
    text, _ = bench("plan", "--json", "--output", "plan.json", *ONE_CELL, "--rounds", "1")
    plan = Plan.model_validate_json(text)
    assert (plan.suite, len(plan.cells)) == ("sorting", 1)
    bench("env", "build", "--plan", "plan.json")
    bench("run", "--plan", "plan.json", "--output", "out")
    assert bench.run("out").manifest.plan_hash == plan.hash


def test_its_own_options_and_settings_reach_its_cells(bench):
    shown, _ = bench("run", "--help")
    assert "--length" in shown
    assert "--element" in shown
    text, _ = bench("plan", "--json", *ONE_CELL, "--length", "300", "--element", "float")
    (planned,) = Plan.model_validate_json(text).cells
    assert planned.cell.specification["length"] == 300
    assert planned.cell.settings == {"element": "float"}
    refused, _ = bench("plan", "--scenarios", "random", "--length", "100000")
    assert "quadratic" in refused


def test_doctor_tells_what_its_instrument_costs(bench):
    told = json.loads(bench("doctor", "--json", "--skip", "noise")[0])["self_tests"]
    assert told["sorting"]["reading the clock"].endswith(" ns")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--scenarios", "sideways"), "unknown scenario 'sideways'"),
        (("--set", "elment=int"), "unknown setting 'elment'. Did you mean 'element'?"),
        (("--length", "0"), "option length=0"),
        (("--element", "text"), "element"),
    ],
)
def test_what_it_does_not_know_is_refused_in_its_own_words(bench, arguments, reason):
    stdout, stderr = bench("plan", *arguments, status=2)
    assert reason in stdout + stderr


def test_its_options_are_refused_where_another_suite_is_planned(bench):
    command = [bench.python, "-m", "skymark", "plan", "--profile", "ci_cpu", "--length", "9"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=bench.environment(), check=False
    )
    assert done.returncode == 2
    assert re.search(r"--length\b.*\bsorting\b.*\bci_cpu\b", done.stderr)


# Run, killed and resumed, sharded


def test_every_cell_is_measured_and_verified(measured):
    run = measured.run("out")
    assert set(run.by_id) == CELLS
    assert run.manifest.finished
    for record in run.records:
        assert record.status is Status.OK
        assert record.verification.passed
        assert set(record.metrics) == {"elements_per_s", "comparisons"}
        assert len(record.rounds) == 3
        assert record.versions["skymark-sorting"] == "1.0"


def test_an_algorithm_that_does_not_sort_makes_the_run_end_with_status_1(bench):
    shown, _ = bench("run", *ONE_CELL, "--adapters", "no-op", "--output", "out", status=1)
    record = bench.run("out").by_id["sorting.random.small.no-op"]
    assert record.status is Status.INVALID
    assert record.cause.kind == "not-sorted"
    assert "1 invalid" in shown
    assert bench.run("out").by_id["sorting.random.small.builtin"].status is Status.OK


def rounds_on_disk(output: Path) -> dict[str, bytes]:
    """The rounds of cells that have no record yet, by path."""
    found = {}
    for path in output.glob("rounds/*/*.json"):
        with suppress(FileNotFoundError):  # a record has replaced it
            found[path.relative_to(output).as_posix()] = path.read_bytes()
    return found


def end(process: subprocess.Popen[str]) -> None:
    """Kill an engine; its workers end with it."""
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(workers, timeout=30)[1]


def killed_in_the_middle(bench: Bench) -> tuple[str, dict[str, bytes]]:
    """Kill a run that has four rounds of unfinished cells; return where it is, and those rounds."""
    for name in ("out", "out-of-a-second-try", "out-of-a-third-try"):
        output = bench.directory / name
        process = bench.start("run", *FOUR_CELLS, "--rounds", "4", "--output", name)
        while len(rounds_on_disk(output)) < 4 and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is None:
            end(process)
        assert process.returncode in {0, -signal.SIGKILL}, "it neither ended well nor was killed"
        rounds = rounds_on_disk(output)
        if len(rounds) >= 4 and not bench.run(name).manifest.finished:
            return name, rounds
    pytest.fail("it always ended before it was killed")


def test_a_run_killed_in_the_middle_goes_on_where_it_was(bench):
    name, before = killed_in_the_middle(bench)
    bench("run", *FOUR_CELLS, "--rounds", "4", "--output", name, "--resume")
    run = bench.run(name)
    assert set(run.by_id) == OF_FOUR
    assert all(record.status is Status.OK for record in run.records)
    for path, content in before.items():
        kept = RoundResult.model_validate(json.loads(content)["result"]).summary
        record = run.by_id[path.split("/")[1]]
        assert len(record.rounds) == 4
        assert kept in record.rounds, f"the round in {path} was measured again"


def test_processes_that_share_it_take_over_what_a_killed_one_held(bench):
    shared = ("run", *FOUR_CELLS, "--rounds", "2", "--share", "--output", "out")
    first = bench.start(*shared)
    deadline = time.monotonic() + 120
    while len(rounds_on_disk(bench.directory / "out")) < 2 and first.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    others = [bench.start(*shared) for _ in range(2)]
    end(first)
    kept = rounds_on_disk(bench.directory / "out")
    for one in others:
        _, stderr = one.communicate()
        assert one.returncode == 0, stderr
    run = bench.run("out")
    assert set(run.by_id) == OF_FOUR
    assert run.manifest.finished
    assert all(len(record.rounds) == 2 for record in run.records)
    for path, content in kept.items():
        measured = RoundResult.model_validate(json.loads(content)["result"]).summary
        assert measured in run.by_id[path.split("/")[1]].rounds


def test_workers_here_share_it_and_a_killed_one_is_replaced(bench):
    running = bench.start("run", "--rounds", "2", "--slots", "3", "--output", "out")
    deadline = time.monotonic() + 120
    while len(rounds_on_disk(bench.directory / "out")) < 2 and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers = [
        one
        for one in psutil.Process(running.pid).children(recursive=True)
        if "--share" in one.cmdline()
    ]
    assert len(workers) == 3
    workers[-1].kill()
    stdout, stderr = running.communicate()
    assert running.returncode == 0, stderr
    assert "3 workers share" in stderr
    assert "slot 1: " in stderr
    run = bench.run("out")
    assert set(run.by_id) == CELLS
    assert run.manifest.finished
    assert "random" in stdout


def test_workers_here_end_with_the_command(bench):
    running = bench.start("run", "--rounds", "50", "--slots", "2", "--output", "out")
    deadline = time.monotonic() + 120
    while not rounds_on_disk(bench.directory / "out") and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    below = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate()
    assert running.returncode == 130
    assert "--resume" in stderr
    assert not [one for one in below if one.is_running() and one.status() != "zombie"]


def test_workers_on_gpus_need_one_that_is_visible(bench):
    profile = (bench.directory / "sorting.toml").read_text().replace('"cpu"', '"gpu"')
    (bench.directory / "sorting.toml").write_text(profile)
    slots = ("run", "--rounds", "1", "--slots", "all", "--output", "out")
    _, stderr = bench(*slots, status=2, CUDA_VISIBLE_DEVICES="")
    assert "no GPU" in stderr
    _, stderr = bench(*slots, "--share", status=2)
    assert "leave out --share" in stderr


def test_two_shards_are_the_whole_with_each_cell_once(bench):
    parts = []
    for shard in ("0/2", "1/2"):
        name = f"part-{shard[0]}"
        bench("run", *FOUR_CELLS, "--rounds", "1", "--shard", shard, "--output", name)
        parts.append(set(bench.run(name).by_id))
    assert parts[0] | parts[1] == OF_FOUR
    assert not parts[0] & parts[1]
    # What is compared stays on one machine.
    assert [len({id.split(".")[1] for id in part}) for part in parts] == [1, 1]


# Stored


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    with s3_server() as server:
        server.make_bucket("results")
        yield server.variables


def digests(directory: Path) -> dict[str, str]:
    """Every file of a run but what each machine makes for itself."""
    return {
        path.relative_to(directory).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {".lock", "report.html"}
    }


def test_it_is_stored_in_a_directory_and_continued_from_there(bench):
    address = (bench.directory / "shared").as_uri()
    (bench.directory / "shared").mkdir()
    chosen = (*ONE_CELL, "--rounds", "2", "--store", address, "--output", "out")
    _, stderr = bench("run", *chosen)
    assert f"stored in {address}/out" in stderr
    bench("fetch", f"{address}/out", "back")
    assert digests(bench.directory / "back") == digests(bench.directory / "out")
    before = bench.run("out").records
    shutil.rmtree(bench.directory / "out")
    bench("run", *chosen, "--resume")
    assert bench.run("out").records == before


def test_it_is_stored_in_a_bucket_and_fetched_as_it_was(bench, bucket):
    address = f"s3://results/{bench.directory.name}"
    chosen = (*ONE_CELL, "--rounds", "2", "--store", address, "--output", "out")
    _, stderr = bench("run", *chosen, **bucket)
    assert f"stored in {address}/out" in stderr
    bench("fetch", f"{address}/out", "back", **bucket)
    assert digests(bench.directory / "back") == digests(bench.directory / "out")


def test_it_is_stored_in_wandb_with_its_own_metrics(bench):
    with wandb_server() as server:
        away = {"HOME": os.fspath(bench.directory), **server.variables}
        cells = ("--scenarios", "random", "--adapters", "builtin", "merge", "--rounds", "2")
        _, stderr = bench("run", *cells, "--store-wait", "500", "--output", "out", **away)
        assert "NOT stored" not in stderr
        (run,) = server.runs.values()
        assert "elements_per_s" in json.dumps(run)
        assert "comparisons" in json.dumps(run)
        bench("fetch", "wandb://lab/skymark/runs/out", "back", **away)
    assert digests(bench.directory / "back") == digests(bench.directory / "out")


# Reported, compared, gated, exported


def order_in(shown: str) -> list[str]:
    """The algorithms of the first table, in order."""
    table = shown.split("\n\n")[2]  # the verdicts come before it
    return [line.split()[0] for line in table.splitlines() if line.split()[0] in BEST_FIRST]


def test_it_is_reported_with_its_metrics_and_ranked_by_the_primary_one(measured):
    shown, _ = measured("report", "out", "--wide", COLUMNS="140")
    for text in (*HEADINGS, *TITLES):
        assert text in shown
    run = measured.run("out")
    speeds = {
        record.cell.adapter: record.metrics["elements_per_s"].value
        for record in run.by_label()["random:small"]
    }
    assert order_in(shown) == sorted(speeds, key=speeds.__getitem__, reverse=True)
    page = (measured.directory / "out" / "report.html").read_text()
    for text in (*HEADINGS, *TITLES, "the oracle found the result in order", "insertion sort"):
        assert text in page
    assert "samples/s" not in page


def test_a_run_explains_itself_where_its_suite_is_not_installed(measured):
    command = [sys.executable, "-m", "skymark", "report", "out"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=measured.directory,
        env={**os.environ, "COLUMNS": "140"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == measured("report", "out")[0]


def verdicts(shown: str, metric: str) -> set[str]:
    """The verdicts on a metric in a comparison's JSON."""
    cells = json.loads(shown)["cells"]
    return {
        one["difference"]["verdict"]
        for cell in cells
        for one in cell["metrics"]
        if one["metric"] == metric
    }


def test_a_second_run_has_the_same_comparisons_and_a_verdict_on_its_speed(measured):
    measured("run", *ONE_CELL, "--output", "again")
    shown, _ = measured("compare", "out", "again", "--json")
    assert verdicts(shown, "comparisons") == {"no difference"}
    assert len(verdicts(shown, "elements_per_s")) == 1
    table, _ = measured("compare", "out", "again")
    assert "comparisons" in table


def test_the_gate_opens_for_equal_figures_and_says_no_to_more_comparisons(measured):
    shutil.copytree(measured.directory / "out", measured.directory / "copy")
    measured("compare", "out", "copy", "--gate")
    measured("run", *ONE_CELL, "--length", "257", "--output", "longer")
    across = ("--across", "cells")
    shown, _ = measured("compare", "out", "longer", *across, "--json")
    assert verdicts(shown, "comparisons") == {"worse"}
    # One element more is less than any practical margin, but this metric is exact.
    _, stderr = measured("compare", "out", "longer", *across, "--gate", status=3)
    assert "sorting.random.small.builtin (" in stderr
    assert "comparisons +" in stderr
    shown, _ = measured("compare", "longer", "out", *across, "--json")
    assert verdicts(shown, "comparisons") == {"better"}


def test_it_is_exported_with_a_column_for_each_metric(measured):
    measured("export", "out", "--to", "table.csv")
    measured("export", "out", "--to", "table.parquet")
    with (measured.directory / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["cell_id"] for row in rows} == CELLS
    table = pq.read_table(measured.directory / "table.parquet")
    records = measured.run("out").by_id
    for row, typed in zip(rows, table.to_pylist(), strict=True):
        figures = records[row["cell_id"]].metrics
        assert typed["elements_per_s"] == figures["elements_per_s"].value
        assert typed["elements_per_s_low"] < typed["elements_per_s"] < typed["elements_per_s_high"]
        assert int(row["comparisons"]) == typed["comparisons"] == figures["comparisons"].value
        assert row["language"] in {"C", "Python"}
    assert table.schema.field("comparisons").type == "int64"
    assert not [name for name in table.column_names if "samples" in name]
