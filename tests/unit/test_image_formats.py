"""Images whose bytes are something else than their names say."""

from __future__ import annotations

import ast
import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from PIL import EpsImagePlugin, Image

import skymark
from skymark.image_formats import IMAGE_FORMATS
from skymark.model.errors import DataError
from skymark.suites.clip.pixels.preprocessing import decoded
from skymark.suites.loading.dataset.values import image_height, jpeg
from skymark.suites.loading.transforms.images import decode_rgb
from tests.image_modes import chunk

SOURCE = Path(skymark.__file__).parent
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """A file that a stand-in for Ghostscript, first on the path, writes to when it is started."""
    started = tmp_path / "started"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\necho 10 >> {started}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return started


@pytest.mark.parametrize(
    "read",
    [
        lambda data: jpeg(data, "a.png"),
        lambda data: image_height(data, "a.png"),
        lambda data: decode_rgb(data, 0),
        lambda data: decoded(data, "a.png"),
    ],
    ids=["import", "size", "decode", "clip"],
)
def test_postscript_starts_no_ghostscript(ghostscript, read):
    with pytest.raises(DataError, match="cannot be decoded"):
        read(POSTSCRIPT)
    assert not ghostscript.exists()


def test_no_image_is_opened_in_any_format_that_there_is():
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Image.open":
                assert "formats" in {one.arg for one in node.keywords}, f"{file}:{node.lineno}"


@pytest.mark.parametrize("format", IMAGE_FORMATS)
def test_the_formats_of_photographs_are_read(format):
    file = io.BytesIO()
    Image.new("RGB", (8, 4), "red").save(file, format)
    assert image_height(file.getvalue(), "a") == 4
    assert jpeg(file.getvalue(), "a").tobytes() == file.getvalue()


def test_an_image_of_billions_of_pixels_is_refused():
    header = struct.pack(">2I5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(b""), b"IEND": b""}
    data = b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, chunks, chunks.values()))
    with pytest.raises(DataError, match=r"a\.png .*3600000000 pixels"):
        jpeg(data, "a.png")
