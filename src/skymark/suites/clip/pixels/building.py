"""Building of a pixel map: the first process of a machine decodes and resizes the images."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np

from skymark.cache.building import build_once
from skymark.leases import this_machine
from skymark.model.errors import DataError
from skymark.plain_files import explained, write_whole
from skymark.suites.clip.pixels.preprocessing import (
    DATA_FILE,
    DECODING_FILE,
    INDEX_FILE,
    Decoding,
    MapIndex,
    PixelMap,
    Pixels,
    Preprocessing,
)
from skymark.suites.clip.reading.opening import OpenedSplit
from skymark.suites.clip.reading.samples import Samples


def map_directory(cache: Path, opened: OpenedSplit, preprocessing: Preprocessing) -> Path:
    """Return the directory of a split's pixels; readers also check the content."""
    name = f"{opened.slug}-{opened.identity[:16]}-{preprocessing.key[:16]}"
    return cache / "clip" / "pixels" / name


def open_map(cache: Path, opened: OpenedSplit, preprocessing: Preprocessing) -> PixelMap | None:
    """Return a split's pixels; None if they are missing, cut off, or of another split."""
    return read_map(map_directory(cache, opened, preprocessing), opened, preprocessing)


def read_map(directory: Path, opened: OpenedSplit, preprocessing: Preprocessing) -> PixelMap | None:
    """Return the pixels in a directory; None if they are damaged or of another split."""
    try:
        index = MapIndex.model_validate_json((directory / INDEX_FILE).read_bytes())
        size = (directory / DATA_FILE).stat().st_size
    except (OSError, ValueError):
        return None
    expected = (len(opened.samples), *preprocessing.shape)
    fits = (index.split, index.preprocessing, index.shape, index.dtype) == (
        opened.identity,
        preprocessing.key,
        expected,
        preprocessing.dtype,
    )
    counts = len(opened.samples), bytes_of(opened, preprocessing)
    if not fits or (len(index.checksums), size) != counts:
        return None
    return PixelMap(directory, index)


def bytes_of(opened: OpenedSplit, preprocessing: Preprocessing) -> int:
    """Return the bytes of a split's pixels."""
    size = np.dtype(preprocessing.dtype).itemsize
    return len(opened.samples) * int(np.prod(preprocessing.shape)) * size


def ensure_map(cache: Path, opened: OpenedSplit, preprocessing: Preprocessing) -> PixelMap:
    """Return a split's pixels; makes them if no process has.

    Raises:
        DataError: an image cannot be decoded.
        StorageFullError: the disk has no room.
    """
    directory = map_directory(cache, opened, preprocessing)
    if found := open_map(cache, opened, preprocessing):
        return found

    def make(part: Path) -> None:
        with explained(part):
            _build(part, opened, preprocessing)

    build_once(
        directory,
        make,
        is_whole=lambda place: read_map(place, opened, preprocessing) is not None,
        needed_bytes=bytes_of(opened, preprocessing),
    )
    built = open_map(cache, opened, preprocessing)
    if built is None:
        raise DataError(f"{directory} cannot be read back; is the disk sound?")
    return built


def _build(directory: Path, opened: OpenedSplit, preprocessing: Preprocessing) -> None:
    begin = time.perf_counter_ns()
    shape = (len(opened.samples), *preprocessing.shape)
    pixels = np.memmap(directory / DATA_FILE, preprocessing.dtype, mode="w+", shape=shape)
    _reserve(directory / DATA_FILE, pixels.nbytes)
    checksums: list[int] = []
    for number, image in enumerate(_decoded(opened.samples, preprocessing)):
        pixels[number] = image
        checksums.append(zlib.crc32(image.data))
    pixels.flush()
    decoding = Decoding(machine=this_machine(), time_ns=time.perf_counter_ns() - begin)
    write_whole(directory / DECODING_FILE, decoding.model_dump_json().encode(), durable=False)
    index = MapIndex(
        split=opened.identity,
        preprocessing=preprocessing.key,
        shape=shape,
        checksums=tuple(checksums),
        dtype=preprocessing.dtype,
    )
    write_whole(directory / INDEX_FILE, index.model_dump_json().encode(), durable=False)


def _reserve(file: Path, size: int) -> None:
    """Reserve the disk space: writing to a map on a full disk would kill the process."""
    with file.open("r+b") as opened:
        os.posix_fallocate(opened.fileno(), 0, size)


def _decoded(samples: Samples, preprocessing: Preprocessing) -> Iterator[Pixels]:
    """Yield the pixels of all images in order; threads decode ahead, as Pillow releases the GIL."""
    threads = max(1, len(os.sched_getaffinity(0)))
    ahead = 4 * threads
    work = iter(range(len(samples)))

    def one(number: int) -> Pixels:
        return preprocessing.pixels(samples.read(number), samples.name_of(number))

    with ThreadPoolExecutor(threads, "decoding") as pool:
        waiting = [pool.submit(one, number) for number in islice(work, ahead)]
        try:
            while waiting:
                image = waiting.pop(0).result()
                waiting += [pool.submit(one, number) for number in islice(work, 1)]
                yield image
        finally:
            for future in waiting:
                future.cancel()
