"""Showing, comparing and exporting runs on disk."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import webbrowser
from pathlib import Path

import pytest

from skymark.cli import results
from skymark.cli.main import main
from skymark.model.record import Status
from skymark.report.verdicts import verdicts_of
from skymark.resources import install_line
from skymark.rundir.newest import point_at
from skymark.rundir.reader import open_run, read_record

SAVED = Path(__file__).parents[2] / "data" / "run"


@pytest.fixture
def run(tmp_path):
    shutil.copytree(SAVED, tmp_path / "run")
    return tmp_path / "run"


def ids(run):
    return {path.stem for path in (run / "records").glob("*.json")}


def test_a_run_is_shown_and_its_page_is_written_anew(run, capsys):
    (run / "report.html").unlink(missing_ok=True)
    assert main(["report", str(run)]) == 0
    out, err = capsys.readouterr()
    assert out
    assert f"report in {run / 'report.html'}" in err
    assert "<html" in (run / "report.html").read_text()


def test_the_records_are_printed_as_json(run, capsys):
    assert main(["report", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["cell"] for one in found["records"]] == [
        one.cell.model_dump(mode="json") for one in open_run(run).records
    ]
    sentences = [one["sentences"] for one in found["verdicts"]]
    assert sentences == [list(one.sentences) for one in verdicts_of(open_run(run))]
    assert found["finished"] is (open_run(run).missing == ())


def test_without_a_name_the_newest_run_is_shown_and_opened(run, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert re.match(r"skymark: .*\bresults\b.*skymark run$", capsys.readouterr().err)
    for name in ("older", "newer"):
        shutil.copytree(run, tmp_path / "results" / name)
        point_at(Path("results", name))
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert main(["report", "--open", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["directory"] == "results/newer"
    assert opened == [(tmp_path / "results/newer/report.html").as_uri()]


def test_a_machine_without_a_browser_names_the_page(run, capsys, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert main(["report", str(run), "--open"]) == 0
    assert re.search(f"browser .*{re.escape(str(run))}/report.html", capsys.readouterr().err)


def test_without_jinja2_the_run_is_shown_all_the_same(run, capsys, monkeypatch):
    monkeypatch.setattr(results, "find_spec", lambda name: None)
    (run / "report.html").unlink(missing_ok=True)
    assert main(["report", str(run)]) == 0
    assert install_line("report") in capsys.readouterr().err
    assert not (run / "report.html").exists()


def test_what_is_no_run_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "is no run" in capsys.readouterr().err


def ok_records(run):
    """The files of the cells that were measured, by the cell's id."""
    measured = {one.cell.id for one in open_run(run).records if one.status is Status.OK}
    files = {read_record(path).cell.id: path for path in sorted((run / "records").glob("*.json"))}
    return {id: path for id, path in files.items() if id in measured}


@pytest.mark.parametrize("order", [1, -1])
def test_the_gate_does_not_pass_where_cells_vanish(run, capsys, order):
    _, *lost = ok_records(run).items()
    for _, path in lost:
        path.unlink()
    assert main(["compare", *[str(SAVED), str(run)][::order], "--gate"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert f"{len(lost)} cells of" in err
    assert all(id in err for id, _ in lost)


def test_a_run_that_measured_nothing_is_not_exported_as_figures(run, capsys):
    for path in ok_records(run).values():
        path.unlink()
    assert main(["export", str(run), "--to", "pytest-benchmark"]) == 2
    assert "no `ok` record" in capsys.readouterr().err


def test_two_runs_are_compared_as_a_table_and_as_json(run, capsys):
    assert main(["compare", str(run), str(SAVED), "--gate"]) == 0
    assert capsys.readouterr().out
    assert main(["compare", str(run), str(SAVED), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_figures_are_exported_as_a_table_of_the_kind_that_the_name_says(run, tmp_path, capsys):
    to = tmp_path / "figures.csv"
    assert main(["export", str(run), "--to", str(to)]) == 0
    assert capsys.readouterr().out == f"{to}\n"
    with to.open() as file:
        assert len(list(csv.DictReader(file))) == len(ids(run))
    assert main(["export", str(run), "--to", str(tmp_path / "figures.xlsx")]) == 2
    assert re.search(r"\.csv\b.*\.parquet", capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_that_cannot_be_written_is_an_error_that_says_so(run, tmp_path, capsys, kind):
    there = tmp_path / "absent" / f"run.{kind}"
    assert main(["export", str(run), "--to", str(there)]) == 2
    assert f"{there}: {os.strerror(errno.ENOENT)}; " in capsys.readouterr().err


def test_what_was_written_and_fetched_is_json_on_request(run, tmp_path, capsys):
    def printed(*words, status=0):
        assert main([*words, "--json"]) == status
        return json.loads(capsys.readouterr().out)

    to = tmp_path / "figures.csv"
    assert printed("export", str(run), "--to", str(to)) == {"files": [str(to)], "cells_left_out": 0}
    benchmarks = printed("export", str(run), "--to", "pytest-benchmark")
    assert benchmarks["cells_left_out"] == len(open_run(run).manifest.cells) - len(ok_records(run))
    (tmp_path / "store").mkdir()
    address = f"file://{tmp_path / 'store'}"
    stored = printed("export", str(run), "--to", address)
    assert (stored["problem"], stored["not_sent"]) == (None, {})
    fetched = printed("fetch", f"{address}/run-v3", str(tmp_path / "copy"))
    assert (fetched["records"], fetched["differing"]) == (len(ids(run)), [])
    pages = printed("site", str(run), "--output", str(tmp_path / "pages"))
    assert (Path(pages["index"]).is_file(), pages["runs"]) == (True, 1)
