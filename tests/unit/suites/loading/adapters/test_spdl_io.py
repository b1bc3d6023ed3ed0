"""SPDL's decoders without FFmpeg are absent: stand-ins for them, since its venv is not here."""

from __future__ import annotations

import sys

import pytest

from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapters.spdl_io import SpdlIo


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what puts a package spdl on the path whose question for FFmpeg does this."""

    def write(answer: str) -> None:
        package = tmp_path / "spdl" / "io"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "utils.py").write_text(f"def get_ffmpeg_versions():\n    {answer}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "spdl"]:
        del sys.modules[name]


def test_without_ffmpeg_the_command_that_installs_it_is_told(install):
    install("raise RuntimeError('Failed to import libspdl. …')")
    with pytest.raises(LibraryAbsentError, match=r"apt-get install .*ffmpeg"):
        SpdlIo.import_library()


def test_another_failure_stays_one(install):
    install("raise RuntimeError('out of memory')")
    with pytest.raises(RuntimeError, match="out of memory"):
        SpdlIo.import_library()


def test_with_ffmpeg_it_is_imported(install):
    install("return {'libavcodec': (59, 37, 100)}")
    SpdlIo.import_library()
    assert "spdl.io" in sys.modules
