"""Entries of a directory in which others write."""

from __future__ import annotations

import os
import shutil

import pytest

from skymark.cli.main import main
from skymark.plain_files import entries_below


def test_a_directory_that_goes_while_entries_are_listed_has_none(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    entries = entries_below(tmp_path)
    first, _ = next(entries)
    there, _ = first.split("/")
    shutil.rmtree(tmp_path / ("other" if there == "one" else "one"))
    assert list(entries) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--plan", "fifo.json"),
        ("plan", "--profile", "fifo.toml"),
        ("cost", "fifo.toml"),
        ("render", "slurm", "cpu", "--split", "even:2", "--template", "fifo.sh"),
        ("cache", "use", "--data", "fifo.json", "--cache-policy", "parquet", "--", "true"),
    ],
)
def test_a_fifo_that_a_command_is_given_as_a_file_is_refused(
    arguments, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for ending in ("json", "toml", "sh"):
        os.mkfifo(f"fifo.{ending}")
    assert main([*arguments]) == 2
    assert "no regular file" in capsys.readouterr().err
