"""Images: synthetic photographs as JPEG, and the kinds of images in real data.

The amplitude of natural images falls about as 1/f (Field, "Relations between the statistics of
natural images and the response properties of cortical cells", JOSA A 4, 1987), and their chroma
varies less and more slowly than their luma. Such images compress and decode at the cost of
photographs; noise would not.

Adapters list the kinds that their library's own decoder decodes like the reference
(`skymark.suites.loading.adapter.Adapter.undecoded`). Data without a note is all plain JPEG.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from skymark.image_formats import image_kind, opened_image
from skymark.machine.children import die_with
from skymark.model.errors import DataError
from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.text import PAIRS_SEED, captions

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.sources.data_source import DataSource


GENERATOR_SEED = 20_240_608
JPEG_QUALITY = 90
LUMA_FALLOFF = 1.2
"""Mean exponent of 1/f over photographs (Tolhurst, Tadmor and Chao, "Amplitude spectra of natural
images", Ophthalmic and Physiological Optics 12, 1992)."""
CHROMA_FALLOFF = 1.7
TEXTURES = 8
"""Periodic pictures that elements are cut from, at a place, in a mixture and light of their own."""


class Large(NamedTuple):
    """Some images that are larger than the others."""

    every: int
    times: float
    """Length of their sides."""


LARGE = Large(8, 2.0)
"""As some in every collection of photographs. A crop of a large one is often twice as large as what
is made of it, so that a decoder that scales shows."""
AT_ONCE = 128
"""Images that a process makes before it hands them over."""
LUMA_DEVIATION = 50.0
CHROMA_DEVIATION = 14.0
"""In 8-bit levels."""

Texture = npt.NDArray[np.float32]
"""``[side, side, 3]`` luma, blue and red difference; each of zero mean and unit deviation."""


def textures(random: np.random.Generator, side: int, count: int = TEXTURES) -> list[Texture]:
    """Make periodic pictures whose amplitude falls with frequency as that of photographs."""
    vertical = np.fft.fftfreq(side)[:, None]
    frequency = np.hypot(vertical, np.fft.rfftfreq(side)[None, :])
    frequency[0, 0] = np.inf
    made = []
    for _ in range(count):
        channels = []
        for falloff in (LUMA_FALLOFF, CHROMA_FALLOFF, CHROMA_FALLOFF):
            phase = np.exp(2j * np.pi * random.random(frequency.shape))
            channel = np.fft.irfft2(phase / frequency**falloff, s=(side, side))
            channels.append((channel / channel.std()).astype(np.float32))
        made.append(np.stack(channels, axis=-1))
    return made


class Cut(NamedTuple):
    """A picture to be cut out of the mixture of two textures."""

    height: int
    width: int
    share: float
    """Weight of the first texture in the mixture, before both are scaled to a deviation of 1."""
    textures: tuple[int, int]
    places: tuple[tuple[int, int], tuple[int, int]]
    """The row and the column in each texture at which it begins."""
    light: float
    """Deviation of the luma, in 8-bit levels."""
    middle: float
    """Mean of the luma."""


def drawn_cut(random: np.random.Generator, pool: list[Texture], height: int, width: int) -> Cut:
    """Draw a picture of a size."""
    share = random.uniform(0.2, 0.8)
    first, second = (int(number) for number in random.choice(len(pool), 2, replace=False))
    sides = len(pool[first]), len(pool[second])
    places = [(int(random.integers(side)), int(random.integers(side))) for side in sides]
    light = random.uniform(0.6, 1.2) * LUMA_DEVIATION
    middle = random.uniform(90, 150)
    return Cut(height, width, share, (first, second), (places[0], places[1]), light, middle)


def photograph(pool: list[Texture], cut: Cut) -> Image.Image:
    """Cut one picture out of the mixture of two textures, which go on beyond their edges.

    Returns:
        a Pillow image in mode YCbCr, which JPEG stores without conversion.
    """
    share = cut.share
    weights = np.array([share, 1 - share]) / np.hypot(share, 1 - share)
    mixed = np.zeros((cut.height, cut.width, 3), np.float32)
    for number, place, weight in zip(cut.textures, cut.places, weights, strict=True):
        texture = pool[number]
        rows, columns = (
            (start + np.arange(size)) % len(texture)
            for start, size in zip(place, (cut.height, cut.width), strict=True)
        )
        mixed += np.float32(weight) * texture[rows[:, None], columns]
    mixed *= np.array([cut.light, CHROMA_DEVIATION, CHROMA_DEVIATION], np.float32)
    mixed += np.array([cut.middle, 128, 128], np.float32)
    pixels = mixed.clip(0, 255).astype(np.uint8).tobytes()
    return Image.frombytes("YCbCr", (cut.width, cut.height), pixels)


def jpeg_bytes(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Encode an image as a JPEG file of `JPEG_QUALITY`, uint8 ``[length]``."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def photographs(
    random: np.random.Generator, count: int, height: int, width: int, large: Large = LARGE
) -> tuple[Iterator[npt.NDArray[np.uint8]], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Make JPEG files whose sides vary by a quarter about the given ones; some are large.

    Returns:
        The files, each uint8 ``[length]`` and made when asked for, and their heights and widths,
        int32 ``[count]``.
    """
    largest = int(1.25 * max(height, width)) + 1
    pool = textures(random, side=1 << (largest - 1).bit_length())
    times = np.where(np.arange(count) % large.every == large.every - 1, large.times, 1.0)
    heights, widths = (
        np.rint(side * times * random.uniform(0.75, 1.25, count)).astype(np.int32)
        for side in (height, width)
    )
    sizes = zip(heights, widths, strict=True)
    cuts = (drawn_cut(random, pool, int(h), int(w)) for h, w in sizes)
    return _files(pool, cuts, count), heights, widths


def _files(pool: list[Texture], cuts: Iterator[Cut], count: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the JPEG files of cuts, made by a process on each core where they are many."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if cores == 1 or count < 2 * AT_ONCE:
        yield from (jpeg_bytes(photograph(pool, cut)) for cut in cuts)
        return
    # Forks, so that they have the textures; they use nothing but NumPy and Pillow.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, context, _begin, (os.getpid(), pool)) as forks:
        chunks = iter(lambda: list(islice(cuts, AT_ONCE)), [])
        for files in forks.map(_files_of, chunks):
            yield from files


_TEXTURES: list[Texture] = []
"""The textures that a process cuts from."""


def _begin(parent: int, textures: list[Texture]) -> None:
    die_with(parent)
    _TEXTURES.extend(textures)


def _files_of(cuts: Sequence[Cut]) -> list[npt.NDArray[np.uint8]]:
    return [jpeg_bytes(photograph(_TEXTURES, cut)) for cut in cuts]


def write_images(  # a size has these
    directory: Path, elements: int, height: int, width: int, classes: int, large: Large = LARGE
) -> Dataset:
    """Write JPEG images whose sides vary by a quarter about the given ones; some are large.

    Columns: ``jpeg`` (uint8, ragged), ``height`` and ``width`` int32 of the image, ``label`` int64.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    files, heights, widths = photographs(random, elements, height, width, large)
    return write_dataset(
        directory,
        "synthetic photographs",
        {
            "jpeg": files,
            "height": heights,
            "width": widths,
            "label": random.integers(classes, size=elements),
        },
        {"jpeg": "jpeg"},
    )


def write_image_text(directory: Path, elements: int, height: int, width: int) -> Dataset:
    """Write columns ``jpeg`` and ``caption``, both ragged uint8, the caption in UTF-8."""
    random = np.random.Generator(np.random.PCG64(PAIRS_SEED))
    files, _, _ = photographs(random, elements, height, width)
    return write_dataset(
        directory,
        "photographs with captions",
        {"jpeg": files, "caption": captions(random, elements)},
        {"jpeg": "jpeg", "caption": "utf8"},
    )


LOOKED_AT = 1_000
LOOKED_AT_BYTES = 128 << 20
"""Images and bytes of them that planning looks at: a second. The import looks at all."""


def kind_of(data: Any, what: str) -> str:
    """Return the kind of an encoded image, of which only the header is read.

    Raises:
        DataError: it is no image.
    """
    with opened_image(data, what) as image:
        return image_kind(image)


def kinds_seen(source: DataSource, field: str, rows: int) -> frozenset[str]:
    """Return the kinds of the images in a source's first rows, of `LOOKED_AT` at most.

    Damaged ones are left to the import.
    """
    kinds: set[str] = set()
    left = LOOKED_AT_BYTES
    for row in source.read((field,), min(rows, LOOKED_AT)):
        if row.damage is None and isinstance(value := row.values[0], bytes):
            with suppress(DataError):
                kinds.add(kind_of(value, row.place))
            left -= len(value)
        if left < 0:
            break
    return frozenset(kinds)


def note_kinds(directory: Path) -> None:
    """Write the kinds of all images into a canonical dataset's ``meta.json``."""
    from skymark.suites.loading.dataset.canonical import Dataset

    dataset = Dataset(directory)
    columns = [column.name for column in dataset.columns if column.encoding == "jpeg"]
    kinds = {
        kind_of(element[column], f"element {element['index']}")
        for element in (dataset if columns else ())
        for column in columns
    }
    path = directory / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"images": sorted(kinds)}, indent=1))
