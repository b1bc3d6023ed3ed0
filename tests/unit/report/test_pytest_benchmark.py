"""Files of pytest-benchmark, written and read."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skymark.cli.main import main
from skymark.model.errors import UsageError
from skymark.report.compare import compare_runs
from skymark.report.pytest_benchmark import BATCHES, benchmark_file, read_benchmarks
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import Verdict

REAL = Path(__file__).parents[2] / "data" / "pytest-benchmark.json"
"""Written by pytest-benchmark 5, with 40 rounds of two parameters of one test."""


def changed(tmp_path: Path, change: Any) -> Path:
    content = json.loads(REAL.read_text())
    change(content)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    return path


def test_a_test_is_a_scenario_and_its_parameter_an_adapter() -> None:
    run = read_benchmarks(REAL)
    assert [(one.cell.label, one.cell.adapter) for one in run.records] == [
        ("test_sums.py:test_sum", "plain"),
        ("test_sums.py:test_sum", "slow"),
    ]
    assert run.manifest.machine.hardware.cpu_model == "Example CPU 3000"


def test_successive_rounds_are_averaged_and_none_is_lost() -> None:
    record = read_benchmarks(REAL).records[0]
    stats = json.loads(REAL.read_text())["benchmarks"][0]["stats"]
    values = record.values("seconds")
    assert len(values) == BATCHES < len(stats["data"])
    assert min(stats["data"]) <= min(values) <= max(values) <= max(stats["data"])


def test_a_slower_file_is_worse_and_the_gate_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(content: Any) -> None:
        stats = content["benchmarks"][0]["stats"]
        stats["data"] = [value * 20 for value in stats["data"]]

    path = changed(tmp_path, slow)
    assert main(["compare", str(REAL), str(path), "--gate"]) == 3
    assert "slower" in capsys.readouterr().out
    assert main(["history", str(REAL), str(path)]) == 0
    assert "2 runs" in capsys.readouterr().out


def test_a_file_without_rounds_is_inconclusive(tmp_path: Path) -> None:
    def bare(content: Any) -> None:
        for one in content["benchmarks"]:
            del one["stats"]["data"]

    found = compare_runs(read_benchmarks(REAL), read_benchmarks(changed(tmp_path, bare)))
    verdicts = [one.difference and one.difference.verdict for c in found.cells for one in c.metrics]
    assert verdicts == [Verdict.INCONCLUSIVE] * 2


def test_another_processor_is_refused(tmp_path: Path) -> None:
    def other(content: Any) -> None:
        content["machine_info"]["cpu"]["brand_raw"] = "Another CPU"

    with pytest.raises(UsageError, match="add --across hardware"):
        compare_runs(read_benchmarks(REAL), read_benchmarks(changed(tmp_path, other)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "valid dictionary"),
        ('{"a": 1}', "machine_info: Field required"),
        ("[" * 100_000, "ecursion|Input should"),
        ('{"machine_info": {}, "benchmarks": [], "datetime": "x", "version": ""}', "benchmarks"),
    ],
)
def test_other_json_is_refused_with_what_to_name_instead(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "other.json").write_text(text)
    told = rf"other\.json .*({reason}).*--benchmark-json=FILE"
    with pytest.raises(UsageError, match=told):
        read_benchmarks(tmp_path / "other.json")


def test_two_benchmarks_of_one_name_are_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda content: content["benchmarks"].extend(content["benchmarks"]))
    with pytest.raises(UsageError, match="two benchmarks"):
        read_benchmarks(path)


def test_an_export_has_each_round_and_is_read_again(
    make: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [make.measured(make.cell("TAB-1", "numpy", {"x": 1}), make.rounds_of(1000))]
    run = open_run(make.write_run(tmp_path / "run", records))
    to = ["--to", "pytest-benchmark", "--output", str(tmp_path / "out")]
    assert main(["export", str(run.directory), *to]) == 0
    path = tmp_path / "out" / "run.json"
    assert capsys.readouterr().out == f"{path}\n"
    (record,) = read_benchmarks(path).records
    assert (record.cell.label, record.cell.adapter) == ("TAB-1:small x=1", "numpy")
    rates = run.records[0].values("samples_per_s")
    assert record.values("seconds") == pytest.approx([1 / rate for rate in rates])


def test_an_export_has_the_fields_that_pytest_benchmark_writes(saved: Run) -> None:
    ours, real = json.loads(benchmark_file(saved)), json.loads(REAL.read_text())
    assert ours.keys() == real.keys()
    for one in ours["benchmarks"]:
        assert one.keys() == real["benchmarks"][0].keys()
        assert one["stats"].keys() == real["benchmarks"][0]["stats"].keys()
