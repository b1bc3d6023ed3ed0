"""Synthetic photographs have the spectrum and the size that make decoding cost what it does."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from skymark.suites.loading.dataset.images import (
    LUMA_FALLOFF,
    drawn_cut,
    photograph,
    textures,
    write_images,
)


def test_amplitude_falls_with_frequency_as_in_photographs() -> None:
    random = np.random.default_rng(0)
    pool = textures(random, 512)
    cuts = [drawn_cut(random, pool, 256, 256) for _ in range(12)]
    pixels = [np.asarray(photograph(pool, cut))[..., 0] for cut in cuts]
    window = np.outer(np.hanning(256), np.hanning(256))
    amplitude = np.mean(
        [np.abs(np.fft.fft2((image - image.mean()) * window)) for image in pixels], axis=0
    )
    frequency = np.hypot(np.fft.fftfreq(256)[:, None], np.fft.fftfreq(256)[None, :])
    middle = (frequency > 0.02) & (frequency < 0.3)

    slope = np.polyfit(np.log(frequency[middle]), np.log(amplitude[middle]), 1)[0]

    assert abs(-slope - LUMA_FALLOFF) < 0.15


def test_an_image_takes_as_many_bits_as_a_photograph(tmp_path: Path) -> None:
    dataset = write_images(tmp_path / "set", 24, height=160, width=200, classes=10)

    bits = sum(8 * len(element["jpeg"]) for element in dataset)
    pixels = sum(int(element["height"]) * int(element["width"]) for element in dataset)

    # Noise of the same quality takes 7.4 bits per pixel, a flat image 0.3.
    assert 2 < bits / pixels < 5


def test_columns_say_the_size_of_the_decoded_image(tmp_path: Path) -> None:
    dataset = write_images(tmp_path / "set", 24, height=60, width=80, classes=10)

    for element in dataset:
        image = Image.open(io.BytesIO(element["jpeg"]))
        assert image.size == (element["width"], element["height"])
        assert element["height"].dtype == np.int32
        assert element["label"].dtype == np.int64
        assert 0 <= element["label"] < 10
    assert len({(int(e["height"]), int(e["width"])) for e in dataset}) > 12


def test_every_eighth_image_is_large(tmp_path: Path) -> None:
    dataset = write_images(tmp_path / "set", 24, height=60, width=80, classes=10)

    areas = [int(element["height"]) * int(element["width"]) for element in dataset]

    assert {place for place, area in enumerate(areas) if area > 2 * 60 * 80} == {7, 15, 23}


def test_the_same_data_come_out_every_time(tmp_path: Path) -> None:
    first, second = (
        write_images(tmp_path / name, 9, height=60, width=80, classes=10) for name in "ab"
    )

    for one, other in zip(first, second, strict=True):
        assert bytes(one["jpeg"]) == bytes(other["jpeg"])
        assert one["label"] == other["label"]
