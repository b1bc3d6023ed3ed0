"""Video clips: chosen frames decoded by FFmpeg, and the same work on all of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter
from PIL import Image

from skymark.model.errors import DataError
from skymark.suites.loading.transforms.crops import window_start

if TYPE_CHECKING:
    from skymark.suites.loading.transforms.images import Crop
    from skymark.suites.loading.work import Parameters


Frames = npt.NDArray[np.uint8]
"""``[frames, height, width, 3]``, red, green, blue."""

PIXEL_FORMATS = frozenset({"yuv420p", "yuvj420p"})
"""Pixel formats of a user's own clips, in FFmpeg's names: 8 bits, 4:2:0, as usual in cameras."""

_CONVERT = "ffmpeg -i CLIP -vf fps=25,format=yuv420p -c:v libx264 -an NEW.mp4"
_UNREADABLE = "the clip is no MP4 file that can be decoded ({}); convert it to one"

FROM_KEY_FRAME = "the frames begin at the key frame before the drawn one"
"""The mistake of `decode_frames` with ``from_key_frame``, in an oracle's words."""


def decode_frames(
    data: Any, chosen: Callable[[int], Sequence[int]], *, from_key_frame: bool = False
) -> Frames:
    """Decode the chosen frames of an MP4 file to 8-bit RGB, in the order given.

    Decoding begins at the last key frame up to the first chosen frame.

    Args:
        data: the file's bytes, or uint8 ``[length]``.
        chosen: returns the frames' numbers, given the number of frames in the file.
        from_key_frame: whether to count the chosen frames from that key frame on, as if the seek
            had reached the first one (a mistake the oracle recognises).

    Raises:
        DataError: the bytes are no such file, or frames are missing.
    """
    try:
        with av.open(io.BytesIO(memoryview(data)), "r", format="mp4") as file:
            video = file.streams.video[0]
            # Worker processes decode side by side, one thread each.
            video.codec_context.thread_count = 1
            numbers = list(chosen(video.frames))
            return _decoded(file, video, numbers, from_key_frame=from_key_frame)
    except av.FFmpegError as error:
        raise DataError(_UNREADABLE.format(error)) from error


def check_clip(data: bytes) -> None:
    """Decode a whole clip, and require that each frame is found by its number and shown upright.

    Raises:
        DataError: it is no MP4 file of `PIXEL_FORMATS`, upright and at a constant rate.
    """
    try:
        with av.open(io.BytesIO(data), "r", format="mp4") as file:
            video = next(iter(file.streams.video), None)
            if video is None or not video.average_rate:
                raise DataError("the clip has no whole video; copy the file again or remove it")
            ticks, count = _ticks(video), video.frames
            shown = [(frame.pts, frame.format.name, frame.rotation) for frame in file.decode(video)]
    except (av.FFmpegError, UnicodeDecodeError, ValueError) as error:
        raise DataError(_UNREADABLE.format(error)) from error
    times = [pts for pts, *_ in shown if pts is not None]
    if len(times) != len(shown) or len(shown) != count:
        raise DataError(
            f"the clip has {len(shown)} frames where its header has {count}; copy it again, or "
            f"convert it: {_CONVERT}"
        )
    if not shown or [round(pts / ticks) for pts in times] != list(range(count)):
        raise DataError(
            "the clip's frames come at no constant rate, or the first is not at the beginning; "
            f"convert it: {_CONVERT}"
        )
    if other := {format for _, format, _ in shown} - PIXEL_FORMATS:
        raise DataError(
            f"the clip's frames are {other.pop()}, where yuv420p is needed; convert it: {_CONVERT}"
        )
    if any(rotation for *_, rotation in shown):
        raise DataError(f"the clip is to be turned when it is shown; convert it: {_CONVERT}")


CONTAINERS = {
    b"\x1aE\xdf\xa3": "matroska",
    b"RIFF": "avi",
    b"\0\0\1\xba": "mpeg",
}
"""FFmpeg's names of further containers of clips, by the first bytes of a file."""


