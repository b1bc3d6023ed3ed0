"""Pixels kept as 8-bit integers are those of open_clip's transform, and shared safely."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from skymark.model.errors import DataError  # noqa: E402
from skymark.suites.clip.encoding.encoder import WARM_UP, Encoder, Settings  # noqa: E402
from skymark.suites.clip.encoding.loading import load_model  # noqa: E402
from skymark.suites.clip.pixels.preprocessing import Preprocessing  # noqa: E402
from tests.clip.conftest import Bench  # noqa: E402
from tests.clip.drawing import pictures  # noqa: E402
from tests.clip.shards import write_shards  # noqa: E402

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SETTINGS = {
    "size": 40,
    "mode": "RGB",
    "mean": MEAN,
    "std": STD,
    "interpolation": "bicubic",
    "resize_mode": "shortest",
    "fill_color": 0,
}


@pytest.fixture(scope="module")
def loaded(made):
    return load_model(Bench(made, made / "cache").model(), torch.device("cpu"), 0)


def encoded(mode: str, kind: str, size=(61, 47)) -> bytes:
    values = np.random.default_rng(4).integers(0, 255, (size[1], size[0], 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(values).convert(mode).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"interpolation": "bilinear"},
        {"resize_mode": "squash"},
        {"resize_mode": "longest", "fill_color": 127},
        {"size": (40, 56)},
        {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)},
    ],
)
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("RGB", "JPEG"),
        ("L", "JPEG"),
        ("CMYK", "JPEG"),
        ("P", "PNG"),
        ("RGBA", "PNG"),
        ("RGB", "WEBP"),
    ],
)
def test_8_bit_pixels_give_the_tensor_of_open_clips_transform(loaded, changed, mode, kind):
    preprocessing = Preprocessing.of({**SETTINGS, **changed})
    data = encoded(mode, kind)
    pixels = preprocessing.pixels(data, "it")
    assert pixels.shape == preprocessing.shape
    settings = Settings("fp32", 1, compile=False, channels_last=False, drop_text_tail=True)
    encoder = Encoder(replace(loaded, preprocessing=preprocessing), settings)
    tensor = encoder.image_tensor(torch.from_numpy(pixels)[None])[0]
    assert torch.equal(tensor, preprocessing.reference(data, "it"))


class Grey:
    """Pixels of many images, without a file."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self.count, self.shape = count, shape

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.full((min(stop, self.count) - start, *self.shape), 128, np.uint8)


def test_a_few_images_and_texts_warm_an_encoder_on_a_cpu_once(loaded, monkeypatch):
    settings = Settings("fp32", 16, compile=False, channels_last=False, drop_text_tail=True)
    encoder, texts = Encoder(loaded, settings), []
    monkeypatch.setattr(encoder, "texts", texts.extend)
    for count in (40, 41):
        images = Grey(count, loaded.preprocessing.shape)
        encoder.warm([images], [f"a {number}" for number in range(count)])
    assert (encoder.work.image_batches, len(texts)) == ([WARM_UP], WARM_UP)


def test_pixels_depend_on_what_comes_before_the_tensor_and_on_nothing_else():
    usual = Preprocessing.of(SETTINGS).key
    assert Preprocessing.of({**SETTINGS, "mean": (0.5, 0.5, 0.5)}).key == usual
    for name, value in (("size", 48), ("interpolation", "bilinear"), ("resize_mode", "squash")):
        assert Preprocessing.of({**SETTINGS, name: value}).key != usual


def test_an_image_that_cannot_be_decoded_is_named(bench, tmp_path):
    place = tmp_path / "broken"
    drawn = [one.file for one in pictures(5, seed=2)]
    drawn[3] = drawn[3][:200]
    write_shards(place / "test", [{"jpg": file, "cls": b"0"} for file in drawn])
    (place / "classnames.txt").write_text("one\n")
    (place / "zeroshot_classification_templates.txt").write_text("{c}\n")
    with pytest.raises(DataError, match=r"image \d\b.*\.tar\b"):
        bench.result(address=place)
    pixels = bench.cache / "clip" / "pixels"
    assert not list(pixels.glob("*/pixels.json"))
    assert not list(pixels.glob(".*.part"))


def test_pixels_that_changed_on_disk_are_no_result(bench):
    bench.result()
    (file,) = (bench.cache / "clip" / "pixels").glob("*/pixels.u8")
    with file.open("r+b") as opened:
        opened.seek(12345)
        byte = opened.read(1)
        opened.seek(12345)
        opened.write(bytes([byte[0] ^ 1]))
    with pytest.raises(DataError, match=rf"{re.escape(str(file.parent))} .*\b4\b"):
        bench.result()
