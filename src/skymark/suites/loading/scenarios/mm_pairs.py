"""MM-1 and MM-2: image–text pairs, and audio–text pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset


@scenario
class ImageTextPairs(Scenario):
    """Preprocess images and tokenise captions as CLIP does.

    ``image`` float32 ``[S, S, 3]`` and ``text`` int32 ``[77]``: start, byte pairs, end, zeros.
    """

    id: ClassVar = "MM-1"
    title: ClassVar = "image–text pairs: CLIP preprocessing, tokens of length 77"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(
            elements=810, batch_size=16, values={"height": 160, "width": 200, "side": 96}
        ),
        "medium": Size(
            elements=5_000, batch_size=64, values={"height": 375, "width": 500, "side": 224}
        ),
        "large": Size(
            elements=50_000, batch_size=256, values={"height": 375, "width": 500, "side": 224}
        ),
    }
    images: ClassVar = ("image",)
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 1.0
    native_mean_tolerance: ClassVar = 0.03

    @property
    def columns(self) -> tuple[str, ...]:
        """An image and its caption."""
        return ("jpeg", "caption")

    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``jpeg`` and ``caption`` (UTF-8), ragged uint8."""
        from skymark.suites.loading.dataset.pairs import write_image_text

        size = self.size
        return write_image_text(directory, size.elements, size["height"], size["width"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; shortest side to S, bicubic; centre; normalise; tokenise the caption."""
        from PIL.Image import Resampling

        from skymark.suites.loading.transforms import crops, images
        from skymark.suites.loading.transforms.field import on
        from skymark.suites.loading.transforms.text import tokenise_bytes

        side = self.size["side"]
        wrong_sizes = {
            "bilinear, not bicubic": on(
                "image", lambda image: crops.resize_shortest(image, side, Resampling.BILINEAR)
            ),
            "the nearest pixel, not bicubic": on(
                "image", lambda image: crops.resize_shortest(image, side, Resampling.NEAREST)
            ),
            "both sides are resized, the aspect ratio is lost": on(
                "image", lambda image: image.resize((side, side), Resampling.BICUBIC)
            ),
        }
        wrong_places = {
            "the corner is cut out, not the centre": on(
                "image", lambda image: crops.crop_corner(image, side)
            ),
            "the square is one pixel too low and too far right": on(
                "image", lambda image: crops.crop_centre(image, side, off=1)
            ),
            "the square is one pixel too high and too far left": on(
                "image", lambda image: crops.crop_centre(image, side, off=-1)
            ),
        }
        wrong_figures = {
            "ImageNet's mean and deviation, not CLIP's": on("image", images.normalised),
            "pixels are scaled to 0…1 but mean and deviation are not applied": on(
                "image", images.scaled
            ),
        }
        bare = on("caption", lambda data: tokenise_bytes(data, delimited=False), into="text")
        return (
            Stage("decode", images.decode),
            Stage(
                "resize",
                on("image", lambda image: crops.resize_shortest(image, side)),
                wrong_sizes,
            ),
            Stage("crop", on("image", lambda image: crops.crop_centre(image, side)), wrong_places),
            Stage("normalise", on("image", crops.normalised), wrong_figures),
            Stage(
                "tokenise",
                on("caption", tokenise_bytes, into="text"),
                {"start and end tokens are missing": bare},
            ),
        )


@scenario
class AudioTextPairs(Scenario):
    """Turn sounds into log-mel spectrograms and tokenise their transcripts.

    ``mel`` float32 ``[80, T]``, one column per 10 ms, and ``text`` int32 ``[77]``.
    """

    id: ClassVar = "MM-2"
    title: ClassVar = "audio–text pairs: log-mel spectrogram, tokens"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=410, batch_size=8, values={"seconds": 2.0}),
        "medium": Size(elements=2_096, batch_size=32, values={"seconds": 10.0}),
        "large": Size(elements=10_000, batch_size=64, values={"seconds": 10.0}),
    }
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    in_double: ClassVar = True
    version: ClassVar = 2

    @property
    def columns(self) -> tuple[str, ...]:
        """A sound and its transcript."""
        return ("wav", "transcript")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``wav`` (PCM, 16 bits, 16 kHz) and ``transcript`` (UTF-8), ragged uint8."""
        from skymark.suites.loading.dataset.pairs import write_audio_text

        return write_audio_text(directory, self.size.elements, self.size["seconds"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode; fit to length; power spectrogram; mel bands; logarithm; tokenise."""
        from skymark.suites.loading.transforms import audio
        from skymark.suites.loading.transforms.field import on
        from skymark.suites.loading.transforms.log_mel import log_mel_stages
        from skymark.suites.loading.transforms.text import tokenise_bytes

        length = int(self.size["seconds"] * audio.SAMPLE_RATE)
        in_front = on("mel", lambda samples: audio.fit_behind(samples, length))
        bare = on("transcript", lambda data: tokenise_bytes(data, delimited=False), into="text")
        return (
            Stage("decode", on("wav", audio.decode_wav, into="mel")),
            Stage(
                "fit",
                on("mel", lambda samples: audio.fit(samples, length)),
                {"silence is padded in front, not behind": in_front},
            ),
            *log_mel_stages("mel"),
            Stage(
                "tokenise",
                on("transcript", tokenise_bytes, into="text"),
                {"start and end tokens are missing": bare},
            ),
        )
