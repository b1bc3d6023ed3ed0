"""One writer at a time in a run's directory."""

from __future__ import annotations

import threading

import pytest

from skymark.model.errors import RunDirectoryError
from skymark.rundir.writer_locks import sole_writer


def test_a_second_writer_is_refused_or_waits(tmp_path):
    told, waiting, entered = [], threading.Event(), threading.Event()

    def announce(text):
        told.append(text)
        waiting.set()

    def second():
        with sole_writer(tmp_path / "run", wait=True, announce=announce):
            entered.set()

    with sole_writer(tmp_path / "run", wait=False):
        refused = pytest.raises(RunDirectoryError, match=f"{tmp_path / 'run'}; .*--resume")
        with refused, sole_writer(tmp_path / "run", wait=False):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        assert not entered.wait(0.3)
    assert entered.wait(60)
    thread.join()
    assert len(told) == 1
    assert told[0].endswith(f" {tmp_path / 'run'}")


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(RunDirectoryError, match="is a file"), sole_writer(file, wait=False):
        pass
    refused = pytest.raises(RunDirectoryError, match="cannot write to")
    with refused, sole_writer(file / "below", wait=False):
        pass
    assert file.read_text() == "precious"
