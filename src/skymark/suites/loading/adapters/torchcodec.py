"""TorchCodec: a DataLoader whose workers decode video and audio with torchcodec.

The adapter `pytorch` gives loader, sampler and workers. The functions behind
`torchvision.transforms.v2`, and PyTorch's own, transform the decoded frames and samples. As the
guide advises, the adapter asks for all frames of a clip at once and decodes with one thread per
worker. It seeks by the file's own index (``seek_mode="approximate"``), which is exact at a constant
frame rate. FFmpeg's shared libraries must be on the machine, because the wheel lacks them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapter import adapter
from skymark.suites.loading.adapters.pytorch import ByIndex
from skymark.suites.loading.adapters.torchvision import (
    OperatedElements,
    Operators,
    Tensors,
    Torchvision,
    view,
)
from skymark.suites.loading.devices import TORCH, TORCH_FOR_CUDA12
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.work import Parameters

OPERATORS = OperatorTable(Operators)


@OPERATORS.work("CV-5")
def clip(scenario: Any, element: Element, parameters: Parameters) -> Tensors:
    """Decode the drawn frames of a clip; crop, flip and normalise all alike by torchvision."""
    from torchcodec.decoders import VideoDecoder

    from skymark.suites.loading.transforms.video import sampled_frames

    size = scenario.size
    decoder = VideoDecoder(bytes(element["mp4"]), num_ffmpeg_threads=1, seek_mode="approximate")
    start = float(parameters["start"])
    numbers = sampled_frames(start, len(decoder), size["frames"], size["stride"])
    frames = decoder.get_frames_at(list(numbers)).data
    clip = view(frames, parameters, size["side"])
    return {"index": element["index"], "label": element["label"], "clip": clip}


@OPERATORS.work("AU-1")
def log_mel(scenario: Any, element: Element, parameters: Parameters) -> Tensors:
    """Decode the drawn stretch of a sound; make its log-mel spectrogram by PyTorch."""
    import torch
    from torchcodec.decoders import AudioDecoder

    from skymark.suites.loading.transforms import audio
    from skymark.suites.loading.transforms.crops import window_start

    rate = audio.SAMPLE_RATE
    decoder = AudioDecoder(bytes(element["flac"]))
    whole = round(decoder.metadata.duration_seconds_from_header * rate)
    begin = window_start(float(parameters["start"]), whole, scenario.length)
    end = begin + scenario.length
    samples = decoder.get_samples_played_in_range(begin / rate, end / rate).data[0]
    window, filters = _window_and_filters()
    spectrum = torch.stft(
        samples, audio.FRAME, audio.HOP, window=window, center=False, return_complex=True
    )
    bands = filters @ torch.view_as_real(spectrum).square().sum(dim=-1)
    mel = bands.clamp(min=audio.FLOOR).log10()
    return {"index": element["index"], "label": element["label"], "mel": mel}


@cache
def _window_and_filters() -> tuple[Any, Any]:
    import torch

    from skymark.suites.loading.transforms import audio

    triangles = audio.filters(audio.slaney_mel, audio.slaney_hertz)
    return torch.hann_window(audio.FRAME), torch.from_numpy(triangles.T.astype("float32"))


class Media(OperatedElements):
    """Elements that torchcodec has decoded."""

    operators: ClassVar = OPERATORS


@adapter
class TorchCodec(ByIndex):
    """`torch.utils.data.DataLoader` over `torchcodec.decoders`."""

    slug: ClassVar = "torchcodec"
    name: ClassVar = "PyTorch with torchcodec"
    distribution: ClassVar = "torchcodec"
    imports: ClassVar = "torchcodec.decoders"
    requirements: ClassVar = ("torch", "torchcodec", "torchvision", "pyarrow")
    homepage: ClassVar = "https://meta-pytorch.org/torchcodec"
    guide: ClassVar = (
        "https://meta-pytorch.org/torchcodec/stable/generated_examples/decoding/"
        "performance_tips.html"
    )
    elements: ClassVar = Media
    abilities: ClassVar = Torchvision.abilities
    formats: ClassVar = Torchvision.formats
    acceleration: ClassVar = replace(
        TORCH,
        builds={"cuda12": (TORCH_FOR_CUDA12, "torchcodec<0.11")},  # made for that torch
    )
    native: ClassVar = frozenset(OPERATORS)
    native_only: ClassVar = (
        "it decodes video and audio; torchvision does images, and pytorch the rest"
    )

    @classmethod
    def import_library(cls) -> None:
        """Import torchcodec, and see whether it found FFmpeg."""
        try:
            super().import_library()
            from torchcodec import ffmpeg_major_version
        except RuntimeError as error:  # Releases for CUDA 12 do not import without FFmpeg.
            if "libtorchcodec" not in str(error):
                raise
            ffmpeg_major_version = None
        if ffmpeg_major_version is None:
            raise LibraryAbsentError(
                "torchcodec found no shared libraries of FFmpeg, which its wheel does not bring; "
                "run: apt-get install --no-install-recommends ffmpeg"
            )
