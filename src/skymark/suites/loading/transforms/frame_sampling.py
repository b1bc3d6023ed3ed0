"""Sampling of a clip's frames: every so many from a drawn one on, and the ways to get it wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from skymark.suites.loading.transforms.random_window import window_start

Sampler: TypeAlias = Callable[[float, int, int, int], Sequence[int]]
"""From the drawn share of the frames where a sample may begin, the frames of the clip, those of the
sample, and the stride from one to the next, to the numbers of the sample's frames."""


def within(numbers: Iterable[int], whole: int) -> Sequence[int]:
    """Return frame numbers, with the first or last frame's in place of those before or beyond."""
    return [min(max(0, number), whole - 1) for number in numbers]


def sampled_frames(share: float, whole: int, frames: int, stride: int) -> Sequence[int]:
    """Return every `stride`-th frame from the drawn one on; the last one where the clip ends."""
    first = window_start(share, whole, (frames - 1) * stride + 1)
    return within(range(first, first + frames * stride, stride), whole)


def shifted_frames(by: int) -> Sampler:
    """Return a sampler whose frames are some later than the drawn ones, where there are such."""

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
