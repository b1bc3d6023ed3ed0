"""AU-1: compressed sounds as speech models are trained on them, a random stretch of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.work import Parameters, Stage, Work, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class CompressedAudio(Scenario):
    """Decode FLAC, cut a random stretch out and make its log-mel: ``mel`` float32 ``[80, T]``.

    T is 98 for a crop of 1 s and 798 for 8 s. The spectrogram is MM-2's. FLAC loses
    nothing, so every decoder gives the same samples. Verdicts name a stretch at the beginning, in
    the middle, one sample off or at a multiple of 10 ms, and samples that were not scaled.
    """

    id: ClassVar = "AU-1"
    codec: ClassVar = "FLAC"
    title: ClassVar = "compressed audio: decode FLAC, random crop, log-mel spectrogram"
    variants: ClassVar = three_sizes(
        elements=(410, 2_096, 10_000),
        batch_size=(8, 32, 64),
        seconds=(2.0, 16.0, 16.0),
        crop=(1.0, 8.0, 8.0),
        classes=(10, 100, 1000),
    )
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    in_double: ClassVar = True
    native_tolerance: ClassVar = 0.013
    native_mean_tolerance: ClassVar = 3e-4
    """In decimal logarithms. Measured on 200 sounds of both lengths, at most and by the mean of the
    worst: PyTorch's transform and filters differ by 0.0063 and 0.00013, where bands are all but
    silent. A crop one sample too late differs by 0.005 on average."""
    columns: ClassVar = ("flac", "label")

    @property
    def length(self) -> int:
        """Samples of a crop."""
        from skymark.suites.loading.transforms.audio import SAMPLE_RATE

        return int(self.size["crop"] * SAMPLE_RATE)

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``flac`` (16 bits, 16 kHz, one channel), ragged uint8, and ``label`` int64.

        Sounds like speech last half to all of ``seconds``, as in MM-2.
        """
        from skymark.suites.loading.dataset.sounds import write_compressed_sounds

        size = self.size
        return write_compressed_sounds(directory, size.elements, size["seconds"], size["classes"])

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``start`` float64 ``[n]``: the crop's first sample, as a share of the free ones."""
        from skymark.suites.loading.random import uniforms

        return {"start": uniforms(self.seed, epoch, indices, 1)[:, 0]}

    def stages(self) -> tuple[Stage, ...]:
        """Decode; cut the drawn stretch out; power spectrogram; mel bands; logarithm."""
        from skymark.suites.loading.transforms import audio

        length = self.length

        def crop(
            cut: Callable[..., Array] = audio.stretch, share: float | None = None, **by: int
        ) -> Work:
            def apply(element: Element, parameters: Parameters) -> Element:
                start: Any = parameters["start"] if share is None else share
                return {**element, "mel": cut(element["mel"], float(start), length, **by)}

            return apply

        unscaled = on("flac", audio.unscaled_flac, into="mel")
        wrong_stretches = {
            "the sound's beginning is cut out, not the drawn stretch": crop(share=0.0),
            "the sound's middle is cut out, not the drawn stretch": crop(share=0.5),
            "the stretch begins one sample too late": crop(later=1),
            "the stretch begins one sample too early": crop(later=-1),
            "the stretch begins at a multiple of 10 ms": crop(audio.stretch_from_hop),
        }
        return (
            Stage(
                "decode",
                on("flac", audio.decode_flac, into="mel"),
                {"samples are not scaled to -1…1": unscaled},
            ),
            Stage("crop", crop(), wrong_stretches),
            *audio.log_mel_stages("mel"),
        )
