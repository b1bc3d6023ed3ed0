"""Entries of a directory in which others write."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skymark.cli.main import main
from skymark.plain_files import entries_below, write_below, write_whole


def test_a_directory_that_goes_while_entries_are_listed_has_none(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    entries = entries_below(tmp_path)
    first, _ = next(entries)
    there, _ = first.split("/")
    shutil.rmtree(tmp_path / ("other" if there == "one" else "one"))
    assert list(entries) == []


def test_a_pipe_or_a_device_is_written_into_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        write_whole(pipe, b"plan")
        assert read.result(timeout=60) == b"plan"
    assert pipe.is_fifo()
    write_whole(Path(os.devnull), b"plan")
    assert Path(os.devnull).is_char_device()


def test_a_pipe_in_place_of_a_run_s_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "record.json")
    write_below(tmp_path, "record.json", b"{}")
    assert (tmp_path / "record.json").read_bytes() == b"{}"


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
