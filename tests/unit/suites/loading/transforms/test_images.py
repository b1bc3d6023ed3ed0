"""Decoding whatever image people have, and the arithmetic of normalising."""

from __future__ import annotations

import io
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.values import image_height, image_width, jpeg
from skymark.suites.loading.transforms.images import (
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    decode,
    decode_rgb,
    flipped,
    normalised,
    resize_box,
)
from tests.image_modes import LOSSY, MODES, REFUSED


def encoded(image: Image.Image, kind: str = "JPEG") -> np.ndarray:
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=95)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def picture(mode: str = "RGB") -> Image.Image:
    ramp = np.add.outer(np.arange(40), 2 * np.arange(60)).astype(np.uint8)
    return Image.fromarray(np.stack([ramp, ramp[::-1], 255 - ramp], axis=-1)).convert(mode)


@pytest.mark.parametrize("name", MODES)
def test_an_image_of_any_mode_becomes_the_rgb_that_it_stands_for(name: str) -> None:
    mode = MODES[name]
    file = mode.file(1)
    wanted = mode.pixels(1).astype(int)

    apart = np.abs(np.asarray(decode_rgb(jpeg(file, name), 0)).astype(int) - wanted)

    assert apart.mean() < LOSSY if mode.lossy else apart.max() == 0
    assert (image_height(file, name), image_width(file, name)) == wanted.shape[:2]


@pytest.mark.parametrize("name", REFUSED)
def test_an_image_without_8_bit_rgb_is_an_error_that_says_what_to_do(name: str) -> None:
    with pytest.raises(DataError, match=r" a\.x .*\(.+\).* remove\b"):
        jpeg(REFUSED[name](1), "a.x")


@pytest.mark.parametrize("name", MODES)
def test_a_damaged_image_is_an_error_that_names_it_or_an_image(name: str) -> None:
    """Of all errors that Pillow raises no other one is seen; the fuzz session tries more."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    whole = np.frombuffer(MODES[name].file(1), np.uint8)
    said: list[str] = []
    for _ in range(12):
        damaged = whole.copy()
        places = random.integers(0, min(len(whole), 200), random.integers(1, 4))
        damaged[places] = random.integers(0, 256, len(places))
        if random.random() < 0.3:
            damaged = damaged[: random.integers(1, len(whole))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own, about what it makes of it
            try:
                jpeg(damaged.tobytes(), "a.x")
            except DataError as error:
                said.append(str(error))
    assert all(" a.x cannot be" in message for message in said)


def test_a_truncated_jpeg_is_an_error_that_names_the_element_and_what_to_do() -> None:
    data = encoded(picture())

    with pytest.raises(DataError, match=r"element 17\b.* remove\b"):
        decode_rgb(data[: len(data) // 2], 17)


def test_bytes_that_are_no_image_are_an_error_that_names_the_element() -> None:
    with pytest.raises(DataError, match="element 3 "):
        decode_rgb(np.frombuffer(b"<html>not found</html>", np.uint8), 3)


def test_decoding_drops_the_columns_that_only_describe_the_file() -> None:
    element = {"index": 1, "jpeg": encoded(picture()), "height": 40, "width": 60, "label": 4}

    assert set(decode(element, {})) == {"index", "label", "image"}


def test_a_box_is_top_left_height_width() -> None:
    cut = resize_box(picture(), (10, 20, 16, 16), 16)

    assert np.array_equal(np.asarray(cut), np.asarray(picture())[10:26, 20:36])


def test_pixels_outside_the_box_have_no_weight() -> None:
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[16:48, 16:48] = 255

    assert np.asarray(resize_box(Image.fromarray(pixels), (16, 16, 32, 32), 8)).min() == 255


def test_flipping_mirrors_left_to_right() -> None:
    assert np.array_equal(np.asarray(flipped(picture())), np.asarray(picture())[:, ::-1])


def test_normalising_is_imagenets() -> None:
    pixels = np.array([[[0, 128, 255]]], np.uint8)

    expected = (pixels / 255 - IMAGENET_MEAN) / IMAGENET_DEVIATION

    assert normalised(pixels).dtype == np.float32
    assert np.abs(normalised(pixels) - expected).max() < 1e-6
