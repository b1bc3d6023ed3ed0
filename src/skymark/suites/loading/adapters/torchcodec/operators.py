"""Scenarios' work by torchcodec's decoders, and PyTorch's own operators on what they decode.

As its page of performance tips advises
(https://meta-pytorch.org/torchcodec/stable/generated_examples/decoding/performance_tips.html), all
frames of a clip are asked for at once, one thread decodes in each worker, and frames are sought by
the file's own index (``seek_mode="approximate"``), which is exact where the frame rate is constant.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from skymark.suites.loading.adapters.torchvision.operators import Operators, Tensors, view
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Parameters

OPERATORS: OperatorTable[Operators] = OperatorTable()


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


OPERATORS.register(Operators(clip), "CV-5")
OPERATORS.register(Operators(log_mel), "AU-1")
