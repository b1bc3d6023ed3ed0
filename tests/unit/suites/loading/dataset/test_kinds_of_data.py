"""Everything in a user's data is taken or named: the kinds of data, and the right answer of each.

A row of a table is one input, and the sentence or the refusal that it must give.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import struct
import tarfile
import wave
from datetime import datetime, timedelta
from fractions import Fraction

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from skymark.model.errors import DataError
from skymark.suites.loading.cells import specification_of
from skymark.suites.loading.dataset.importing import RealData, import_data
from skymark.suites.loading.registry import scenario_class
from skymark.suites.loading.scenario import Scenario


def jpeg(seed: int = 0, kind: str = "JPEG") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def fill(folder, files: dict[str, bytes | str]):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def tar(members, **options) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def labelled(numbers, prefix: str = ""):
    for number in numbers:
        yield f"{prefix}{number:04d}.jpg", jpeg(number)
        yield f"{prefix}{number:04d}.cls", str(number % 4).encode()


def parquet(**columns) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def answer(data, scenario: str, *, skip_damaged: bool = False, size: str = "small") -> str:
    """Plan and import as a run does; return the sentence, or the refusal."""
    cls: type[Scenario] = scenario_class(scenario)
    try:
        real = RealData(str(data), skip_damaged=skip_damaged)
        specified = specification_of(cls, size, 7, real)
        bound = cls(size=specified.specification.size, seed=7)
        out = data.parent / f"{data.name}-{scenario}"
        import_data(str(data), bound, out, skip_damaged=skip_damaged)
    except DataError as error:
        return str(error)
    assert specified.data is not None
    assert specified.data.name == str(data)
    return specified.data.sentence.removeprefix(f"{data}: ")


IMAGES = {f"{k % 3}/{k}.jpg": jpeg(k) for k in range(30)}
SPLITS = {
    f"{split}/{k % 2}/{k}.jpg": jpeg(k)
    for split, n in (("train", 9), ("test", 5))
    for k in range(n)
}
META = "".join(json.dumps({"file_name": f"{k}.jpg", "label": k % 7}) + "\n" for k in range(15))
FOLDERS = {
    "plain": (IMAGES, "30 of 30 images, 3 classes"),
    "of one class": ({f"{k}.jpg": jpeg(k) for k in range(9)}, "9 of 9 images, 1 class"),
    "other media": (
        {**IMAGES, "0/a.HEIC": "x", "0/b.avif": "x", "1/c.wav": "x", "2/d.part": "x"},
        r" 1 \.avif .* 1 \.heic .* 1 \.part .* 1 \.wav",
    ),
    "jfif and jpe": ({**IMAGES, "0/x.jfif": jpeg(), "0/x.JPE": jpeg()}, "31 of 32 images"),
    "hidden": ({**IMAGES, "0/._0.jpg": "x", ".DS_Store": "x"}, "3 classes; .*2 hidden"),
    "beside the classes": (
        {**IMAGES, "cover.png": jpeg(0, "PNG")},
        "3 classes; .*1 beside",
    ),
    "mostly sounds": (
        {"cover.png": jpeg(0, "PNG"), **{f"a/{k}.wav": "RIFF" for k in range(3)}},
        "no field .*image",
    ),
    "splits": (SPLITS, "9 of 9 images, 2 classes, split train; .*5 of split test"),
    "splits below a folder": (
        {f"set/{name}": data for name, data in SPLITS.items()},
        "9 of 9 images, 2 classes, split train; .*5 of split test",
    ),
    "one split": (
        {f"train/{name}": data for name, data in IMAGES.items()},
        "30 of 30 images, 3 classes",
    ),
    "a class named as a split": (
        {f"{name}/{k}.jpg": jpeg(k) for name in ("car", "train") for k in range(5)},
        "10 of 10 images, 2 classes",
    ),
    "nested classes": (
        {f"{one}/{k}.jpg": jpeg(k) for one in ("cat/a", "cat/b", "dog/c") for k in range(3)},
        "9 of 9 images, 2 classes",
    ),
    "metadata": (
        {**{f"{k}.jpg": jpeg(k) for k in range(17)}, "metadata.jsonl": META},
        "15 of 15 images, 7 classes; .*2 .*metadata",
    ),
    "metadata in CSV": (
        {
            **{f"{k}.jpg": jpeg(k) for k in range(5)},
            "metadata.csv": "file_name,label\n" + "".join(f"{k}.jpg,{k % 3}\n" for k in range(5)),
        },
        "5 of 5 images, 3 classes",
    ),
    "metadata of a missing file": (
        {"0.jpg": jpeg(), "metadata.jsonl": META},
        r"no .*/1\.jpg, .*metadata",
    ),
    "more than the variant": (
        {f"{k}.jpg": jpeg(k % 5) for k in range(900)},
        "810 of 900 images, 1 class; .*90 beyond",
    ),
    "whole batches": (
        {f"{k}.jpg": jpeg(k) for k in range(16)},
        "15 of 16 images, 1 class; .*1 .*last batch",
    ),
    "PNG named as JPEG": ({**IMAGES, "0/x.JPEG": jpeg(0, "PNG")}, "31 of 31 images"),
    "a page named as JPEG": ({**IMAGES, "0/x.jpg": "<html>"}, r"x\.jpg .*no image .*<html>"),
    "cut JPEG": ({**IMAGES, "0/x.jpg": jpeg()[:-99]}, r"0/x\.jpg .*truncated JPEG"),
    "cut PNG": ({**IMAGES, "0/x.png": jpeg(0, "PNG")[:-99]}, r"0/x\.png .*truncated PNG"),
    "JPEG with a clip behind it": ({**IMAGES, "0/x.jpg": jpeg() + b"clip" * 2000}, "31 of 31"),
    "cut JPEG with a thumbnail": (
        {**IMAGES, "0/x.jpg": jpeg()[:20] + b"\xff\xd9" * 3 + b"x" * 9000},
        r"0/x\.jpg .*truncated JPEG",
    ),
    "archive of images": ({"photos.zip": b"PK"}, "unpack it, and give a folder"),
    "empty file": ({**IMAGES, "0/x.jpg": b""}, r"0/x\.jpg .*no image .*b''"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_images_is_taken_whole_or_named(tmp_path, name):
    files, expected = FOLDERS[name]
    assert re.search(expected, answer(fill(tmp_path / "in", files), "CV-1"))


def test_another_split_is_taken_where_it_is_asked_for(tmp_path):
    fill(tmp_path / "in", SPLITS)
    data = f"{tmp_path}/in:test"
    assert RealData(data).source.count(99) == 5
    with pytest.raises(DataError, match=r" train, test, .*'val'"):
        RealData(f"{tmp_path}/in:val")


def test_links_that_lead_nowhere_are_damaged_images(tmp_path):
    folder = fill(tmp_path / "in", IMAGES)
    (folder / "0" / "x.jpg").symlink_to("/nonexistent/x.jpg")
    assert re.search(r"x\.jpg .*leads nowhere", answer(folder, "CV-1"))
    assert answer(folder, "CV-1", skip_damaged=True).endswith(": 1 damaged")


DAMAGED = {"page": b"<html>", "cut": jpeg()[:-99], "empty": b"", "PNG": jpeg(0, "PNG")[:-70]}


def test_damaged_elements_are_left_out_and_counted_where_that_is_asked_for(tmp_path):
    files = {f"1/{name}.jpg": data for name, data in DAMAGED.items()}
    folder = fill(tmp_path / "in", {**IMAGES, **files})
    said = answer(folder, "CV-1", skip_damaged=True)
    assert re.match(r"30\D+34 images\D+3 classes\b", said)
    assert said.endswith(": 4 damaged")


WHOLE = tar(labelled(range(40)))
with tarfile.open(fileobj=io.BytesIO(WHOLE)) as archive:
    HEADERS = [member.offset for member in archive]
FLIPPED = bytearray(WHOLE)
FLIPPED[HEADERS[20] + 150] ^= 0x15
SHARDS = {
    "whole": ({"a.tar": WHOLE}, "40 of 40 images, 4 classes"),
    "flipped byte in a header": ({"a.tar": bytes(FLIPPED)}, r"a\.tar .*damaged"),
    "cut in a header": ({"a.tar": WHOLE[: HEADERS[20] + 200]}, "cut off .*header"),
    "cut in a member": ({"a.tar": WHOLE[: HEADERS[20] + 700]}, r"a\.tar .*no whole tar"),
    "cut between members": ({"a.tar": WHOLE[: HEADERS[20]]}, "end marker"),
    "joined": ({"a.tar": WHOLE + WHOLE}, "more data follows"),
    "joined, compressed": ({"a.tar.gz": gzip.compress(WHOLE + WHOLE)}, "more data follows"),
    "compressed": ({"a.tar.gz": gzip.compress(WHOLE)}, "40 of 40 images"),
    "compressed and cut": ({"a.tar.gz": gzip.compress(WHOLE)[:-9]}, r"a\.tar\.gz .*no whole tar"),
    "empty file": ({"a.tar": WHOLE, "b.tar": b""}, r"b\.tar .*no whole tar"),
    "empty shard first": ({"a.tar": tar([]), "b.tar": WHOLE}, "40 of 40 images"),
    "unsorted": (
        {"a.tar": tar(sorted(labelled(range(9)), key=lambda member: member[0][-3:]))},
        "two places; .*--sort=name",
    ),
    "appended again": ({"a.tar": tar([*labelled(range(9)), *labelled(range(9))])}, "in two places"),
    "of macOS": (
        {"a.tar": tar([("._0000.jpg", b"x"), *labelled(range(9)), ("__MACOSX/0.jpg", b"x")])},
        "9 of 9 images, 4 classes; .*2 .*macOS",
    ),
    "dots in folders": ({"a.tar": tar(labelled(range(9), "v1.2/"))}, "9 of 9 images"),
    "dots before the extension": (
        {"a.tar": tar([(f"a.{k}.jpg", jpeg(k)) for k in range(3)])},
        r"first dot of a\.0\.jpg, .*rename",
    ),
    "more members than the first": (
        {
            "a.tar": tar(
                [
                    *labelled(range(9)),
                    ("0009.jpg", jpeg()),
                    ("0009.cls", b"1"),
                    ("0009.crop.jpg", jpeg()),
                ]
            )
        },
        r"10 of 10 images, 4 classes; .*1 \.crop\.jpg ",
    ),
    "no label": (
        {"a.tar": tar([("0.jpg", jpeg()), ("0.txt", b"a dog")])},
        "no labels",
    ),
    "splits": (
        {"train-0.tar": WHOLE, "val-0.tar": WHOLE},
        "40 of 40 images, 4 classes, split train; .*1 of split validation",
    ),
    "huge size": (
        {"a.tar": WHOLE[:124] + b"\x80" + b"\xff" * 11 + WHOLE[136:]},
        r"a\.tar .*no whole tar",
    ),
}


@pytest.mark.parametrize("name", SHARDS)
def test_a_shard_is_taken_whole_or_refused(tmp_path, name):
    files, expected = SHARDS[name]
    assert re.search(expected, answer(fill(tmp_path / "in", files), "CV-1"))


LINES = "".join(json.dumps({"text": f"row {k}", "label": k % 3}) + "\n" for k in range(30))
ROWS = [json.loads(line) for line in LINES.splitlines()]
ZSTD = pa.compress(LINES.encode(), "zstd").to_pybytes()
CHAT = "".join(
    json.dumps({"messages": [{"role": "user", "content": "hi"}], "label": k % 2}) + "\n"
    for k in range(9)
)
TEXTS = {
    "lines": ({"a.jsonl": LINES}, "30 of 30 rows, 3 classes"),
    "byte order mark": ({"a.jsonl": b"\xef\xbb\xbf" + LINES.encode()}, "30 of 30 rows"),
    "gzip": ({"a.jsonl.gz": gzip.compress(LINES.encode())}, "30 of 30 rows"),
    "bzip2": ({"a.jsonl.bz2": bz2.compress(LINES.encode())}, "30 of 30 rows"),
    "xz": ({"a.jsonl.xz": lzma.compress(LINES.encode())}, "30 of 30 rows"),
    "zstd": ({"a.jsonl.zst": ZSTD}, "30 of 30 rows"),
    "plain and compressed": (
        {"a.jsonl": LINES, "b.jsonl.gz": gzip.compress(LINES.encode())},
        "60 of 60 rows",
    ),
    "gzip, cut": (
        {"a.jsonl.gz": gzip.compress(LINES.encode())[:-9]},
        r"a\.jsonl\.gz .*no whole compressed",
    ),
    "zstd, cut": ({"a.jsonl.zst": ZSTD[:-5]}, r"a\.jsonl\.zst cannot"),
    "no zstd": ({"a.jsonl": LINES, "b.jsonl.zst": b"x"}, r"b\.jsonl\.zst cannot"),
    "cut in a line": ({"a.jsonl": LINES[:-9]}, r"a\.jsonl:30 .*no JSON"),
    "array": ({"a.json": json.dumps(ROWS)}, "30 of 30 rows, 3 classes"),
    "array, cut": ({"a.json": json.dumps(ROWS)[:-2]}, r"a\.json .*no JSON"),
    "lines in .json": ({"a.json": LINES}, "30 of 30 rows"),
    "description beside": ({"a.jsonl": LINES, "info.json": "{}", "LICENSE.txt": "x"}, "30 of 30"),
    "chat": ({"a.jsonl": CHAT}, "9 of 9 rows, 2 classes"),
    "null": ({"a.jsonl": LINES + '{"text": null, "label": 0}'}, r"a\.jsonl:31 .*missing;"),
    "number": ({"a.jsonl": LINES + '{"text": 42, "label": 0}'}, r"a\.jsonl:31 .*int 42;"),
    "UTF-16": ({"a.jsonl": LINES.encode("utf-16")}, r"a\.jsonl .*no UTF-8"),
    "mixed labels": (
        {"a.jsonl": LINES + '{"text": "x", "label": "two"}'},
        "31 of 31 rows, 4 classes",
    ),
    "splits": (
        {"train.jsonl": LINES, "test.jsonl": LINES},
        "30 of 30 rows, 3 classes, split train; .*1 of split test",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_taken_whole_or_refused(tmp_path, name):
    files, expected = TEXTS[name]
    assert re.search(expected, answer(fill(tmp_path / "in", files), "NLP-2"))


NUMBERS = {"a": [float(k) for k in range(9)], "label": [k % 2 for k in range(9)]}
WHEN = [datetime(2026, 1, 1) + timedelta(seconds=k) for k in range(9)]  # noqa: DTZ001
TABLES = {
    "plain": (parquet(**NUMBERS), "9 of 9 rows, 2 classes"),
    "index of pandas": (
        parquet(**NUMBERS, __index_level_0__=list(range(9))),
        " 1 column __index_level_0__ ",
    ),
    "dates": (parquet(**NUMBERS, when=WHEN), "9 of 9 rows"),
    "missing": (parquet(**{**NUMBERS, "b": [*range(8), None]}), "'b' of"),
    "not a number": (parquet(**NUMBERS, b=[*[1.0] * 8, float("nan")]), "'b' of"),
    "infinite": (parquet(**NUMBERS, b=[*[1.0] * 8, float("inf")]), "'b' of"),
    "names": (parquet(**NUMBERS, b=list("abcabcabc")), "'a', .*number"),
    "files": (parquet(**NUMBERS, b=[b"\xff\xd8JFIF" * 99] * 9), "'b' of"),
    "files in structures": (parquet(**NUMBERS, b=[{"bytes": b"\x00" * 9}] * 9), "'b' of"),
    "labels like numbers": (
        parquet(a=NUMBERS["a"], label=["01", "1", "1.0"] * 3),
        "9 of 9 rows, 3 classes",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_taken_whole_or_refused(tmp_path, name):
    content, expected = TABLES[name]
    said = answer(fill(tmp_path / "in", {"a.parquet": content}), "TAB-1")
    assert re.search(expected, said)
    assert "\\x" not in said


CSV = {
    "commas": ("a,b,label\n1,2,0\n3,4,1\n", "2 of 2 rows"),
    "semicolons": ("a;b;label\n1;2;0\n3;4;1\n", "2 of 2 rows"),
    "spaces": ("a, b, label\n1, 2, 0\n3, 4, 1\n", "2 of 2 rows"),
    "index of pandas": (",a,label\n0,1,0\n1,3,1\n", " 1 column without"),
    "two of one name": ("a,a,label\n1,2,0\n", "columns named 'a'"),
    "decimal commas": ("a;label\n1,5;0\n", "'1,5', .*number"),
}


def test_compressed_separated_values_are_read(tmp_path):
    content = gzip.compress(CSV["semicolons"][0].encode())
    said = answer(fill(tmp_path / "in", {"a.csv.gz": content}), "TAB-1")
    assert re.fullmatch(r"2\D+2 rows\D+2 classes", said)


@pytest.mark.parametrize("name", CSV)
def test_separated_values_are_taken_whole_or_refused(tmp_path, name):
    content, expected = CSV[name]
    assert re.search(expected, answer(fill(tmp_path / "in", {"a.csv": content}), "TAB-1"))


def test_differences_of_times_survive_single_precision(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(
        pa.table({"a": [1_700_000_000 + k for k in range(9)], "label": [0] * 9}),
        folder / "a.parquet",
    )
    cls = scenario_class("TAB-1")
    size = specification_of(cls, "small", 7, RealData(str(folder))).specification.size
    bound = cls(size=size, seed=7)
    dataset = import_data(str(folder), bound, tmp_path / "out")
    found = [float(bound.transform(dataset[k], 0)["features"][0]) for k in range(9)]
    assert np.diff(found) == pytest.approx([0.3873] * 8, abs=1e-3)


def sound(seconds: float = 0.4, rate: int = 16_000) -> np.ndarray:
    return (np.sin(np.arange(int(seconds * rate)) * 0.05) * 9000).astype("<i2")


def wav(samples: bytes, rate: int = 16_000, width: int = 2, channels: int = 1) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples)
    return buffer.getvalue()


def encoded(codec: str, container: str, layout: str = "mono", sample: str = "s16") -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        stream = file.add_stream(codec, rate=16_000, layout=layout)
        frame = av.AudioFrame.from_ndarray(sound()[None], format="s16", layout="mono")
        frame.sample_rate = 16_000
        for piece in av.AudioResampler(sample, layout, 16_000).resample(frame):
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))
    return buffer.getvalue()


WAV = wav(sound().tobytes())
PIPED = WAV[:4] + b"\xff" * 4 + WAV[8:40] + b"\xff" * 4 + WAV[44:]
FLAC, OGG = encoded("flac", "flac"), encoded("libopus", "ogg")
ONE, ENDS_EARLY = "1 of 1 sounds", "a.{}: the sound"
SOUNDS = {
    "wav": ("wav", WAV, ONE),
    "24 bits": ("wav", wav(b"\1\2\3" * 6400, width=3), ONE),
    "stereo": ("wav", wav(sound().repeat(2).tobytes(), channels=2), ONE),
    "8 kHz": ("wav", wav(sound(rate=8000).tobytes(), 8000), ONE),
    "44.1 kHz": ("wav", wav(sound(rate=44_100).tobytes(), 44_100), ONE),
    "piped": ("wav", PIPED, ONE),
    "cut": ("wav", WAV[:-900], ENDS_EARLY),
    "cut at 44.1 kHz": ("wav", wav(sound(rate=44_100).tobytes(), 44_100)[:-900], ENDS_EARLY),
    "flac": ("flac", FLAC, ONE),
    "flac, cut": ("flac", FLAC[: len(FLAC) // 2], ENDS_EARLY),
    "flac of two channels": ("flac", encoded("flac", "flac", "stereo"), ONE),
    "flac without a length": (
        "flac",
        FLAC[:21] + bytes([FLAC[21] & 0xF0, 0, 0, 0, 0]) + FLAC[26:],
        ONE,
    ),
    "opus": ("ogg", OGG, ONE),
    "opus, cut": ("ogg", OGG[:-500], ENDS_EARLY),
    "mp3": ("mp3", encoded("libmp3lame", "mp3", sample="s16p"), ONE),
    "m4a": ("m4a", encoded("aac", "mp4", sample="fltp"), ONE),
    "aac": ("aac", encoded("aac", "adts", sample="fltp"), ONE),
    "aiff": ("aiff", encoded("pcm_s16be", "aiff"), ONE),
    "no sound": ("mp3", b"<html>", "no format"),
    "float": (
        "wav",
        b"RIFF"
        + struct.pack("<I", 36 + 25_600)
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 3, 1, 16_000, 64_000, 4, 32)
        + b"data"
        + struct.pack("<I", 25_600)
        + (sound() / 32768).astype("<f4").tobytes(),
        ONE,
    ),
}


@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_is_taken_whole_or_refused(tmp_path, name):
    suffix, content, expected = SOUNDS[name]
    said = answer(fill(tmp_path / "in", {f"0/a.{suffix}": content}), "AU-1", size="tiny")
    assert expected.format(suffix) in said


def clip(container: str, codec: str = "libx264", times: str = "constant") -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        stream = file.add_stream(codec, rate=Fraction(25))
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        for number in range(12):
            frame = av.VideoFrame.from_ndarray(np.full((72, 64), number, "u1"), format="yuv420p")
            frame.pts = number * number if times == "varying" else number
            frame.time_base = Fraction(1, 25)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return buffer.getvalue()


CLIPS = {
    "mp4": ("mp4", clip("mp4"), "1 of 1 clips"),
    "mov": ("mov", clip("mov"), "1 of 1 clips"),
    "mkv": ("mkv", clip("matroska"), "1 of 1 clips"),
    "avi": ("avi", clip("avi", "mpeg4"), "1 of 1 clips"),
    "webm": ("webm", clip("webm", "libvpx-vp9"), "1 of 1 clips"),
    "m4v": ("m4v", clip("mp4"), "1 of 1 clips"),
    "mpg": ("mpg", clip("mpeg", "mpeg1video"), "1 of 1 clips"),
    "varying rate": ("mp4", clip("mp4", times="varying"), "no constant rate"),
    "cut": ("mp4", clip("mp4")[:-300], "a.mp4: the clip"),
    "no clip": ("mkv", b"<html>", "no container"),
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_is_taken_whole_or_refused(tmp_path, name):
    suffix, content, expected = CLIPS[name]
    said = answer(fill(tmp_path / "in", {f"0/a.{suffix}": content}), "CV-5", size="tiny")
    assert expected in said


def test_labels_beyond_the_classes_widen_the_mixture(tmp_path):
    content = parquet(image=[jpeg(k) for k in range(9)], label=[1000 + k % 3 for k in range(9)])
    folder = fill(tmp_path / "in", {"a.parquet": content})
    size = specification_of(scenario_class("CV-3"), "small", 7, RealData(str(folder)))
    assert size.specification.size["classes"] == 1003
    negative = parquet(image=[jpeg()] * 9, label=[-1] * 9)
    folder = fill(tmp_path / "minus", {"a.parquet": negative})
    assert "number them from 0" in answer(folder, "CV-3")
