"""Torchcodec without FFmpeg is absent: stand-ins for it, since its venv is not here."""

from __future__ import annotations

import sys

import pytest

from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapters.torchcodec import TorchCodec


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what puts a package torchcodec with this text in its `__init__` on the path."""

    def write(text: str) -> None:
        package = tmp_path / "torchcodec"
        package.mkdir()
        (package / "__init__.py").write_text(text)
        (package / "decoders.py").write_text("")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchcodec"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "text",
    ["ffmpeg_major_version = None", "raise RuntimeError('Could not load libtorchcodec. Likely …')"],
)
def test_without_ffmpeg_the_command_that_installs_it_is_told(install, text):
    install(text)
    with pytest.raises(LibraryAbsentError, match=r"apt-get install .*ffmpeg"):
        TorchCodec.import_library()


def test_another_failure_of_the_import_stays_one(install):
    install("raise RuntimeError('torch is too old')")
    with pytest.raises(RuntimeError, match="too old"):
        TorchCodec.import_library()


def test_with_ffmpeg_it_is_imported(install):
    install("ffmpeg_major_version = 5")
    TorchCodec.import_library()
    assert "torchcodec.decoders" in sys.modules
