"""Directories that nobody else can put anything into."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from skymark.machine.private_directory import private_directory
from skymark.model.errors import UsageError


def open_to_all(path):
    path.mkdir()
    path.chmod(0o777)


def link_to_a_directory(path):
    (path.parent / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.parent / "elsewhere")


@pytest.mark.parametrize("put", [open_to_all, link_to_a_directory, Path.touch, os.mkfifo])
def test_a_directory_that_a_stranger_prepared_is_passed_over(tmp_path, put):
    put(tmp_path / "prepared")
    own = private_directory([tmp_path / "prepared", tmp_path / "own"])
    assert own == tmp_path / "own"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert private_directory([own]) == own
    with pytest.raises(UsageError, match="prepared"):
        private_directory([tmp_path / "prepared"])
