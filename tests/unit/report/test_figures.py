"""Figures of a run as files: SVG and PNG of rates, distributions of samples and prices."""

from __future__ import annotations

import dataclasses
import shutil
import struct
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from skymark.cli.main import main
from skymark.model.errors import UsageError
from skymark.report.chart import distribution_charts, write_figures
from skymark.report.ranking_table import ranked
from skymark.rundir.reader import Run, open_run
from skymark.rundir.row import read_samples

STEMS = ("TAB-1_small-samples_per_s", "TAB-1_small-wait_ns", "TAB-1_small-price")


def test_each_figure_is_an_svg_and_a_png_that_can_be_opened(sampled: Run, tmp_path: Path) -> None:
    written = write_figures(sampled, tmp_path / "new" / "figures")
    assert [path.name for path in written] == [
        f"{s}.{end}" for s in STEMS for end in ("svg", "png")
    ]
    for path in written:
        data = path.read_bytes()
        if path.suffix == ".svg":
            assert ET.fromstring(data).tag.endswith("svg")
        else:
            width, height = struct.unpack(">II", data[16:24])
            assert data.startswith(b"\x89PNG")
            assert width == 1200
            assert height > 200


def test_a_name_in_a_figure_is_neither_markup_nor_mathematics_nor_a_path(
    make: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "../$\\frac{1$ </text><script>x</script> --> \x1b\u6f22" + "w" * 60
    records = [make.measured(make.cell(evil, evil), make.rounds_of(1000, name="x"))]
    make.write_run(tmp_path / "run", records)
    assert main(["report", str(tmp_path / "run"), "--figures", str(tmp_path / "f")]) == 0
    assert "2 figures in" in " ".join(capsys.readouterr().err.split())
    files = sorted((tmp_path / "f").iterdir())
    assert [path.suffix for path in files] == [".png", ".svg"]
    assert "<script" not in files[1].read_text("utf-8")
    ET.fromstring(files[1].read_bytes())


def test_two_scenarios_whose_names_are_equal_as_files_have_both_their_figures(
    make: ModuleType, tmp_path: Path
) -> None:
    rounds = make.rounds_of(1000, count=1)
    records = [make.measured(make.cell("A", "numpy", {"x": sign}), rounds) for sign in "/?"]
    run = open_run(make.write_run(tmp_path / "run", records[:1]))
    found = write_figures(dataclasses.replace(run, records=tuple(records)), tmp_path / "f")
    assert len({path.name for path in found}) == 4


def test_a_directory_that_cannot_be_written_is_named(sampled: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*\bfile/"):
        write_figures(sampled, tmp_path / "file")


def test_a_distribution_has_the_samples_of_the_stream_alone(sampled: Run) -> None:
    problems: list[str] = []
    rows = ranked(sampled.records, sampled.declaration)
    (chart,) = distribution_charts(sampled, rows, problems)
    assert problems == []
    record = rows[0].record
    kept = read_samples(sampled.directory, record, ["stream"])
    assert kept is not None
    of_stream = int(kept["stream"].sum())
    assert 0 < of_stream < len(kept["stream"])
    shape = chart.shapes[0]
    assert shape is not None
    assert shape.description.startswith(f"{of_stream:,} waits, ms")
    assert max(shape.heights) == 1


def test_samples_that_were_changed_are_named_and_not_drawn(sampled: Run, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(sampled.directory, tmp_path / "run"))
    id = sampled.records[0].cell.id
    (copied / "samples" / f"{id}.parquet").write_bytes(b"PAR1")
    problems: list[str] = []
    rows = ranked(sampled.records, sampled.declaration)
    run = dataclasses.replace(sampled, directory=copied)
    (chart,) = distribution_charts(run, rows, problems)
    assert [one is None for one in chart.shapes].count(True) == 1
    assert len(problems) == 1
    assert problems[0].startswith(f"samples/{id}.parquet: ")
