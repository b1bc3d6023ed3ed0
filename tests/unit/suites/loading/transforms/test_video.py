"""Chosen frames of clips whose every frame can be told from the others."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from fractions import Fraction

import av
import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.clips import KEY_FRAME_EVERY, mp4_bytes
from skymark.suites.loading.transforms.video import check_clip, decode_frames

HEIGHT, WIDTH = 32, 48
COUNT = 3 * KEY_FRAME_EVERY
LUMAS = np.linspace(40, 200, COUNT).round()


def grey(luma: float) -> np.ndarray:
    frame = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
    frame[:HEIGHT] = luma
    return frame


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """Return an MP4 file whose frames grow lighter."""
    return mp4_bytes([grey(luma) for luma in LUMAS], HEIGHT, WIDTH)


def levels(luma: np.ndarray) -> np.ndarray:
    """Return the 8-bit levels of grey in RGB: 16 to 235 become 0 to 255."""
    return (luma - 16) * 255 / 219


@pytest.mark.parametrize(
    "numbers",
    [range(3), range(5, 20, 5), range(KEY_FRAME_EVERY, COUNT, 7), [COUNT - 1], [9, 2, 30]],
    ids=str,
)
def test_the_chosen_frames_are_decoded_in_their_order(clip, numbers) -> None:
    frames = decode_frames(clip, lambda _: numbers)

    assert (frames.dtype, frames.shape) == (np.uint8, (len(numbers), HEIGHT, WIDTH, 3))
    found = frames.mean(axis=(1, 2, 3))
    assert np.abs(found - levels(LUMAS[list(numbers)])).max() < 2.5  # frames are 5.2 apart


def test_the_number_of_frames_is_told(clip) -> None:
    told = []
    decode_frames(clip, lambda whole: told.append(whole) or [0])
    assert told == [COUNT]


def test_frames_counted_from_the_key_frame_before_are_those_there(clip) -> None:
    begin = KEY_FRAME_EVERY + 4
    late = decode_frames(clip, lambda _: [begin, begin + 1], from_key_frame=True)
    there = decode_frames(clip, lambda _: [KEY_FRAME_EVERY, KEY_FRAME_EVERY + 1])
    assert np.array_equal(late, there)


def test_the_same_frames_give_the_same_file_whatever_was_encoded_before() -> None:
    random = np.random.default_rng(1)
    frames = random.integers(16, 235, (16, 384, 336), np.uint8)
    first = mp4_bytes(frames, 256, 336)
    for height, width in ((64, 96), (240, 320)):
        mp4_bytes(random.integers(16, 235, (4, height * 3 // 2, width), np.uint8), height, width)
    assert np.array_equal(mp4_bytes(frames, 256, 336), first)


def test_a_frame_that_the_clip_has_not_is_missed(clip) -> None:
    with pytest.raises(DataError, match=f"no frame {COUNT}"):
        decode_frames(clip, lambda whole: [whole])


@pytest.mark.parametrize("cut", [0, 20, 500])
def test_a_file_without_its_index_is_refused(clip, cut) -> None:
    with pytest.raises(DataError, match="MP4"):
        decode_frames(clip[:cut], lambda _: [0])


# Clips of the user's own


def encoded(pts: Iterable[int], pixels: str = "yuv420p") -> bytes:
    """Return an MP4 file whose frames are shown at these multiples of 40 ms."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as file:
        video = file.add_stream("libx264", rate=25, options={"bf": "0"})
        video.height, video.width, video.pix_fmt = HEIGHT, WIDTH, pixels
        video.codec_context.time_base = Fraction(1, 25)
        for number in pts:
            picture = av.VideoFrame.from_ndarray(grey(100), format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            file.mux(video.encode(picture.reformat(format=pixels)))
        file.mux(video.encode(None))
    return buffer.getvalue()


def turned(data: bytes) -> bytes:
    """Return an MP4 file whose track header (ISO/IEC 14496-12) turns frames by 90°."""
    begin = data.index(b"tkhd") + 4 + 40
    matrix = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    return data[:begin] + matrix + data[begin + len(matrix) :]


def test_a_clip_of_a_constant_rate_is_taken() -> None:
    check_clip(encoded(range(5)))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (encoded([0, 1, 2, 9, 30]), "constant rate, .* convert it: ffmpeg"),
        (encoded(range(5), "yuv422p"), "yuv422p, .*yuv420p .*: ffmpeg"),
        (turned(encoded(range(5))), "turned .*: ffmpeg"),
        (encoded(range(50))[:-900], "no whole video;"),
        (b"GIF89a", "no MP4 file"),
    ],
    ids=["rate", "planes", "turned", "truncated", "another format"],
)
def test_a_clip_whose_frames_have_no_numbers_is_refused(data, fault) -> None:
    with pytest.raises(DataError, match=fault):
        check_clip(data)
