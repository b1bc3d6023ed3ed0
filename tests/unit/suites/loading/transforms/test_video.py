"""Chosen frames of clips whose every frame can be told from the others."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.clips import KEY_FRAME_EVERY, mp4_bytes
from skymark.suites.loading.transforms.video import decode_frames

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
