"""MM-1 and MM-2: image–text pairs, and audio–text pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.work import Stage, Work, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset


@scenario
class ImageTextPairs(Scenario):
    """Preprocess images and tokenise captions as CLIP does (Radford et al., 2021).

    ``image`` float32 ``[S, S, 3]`` and ``text`` int32 ``[77]``: start, byte pairs, end, zeros. The
    byte pairs are learned from a fixed list of words, so that nothing is downloaded; the work per
    caption is that of CLIP's tokenizer. Verdicts name bilinear resizing, a lost aspect ratio, a
    corner crop, ImageNet's mean and deviation, and missing delimiters.
    """

    id: ClassVar = "MM-1"
    codec: ClassVar = "JPEG"
    title: ClassVar = "image–text pairs: CLIP preprocessing, tokens of length 77"
    variants: ClassVar = three_sizes(
        elements=(810, 5_000, 50_000),
        batch_size=(16, 64, 256),
        height=(160, 375, 375),
        width=(200, 500, 500),
        side=(96, 224, 224),
    )
    images: ClassVar = ("image",)
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 1.0
    # Of the 810 small images FFmpeg's bicubic filter differs by 0.033 from Pillow's in the worst;
    # Pillow's bilinear filter differs by 0.040 in the worst of 200.
    native_mean_tolerance: ClassVar = 0.035
    columns: ClassVar = ("jpeg", "caption")
    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``jpeg`` and ``caption`` (UTF-8), ragged uint8.

        Photographs as in CV-1, with English captions of about ten words.
        """
        from skymark.suites.loading.dataset.images import write_image_text

        size = self.size
        return write_image_text(directory, size.elements, size["height"], size["width"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; shortest side to S, bicubic; centre; normalise; tokenise the caption."""
        from PIL.Image import Resampling

        from skymark.suites.loading.transforms import images
        from skymark.suites.loading.transforms.text import tokenise_stage

        side = self.size["side"]

        def resize(method: Resampling = Resampling.BICUBIC) -> Work:
            return on("image", lambda image: images.resize_shortest(image, side, method))

        def crop(off: int = 0) -> Work:
            return on("image", lambda image: images.crop_centre(image, side, off))

        squeezed = on("image", lambda image: image.resize((side, side), Resampling.BICUBIC))
        wrong_sizes = {
            "bilinear, not bicubic": resize(Resampling.BILINEAR),
            "the nearest pixel, not bicubic": resize(Resampling.NEAREST),
            "both sides are resized, the aspect ratio is lost": squeezed,
        }
        corner = on("image", lambda image: image.crop((0, 0, side, side)))
        wrong_places = {
            "the corner is cut out, not the centre": corner,
            "the square is one pixel too low and too far right": crop(off=1),
            "the square is one pixel too high and too far left": crop(off=-1),
        }
        wrong_figures = {
            "ImageNet's mean and deviation, not CLIP's": on("image", images.normalised),
            images.ONLY_SCALED: on("image", images.scaled),
        }
        normalise = on("image", lambda image: images.normalised(image, images.CLIP))
        return (
            Stage("decode", images.decode),
            Stage("resize", resize(), wrong_sizes),
            Stage("crop", crop(), wrong_places),
            Stage("normalise", normalise, wrong_figures),
            tokenise_stage("caption"),
        )


@scenario
class AudioTextPairs(Scenario):
    """Turn sounds into log-mel spectrograms and tokenise their transcripts.

    ``mel`` float32 ``[80, T]``, one column per 10 ms (T is 198 for 2 s and 998 for 10 s), and
    ``text`` int32 ``[77]`` as in MM-1. Windows are Hann's, of 25 ms. The 80 bands follow Slaney's
    scale (1998). The logarithm is decimal, cut off at 1e-10. Verdicts name padding in front, HTK's
    scale, the natural logarithm, and missing delimiters.
    """

    id: ClassVar = "MM-2"
    title: ClassVar = "audio–text pairs: log-mel spectrogram, tokens"
    variants: ClassVar = three_sizes(
        elements=(410, 2_096, 10_000),
        batch_size=(8, 32, 64),
        seconds=(2.0, 10.0, 10.0),
    )
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    in_double: ClassVar = True
    version: ClassVar = 2

    columns: ClassVar = ("wav", "transcript")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``wav`` (PCM, 16 bits, 16 kHz) and ``transcript`` (UTF-8), ragged uint8.

        Sounds last half to all of ``seconds``, with voiced and unvoiced stretches as in speech.
        """
        from skymark.suites.loading.dataset.sounds import write_audio_text

        return write_audio_text(directory, self.size.elements, self.size["seconds"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode; fit to length; power spectrogram; mel bands; logarithm; tokenise."""
        from skymark.suites.loading.transforms import audio
        from skymark.suites.loading.transforms.text import tokenise_stage

        length = int(self.size["seconds"] * audio.SAMPLE_RATE)
        in_front = on("mel", lambda samples: audio.fit_behind(samples, length))
        return (
            Stage("decode", on("wav", audio.decode_wav, into="mel")),
            Stage(
                "fit",
                on("mel", lambda samples: audio.fit(samples, length)),
                {"silence is padded in front, not behind": in_front},
            ),
            *audio.log_mel_stages("mel"),
            tokenise_stage("transcript"),
        )
