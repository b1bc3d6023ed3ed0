"""Pixel maps: made once by many processes, verified, and made again where they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from skymark.model.errors import DataError, StorageFullError
from skymark.suites.clip.pixels import building
from skymark.suites.clip.pixels.building import ensure_map, map_directory, open_map
from skymark.suites.clip.pixels.preprocessing import decoded
from skymark.suites.clip.reading.opening import OpenedSplit, open_split
from skymark.suites.clip.specification import Source
from tests.clip.drawing import pictures
from tests.clip.shards import write_shards

COUNT = 24


class Small:
    """Preprocessing to 8 by 8 pixels, which needs no torch."""

    key = "small"
    shape = (3, 8, 8)
    dtype = "uint8"

    def pixels(self, data, name):
        image = decoded(data, name).resize((8, 8))
        return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


@pytest.fixture
def opened(tmp_path) -> OpenedSplit:
    for split, seed in (("test", 1), ("train", 2)):
        samples = [{"jpg": one.file, "cls": one.label_text} for one in pictures(COUNT, seed=seed)]
        write_shards(tmp_path / "shapes" / split, samples)
    return opened_split(tmp_path, "test")


def opened_split(tmp_path, split) -> OpenedSplit:
    address = str(tmp_path / "shapes")
    source = Source(name="shapes", kind="directory", address=address, layout="webdataset")
    return open_split(source, split, "zeroshot_classification", tmp_path / "cache")


def test_a_map_is_made_once(opened, tmp_path, monkeypatch):
    first = ensure_map(tmp_path, opened, Small())
    monkeypatch.setattr(building, "_build", None)
    again = ensure_map(tmp_path, opened, Small())
    assert np.array_equal(first.read(0, COUNT), again.read(0, COUNT))
    expected = Small().pixels(opened.samples.read(5), "it")
    assert np.array_equal(first.read(5, 6)[0], expected)


class Slow(Small):
    """Preprocessing that takes a known time per image, and at least that."""

    s_per_image = 0.01

    def pixels(self, data, name):
        time.sleep(self.s_per_image)
        return super().pixels(data, name)


def test_the_first_who_asks_gets_the_time_of_decoding(opened, tmp_path):
    begin = time.perf_counter_ns()
    made = ensure_map(tmp_path, opened, Slow())
    whole_ns = time.perf_counter_ns() - begin
    again = ensure_map(tmp_path, opened, Slow())
    threads = len(os.sched_getaffinity(0))
    assert COUNT / threads * Slow.s_per_image * 1e9 <= again.take_decode_ns() <= whole_ns
    assert made.take_decode_ns() is None


def test_the_time_of_another_machine_s_decoding_is_not_taken(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "this_machine", lambda: "another")
    assert ensure_map(tmp_path, opened, Small()).take_decode_ns() is None


def test_many_processes_make_it_once(opened, tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from skymark.suites.clip.pixels import building\n"
        "from skymark.suites.clip.reading.opening import OpenedSplit\n"
        "from tests.unit.suites.clip.pixels.test_building import Small\n"
        "opened = OpenedSplit.model_validate_json(Path(sys.argv[1]).read_text())\n"
        "build = building._build\n"
        "def counted(*arguments):\n"
        "    print('built')\n"
        "    build(*arguments)\n"
        "building._build = counted\n"
        "print(len(building.ensure_map(Path(sys.argv[2]), opened, Small())), 'images')\n"
    )
    file = tmp_path / "opened.json"
    file.write_text(opened.model_dump_json())
    command = [sys.executable, "-c", script, str(file), str(tmp_path)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        for _ in range(4)
    ]
    said = "".join(one.communicate()[0] for one in running)
    assert said.count("built") == 1
    assert said.count(f"{COUNT} images") == 4


def test_a_flipped_byte_is_noticed(opened, tmp_path):
    pixels = ensure_map(tmp_path, opened, Small())
    file = pixels.directory / "pixels.u8"
    data = bytearray(file.read_bytes())
    data[3 * 8 * 8 * 4 + 7] ^= 1
    file.write_bytes(data)
    found = ensure_map(tmp_path, opened, Small())
    found.read(0, 4)
    with pytest.raises(DataError, match=r"damaged .*image 4\b"):
        found.read(2, 8)


@pytest.mark.parametrize("damage", ["pixels.u8", "pixels.json"])
def test_a_map_that_is_cut_off_is_made_again(opened, tmp_path, damage):
    directory = ensure_map(tmp_path, opened, Small()).directory
    (directory / damage).write_bytes(b"{}")
    assert open_map(tmp_path, opened, Small()) is None
    assert len(ensure_map(tmp_path, opened, Small())) == COUNT


def test_what_a_killed_process_left_is_cleared_away(opened, tmp_path):
    directory = map_directory(tmp_path, opened, Small())
    part = directory.with_name(f".{directory.name}.part")
    part.mkdir(parents=True)
    (part / "pixels.u8").write_bytes(b"half")
    assert len(ensure_map(tmp_path, opened, Small())) == COUNT
    assert not part.exists()


def test_a_map_of_another_split_is_not_taken(opened, tmp_path):
    made = ensure_map(tmp_path, opened_split(tmp_path, "train"), Small()).directory
    made.rename(map_directory(tmp_path, opened, Small()))
    assert open_map(tmp_path, opened, Small()) is None


def test_a_full_disk_is_an_error_that_says_so(opened, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(building.os, "posix_fallocate", full)
    with pytest.raises(StorageFullError, match="disk is full"):
        ensure_map(tmp_path, opened, Small())
    assert not list((tmp_path / "clip" / "pixels").glob("*.part"))
