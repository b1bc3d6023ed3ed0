"""Data sets of strangers: no program is started, nothing is read that is too large."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skymark.model.errors import DataError, SkymarkError
from skymark.suites.clip.datasets.choosing import chosen_set
from skymark.suites.clip.pixels.preprocessing import decoded
from skymark.suites.clip.reading import layout, samples
from skymark.suites.clip.reading.folder import folder_prompts, read_folder
from skymark.suites.clip.reading.opening import check_labels, check_same_classes, open_split
from skymark.suites.clip.reading.selection import read_winoground
from skymark.suites.clip.reading.tars import read_shards
from tests.clip.drawing import pictures
from tests.clip_fuzz import fuzz


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
    size = len(picture.file)
    monkeypatch.setattr(samples, "LARGEST_FILE_BYTES", size - 1)
    with pytest.raises(DataError, match=rf"0\.jpg .*{size:,} .*{size - 1:,}"):
        read_shards([shard(jpg=picture.file, cls=b"0")], "classification")
    (tmp_path / "test" / "a").mkdir(parents=True)
    (tmp_path / "test" / "a" / "0.jpg").write_bytes(picture.file)
    with pytest.raises(DataError, match=rf"0\.jpg .*{size:,} .*{size - 1:,}"):
        read_folder(tmp_path, "test")


def test_a_text_that_is_too_large_or_no_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "LARGEST_TEXT_BYTES", 10)
    (tmp_path / "classnames.txt").write_text("a" * 11)
    with pytest.raises(DataError, match="cannot read"):
        layout.prompts_of(tmp_path, "en")


def test_labels_that_are_an_archive_are_no_row(shard):
    archive = io.BytesIO()
    np.savez(archive, a=np.ones(3))
    with pytest.raises(DataError, match=r"0\.npy .*no row"):
        read_shards([shard(jpg=b"x", npy=archive.getvalue())], "multilabel")


def member(name, data=b"", kind=tarfile.REGTYPE, **attributes):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.pax_headers = len(data), kind, attributes
    return info, data


def write_set(place, *members, **texts):
    """Write a data set of one shard with these members, and files of texts by name."""
    (place / "test").mkdir(parents=True)
    with tarfile.open(place / "test" / "0.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    usual = {
        "test/nshards.txt": "1",
        "classnames.txt": "cat\ndog",
        "zeroshot_classification_templates.txt": "a {c}",
    }
    for name, text in {**usual, **texts}.items():
        (place / name).write_text(text)


def take(place, task="zeroshot_classification"):
    """Read a data set as a cell does, to the pixels; returns its samples."""
    planned = chosen_set(str(place), None, "test")
    opened = open_split(planned.source, "test", task, place.parent / "cache")
    check_labels(opened, 2)
    for number in range(len(opened.samples)):
        decoded(opened.samples.read(number), opened.samples.name_of(number))
    return opened.samples


PICTURE = pictures(1, seed=1)[0].file
SOUND = (member("a.jpg", PICTURE), member("a.cls", b"0"))
ONE_LINE = io.BytesIO()
Image.new("RGB", (1, 3000)).save(ONE_LINE, "PNG")
TEMPLATES = "zeroshot_classification_templates.txt"
CAPTIONED = (SOUND[0], member("a.txt", b"a" * 5000))
RETRIEVAL = {"dataset_type.txt": "retrieval"}
SETS = {
    "a member that leads out by an attribute": (
        (member("a.jpg", PICTURE, path="../../a.jpg"),),
        {},
        "leaves the directory",
    ),
    "an absolute name in an attribute": (
        (member("a.jpg", PICTURE, path="/etc/a.jpg"),),
        {},
        "leaves the directory",
    ),
    "a link": ((member("a.jpg", kind=tarfile.LNKTYPE),), {}, "leaves the directory"),
    "a size in an attribute": ((member("a.jpg", PICTURE, size="5"),), {}, "no whole tar"),
    "no number in an attribute": (
        (member("a.jpg", PICTURE, size="x"), *SOUND),
        {},
        "no whole tar",
    ),
    "a sparse member": ((member("a.jpg", PICTURE, **{"GNU.sparse.major": "1"}),), {}, "sparse"),
    "a FIFO alone": ((member("a.jpg", kind=tarfile.FIFOTYPE),), {}, "holds no sample"),
    "a name twice": ((*SOUND, SOUND[1]), {}, "twice"),
    "a label of many digits": ((SOUND[0], member("a.cls", b"9" * 5000)), {}, "no class number"),
    "a label with an underscore": ((SOUND[0], member("a.cls", b"1_0")), {}, "no class number"),
    "a label below 0": ((SOUND[0], member("a.cls", b"-1")), {}, "labels from -1"),
    "a label beyond the classes": ((SOUND[0], member("a.cls", b"7")), {}, "2 class names"),
    "an image of one line": ((member("a.png", ONE_LINE.getvalue()), SOUND[1]), {}, "are a line"),
    "no image": ((member("a.jpg", b"<svg/>"), SOUND[1]), {}, "cannot be decoded"),
    "a name that is no UTF-8": (
        (member("\udcff.jpg", PICTURE),),
        {},
        r"xff has no \.cls|udcff has no",
    ),
    "many places": (SOUND, {TEMPLATES: "{c}" * 40}, "40 times {c}"),
    "a long template": (
        SOUND,
        {TEMPLATES: "a {c} " * 9 + "and " * 30_000},
        "of 120,053 characters",
    ),
    "a long class name": (SOUND, {"classnames.txt": "c " * 60_000}, "is too long"),
    "a long word": (SOUND, {"classnames.txt": "c" * 2000}, "too long a word"),
    "a long caption": (CAPTIONED, RETRIEVAL, "too long; shorten"),
    "many prompts": (
        SOUND,
        {"classnames.txt": "c\n" * 30_000, TEMPLATES: "{c}\n" * 1000},
        "30,000,000 prompts",
    ),
    "a type that is none": (SOUND, {"dataset_type.txt": "\x1b[2J"}, "unknown type of data set"),
}


@pytest.mark.parametrize("case", SETS)
def test_a_hostile_set_is_refused_with_its_cause(case, tmp_path):
    members, texts, cause = SETS[case]
    write_set(tmp_path / "mine", *members, **texts)
    with pytest.raises(SkymarkError, match=cause):
        take(tmp_path / "mine")


def test_odd_sets_are_taken_whole(tmp_path):
    write_set(
        tmp_path / "mine",
        member("._a.jpg", b"\0\5\x16\7"),
        member("folder", kind=tarfile.DIRTYPE),
        *SOUND,
        member("b.jpg", PICTURE, comment="x" * 3000),
        member("b.cls", b"1\n"),
        **{"classnames.txt": "\ufeffcat\r\ndog\r\n", "test/nshards.txt": "\ufeff1\r\n"},
    )
    (tmp_path / "mine" / "test" / "._0.tar").write_bytes(b"\0\5\x16\7")
    assert take(tmp_path / "mine").labels == (0, 1)
    assert layout.prompts_of(tmp_path / "mine", "en").classes == ("cat", "dog")


@pytest.fixture
def folder(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "mine" / "test" / name).mkdir(parents=True)
        (tmp_path / "mine" / "test" / name / "0.jpg").write_bytes(PICTURE)
    return tmp_path / "mine"


def link(target):
    return lambda place: place.symlink_to(target)


PLACES = {
    "a link to its own folder": ("test/cat/loop", link("."), "read before"),
    "a link to the split": ("test/cat/loop", link(".."), "read before"),
    "a class that leads to the split": ("test/owl", link("."), "read before"),
    "a class that leads to the set": ("test/owl", link(".."), "read before"),
    "a link to itself": ("test/cat/1.jpg", link("1.jpg"), "cannot be read"),
    "a link to nothing": ("test/cat/1.jpg", link("absent"), "cannot be read"),
    "a link to a device": ("test/cat/1.jpg", link("/dev/zero"), "no regular file"),
    "a FIFO among the images": ("test/cat/1.jpg", os.mkfifo, "no regular file"),
    "a FIFO of class names": ("classnames.txt", os.mkfifo, "is a FIFO"),
    "a FIFO of templates": ("zeroshot_classification_templates.txt", os.mkfifo, "is missing"),
    "a folder of class names": ("classnames.txt", Path.mkdir, "is a directory"),
    "an empty image": ("test/cat/1.jpg", Path.touch, "has 0 bytes"),
    "an empty class": ("test/owl", Path.mkdir, "holds no image"),
    "a name that is no UTF-8": ("test/cat/\udcff.jpg", Path.touch, "no UTF-8; rename"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_hostile_folder_is_refused_with_its_cause(case, folder):
    name, make, cause = PLACES[case]
    make(folder / name)
    with pytest.raises(DataError, match=cause):
        take_folder(folder)


def take_folder(place):
    planned = chosen_set(str(place), None, "test")
    if planned.damaged:
        raise DataError(planned.damaged[0])
    opened = open_split(planned.source, "test", planned.task, place.parent / "cache")
    folder_prompts(place, "test", "en")
    return opened.samples


def test_what_is_no_image_of_a_class_is_left_out_and_told(folder):
    for name in ("test/cat/a.heic", "test/cat/b.HEIC", "test/dog/notes", "test/stray.jpg"):
        (folder / name).write_bytes(b"x")
    for name in ("test/.ipynb_checkpoints/a.jpg", "test/__MACOSX/b.jpg", "test/cat/._0.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "test" / "cat" / "more").mkdir()
    (folder / "test" / "cat" / "more" / "1.jpg").write_bytes(PICTURE)
    assert take_folder(folder).labels == (0, 0, 1)
    planned = chosen_set(str(folder), None, "test")
    taken = planned.taken
    assert (taken.taken, taken.found, taken.classes) == (3, 3, 2)
    left_out = [str(one).partition(" (")[0] for one in taken.left_out]
    assert left_out == ["2 .heic", "1 no extension", "1 in no class"]


def test_a_split_that_is_not_there_is_not_taken_for_a_folder_without_splits(folder):
    with pytest.raises(DataError, match=r"'train'.* test\b.*--train-split"):
        read_folder(folder, "train")


def test_labels_of_two_splits_are_of_the_same_folders(folder, tmp_path):
    shutil.copytree(folder / "test", folder / "train")
    (folder / "train" / "cat").rename(folder / "train" / "ant")
    source = chosen_set(str(folder), None, "test").source
    splits = [open_split(source, one, "linear_probe", tmp_path / "c") for one in ("test", "train")]
    with pytest.raises(DataError, match=r"\(ant, cat\)"):
        check_same_classes(splits)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "[]",
        '{"image_0": 1}',
        '{"image_0": "\\u0000"}',
        '{"image_0": "\\ud800"}',
        "[" * 9999,
    ],
)
def test_an_example_that_is_none_is_refused_or_left_out(line, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(PICTURE)
    whole = dict.fromkeys(("image_0", "image_1"), "a") | {"caption_0": "x", "caption_1": "y"}
    (tmp_path / "examples.jsonl").write_text(f"{json.dumps(whole)}\n{line or 'null'}\n")
    with pytest.raises(DataError, match="--skip-damaged"):
        read_winoground(tmp_path)
    taken = read_winoground(tmp_path, skip_damaged=True)
    assert (len(taken), len(taken.left_out)) == (2, 1)


def test_a_few_hundred_mutations_raise_no_foreign_error():
    said = []
    ends = fuzz(300, seed=1, say=said.append)
    assert said == []
    assert ends.keys() == {"taken", "refused"}
    assert min(ends.values()) > 30, "both happen"


def test_an_image_without_a_number_is_none_of_an_instance(shard):
    with pytest.raises(DataError, match="has no image"):
        read_shards([shard(left_jpg=b"x", txt=b"a caption")], "selection")
