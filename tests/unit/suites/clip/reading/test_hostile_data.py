"""Data sets of strangers: no program is started, nothing is read that is too large."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.clip.pixels.preprocessing import decoded
from skymark.suites.clip.reading import layout, samples
from skymark.suites.clip.reading.folder import read_folder
from skymark.suites.clip.reading.tars import read_shards
from tests.clip.drawing import pictures


@pytest.fixture
def shard(tmp_path):
    def written(**members):
        with tarfile.open(tmp_path / "0.tar", "w") as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(f"0.{name.replace('_', '.')}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return tmp_path / "0.tar"

    return written


def test_every_format_that_folders_may_have_is_decoded():
    from PIL import Image

    for kind in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM"):
        written = io.BytesIO()
        Image.new("RGB", (4, 4)).save(written, kind)
        assert decoded(written.getvalue(), kind).size == (4, 4)


def test_an_image_that_is_too_large_is_refused_unread(monkeypatch, shard, tmp_path):
    picture = pictures(1, seed=1)[0]
    monkeypatch.setattr(samples, "LARGEST_FILE_BYTES", len(picture.file) - 1)
    with pytest.raises(DataError, match=r"0\.jpg has .* bytes, and an image has"):
        read_shards([shard(jpg=picture.file, cls=b"0")], "classification")
    (tmp_path / "test" / "a").mkdir(parents=True)
    (tmp_path / "test" / "a" / "0.jpg").write_bytes(picture.file)
    with pytest.raises(DataError, match=r"0\.jpg has .* bytes, and an image has"):
        read_folder(tmp_path, "test")


def test_a_text_that_is_too_large_or_no_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "LARGEST_TEXT_BYTES", 10)
    (tmp_path / "classnames.txt").write_text("a" * 11)
    with pytest.raises(DataError, match="cannot read"):
        layout.prompts_of(tmp_path, "en")


def test_labels_that_are_an_archive_are_no_row(shard):
    archive = io.BytesIO()
    np.savez(archive, a=np.ones(3))
    with pytest.raises(DataError, match="no row of ones and zeros"):
        read_shards([shard(jpg=b"x", npy=archive.getvalue())], "multilabel")


def test_an_image_without_a_number_is_none_of_an_instance(shard):
    with pytest.raises(DataError, match="has no image"):
        read_shards([shard(left_jpg=b"x", txt=b"a caption")], "selection")