def as_mp4(data: bytes) -> bytes:
    """Return a clip in an MP4 file: unchanged, or its frames moved from another container.

    Raises:
        DataError: the container is unknown, or MP4 cannot hold its frames.
    """
    if data[4:8] in _BOXES:
        return data
    format = next((name for start, name in CONTAINERS.items() if data.startswith(start)), None)
    if format is None:
        raise DataError(
            f"the clip is in no container that skymark reads: it begins with {data[:12]!r}; "
            f"convert it: {_CONVERT}"
        )
    moved = io.BytesIO()
    try:
        with av.open(io.BytesIO(data), "r", format=format) as source:
            video = next(iter(source.streams.video), None)
            if video is None:
                raise DataError("the clip has no video; remove it")
            with av.open(moved, "w", format="mp4") as target:
                stream = target.add_stream_from_template(video)
                start = video.start_time or 0
                for packet in source.demux(video):
                    if packet.size:  # the last, empty one asks decoders for what they hold
                        if packet.pts is not None:
                            packet.pts -= start
                        if packet.dts is not None:
                            packet.dts -= start
                        packet.stream = stream
                        target.mux(packet)
    except (av.FFmpegError, ValueError) as error:
        raise DataError(f"the clip cannot be moved into MP4 ({error}); {_CONVERT}") from error
    return moved.getvalue()


_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"})
"""Types of the first box of an MP4 or QuickTime file."""


def _ticks(video: Any) -> Fraction:
    """Return the step of a stream's clock from frame to frame, in its own units."""
    ticks: Fraction = 1 / (video.average_rate * video.time_base)
    return ticks


def _decoded(file: Any, video: Any, numbers: list[int], *, from_key_frame: bool) -> Frames:
    ticks = _ticks(video)
    first, wanted = min(numbers), set(numbers)
    file.seek(int(first * ticks), stream=video)
    reformatter, found, late = VideoReformatter(), {}, None
    for frame in file.decode(video):
        number = round(frame.pts / ticks)
        if late is None:
            late = first - number if from_key_frame else 0
        number += late
        if number in wanted:
            found[number] = reformatter.reformat(frame, format="rgb24").to_ndarray()
            if len(found) == len(wanted):
                break
    if missing := wanted - set(found):
        raise DataError(f"the clip has no frame {min(missing)}; copy the file again or remove it")
    return np.stack([found[number] for number in numbers])


def cropped(frames: Frames, crop: Crop, drawn: Parameters, side: int) -> Frames:
    """Cut the same box out of every frame and resize it, uint8 ``[frames, side, side, 3]``."""
    return np.stack([np.asarray(crop(Image.fromarray(one), drawn, side)) for one in frames])


def flipped(frames: Frames) -> Frames:
    """Mirror every frame left to right."""
    return frames[:, :, ::-1]


Sampler: TypeAlias = Callable[[float, int, int, int], Sequence[int]]
"""Function of a drawn share of the possible starts, the number of frames of the clip and of the
sample, and the stride; it returns the numbers of the sample's frames."""


def within(numbers: Iterable[int], whole: int) -> Sequence[int]:
    """Return frame numbers, limited to the first and last frame."""
    return [min(max(0, number), whole - 1) for number in numbers]


def sampled_frames(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
    """Return every `stride`-th frame from the drawn one on; the last frame after the clip's end."""
    first = window_start(share, whole, (frames - 1) * stride + 1)
    return within(range(first, first + frames * stride, stride), whole)


def shifted_frames(by: int) -> Sampler:
    """Return a sampler of frames that come some places after the drawn ones, if there are any."""

    def sample(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
        drawn = sampled_frames(share, whole, frames, stride)
        return within((number + by for number in drawn), whole)

    return sample


def frames_from(share: float) -> Sampler:
    """Return a sampler that begins at the same share of every clip."""
    return lambda _, whole, frames, stride: sampled_frames(share, whole, frames, stride)


def spread_frames(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
    """Sample the whole clip at equal distances, from its first frame to its last."""
    del share, stride
    return [number * (whole - 1) // max(1, frames - 1) for number in range(frames)]


def consecutive_frames(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
    """Take one frame after another from the drawn one on."""
    first = sampled_frames(share, whole, frames, stride)[0]
    return within(range(first, first + frames), whole)


def reversed_frames(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
    """Take the drawn frames from the last to the first."""
    return sampled_frames(share, whole, frames, stride)[::-1]


WRONG_SAMPLERS: Mapping[str, Sampler] = {
    "the frames are one too late": shifted_frames(1),
    "the frames are one too early": shifted_frames(-1),
    "the clip's beginning is sampled, not the drawn frames": frames_from(0.0),
    "the clip's middle is sampled, not the drawn frames": frames_from(0.5),
    "the whole clip is sampled, not the drawn frames": spread_frames,
    "consecutive frames are sampled": consecutive_frames,
    "the frames are in reverse order": reversed_frames,
}
