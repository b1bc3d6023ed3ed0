"""Synthetic video clips of textures that move, and volumes like computed tomography.

A disc of one texture crosses another texture, each at a speed of its own, like an object before a
background in a panning shot. Encoders find such motion as in films, and decoding it costs as much;
noise would not.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.images import CHROMA_DEVIATION, LUMA_DEVIATION, textures

GENERATOR_SEED = 20_251_125
FRAMES_PER_S = 25
KEY_FRAME_EVERY = 12
"""Frames between key frames: half a second, so that a decoder begins near the frame it seeks."""
ENCODER = {
    "preset": "veryfast",
    "crf": "23",  # the encoder's own constant quality
    "g": str(KEY_FRAME_EVERY),
    # With its macroblock tree (of x264's assembly) the same frames gave files that differed.
    "x264-params": "no-mbtree=1:scenecut=0",
}
FASTEST = 0.02
"""Largest motion of a texture between frames along each axis, as a share of the height."""
LUMA = (16, 235)
CHROMA = (16, 240)
"""Levels of 8-bit video."""

Frame = npt.NDArray[np.uint8]
"""One frame of 4:2:0 video, uint8 ``[height * 3 // 2, width]``: luma, then both chromas."""


class Planes(NamedTuple):
    """The planes of a periodic texture, each twice along both axes, so that any cut is a slice."""

    luma: npt.NDArray[np.float32]
    chromas: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
    """Half as high and wide."""

    def cut(self, top: int, left: int, height: int, width: int) -> list[npt.NDArray[np.float32]]:
        """Return the part of each plane below and right of a place of the luma."""
        side = len(self.luma) // 2
        top, left = top % side, left % side
        return [
            self.luma[top : top + height, left : left + width],
            *(
                plane[top // 2 : (top + height) // 2, left // 2 : (left + width) // 2]
                for plane in self.chromas
            ),
        ]


def planes(texture: npt.NDArray[np.float32]) -> Planes:
    """Return the planes of a texture ``[side, side, 3]``, in levels about 0."""
    luma = np.tile(texture[..., 0] * np.float32(LUMA_DEVIATION), (2, 2))
    blue, red = (
        np.tile(texture[::2, ::2, channel] * np.float32(CHROMA_DEVIATION), (2, 2))
        for channel in (1, 2)
    )
    return Planes(luma, (blue, red))


def moving_frames(
    random: np.random.Generator, pool: list[Planes], frames: int, height: int, width: int
) -> Iterator[Frame]:
    """Yield the frames of one clip; height and width are even."""
    behind, before = (pool[one] for one in random.choice(len(pool), 2, replace=False))
    starts = random.integers(len(behind.luma) // 4, size=(3, 2)) * 2
    # Even steps, so that luma and chroma move together.
    steps = np.rint(random.uniform(-FASTEST, FASTEST, (3, 2)) * height / 2).astype(int) * 2
    light, radius = random.uniform(90, 150), random.uniform(0.15, 0.35) * height
    rows, columns = np.ogrid[:height, :width]
    for number in range(frames):
        (top, left), (inner_top, inner_left), (down, right) = starts + number * steps
        far = behind.cut(int(top), int(left), height, width)
        near = before.cut(int(inner_top), int(inner_left), height, width)
        disc = (rows - down % height) ** 2 + (columns - right % width) ** 2 < radius**2
        masks = (disc, disc[::2, ::2], disc[::2, ::2])
        luma, blue, red = (
            np.where(mask, inside, outside)
            for mask, inside, outside in zip(masks, near, far, strict=True)
        )
        levels = (
            (luma + np.float32(light)).clip(*LUMA),
            (blue + 128).clip(*CHROMA),
            (red + 128).clip(*CHROMA),
        )
        flat = np.concatenate([plane.astype(np.uint8).reshape(-1) for plane in levels])
        yield flat.reshape(height * 3 // 2, width)


def mp4_bytes(frames: Iterable[Frame], height: int, width: int) -> npt.NDArray[np.uint8]:
    """Encode frames as an MP4 file of H.264, uint8 ``[length]``, reproducibly."""
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", container_options={"fflags": "+bitexact"}) as file:
        video = file.add_stream("libx264", rate=Fraction(FRAMES_PER_S), options=dict(ENCODER))
        video.height, video.width, video.pix_fmt = height, width, "yuv420p"
        video.codec_context.thread_count = 1
        for number, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="yuv420p")
            picture.pts = number
            file.mux(video.encode(picture))
        file.mux(video.encode(None))
    return np.frombuffer(buffer.getvalue(), np.uint8)


def write_clips(
    directory: Path, elements: int, seconds: float, height: int, width: int, classes: int
) -> Dataset:
    """Write columns ``mp4``, ragged uint8, and ``label`` int64.

    A clip lasts from half of `seconds` to all of it.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    labels = random.integers(classes, size=elements)
    lengths = np.rint(random.uniform(0.5, 1, elements) * seconds * FRAMES_PER_S).astype(int)
    side = 1 << (max(height, width) - 1).bit_length()
    pool = [planes(texture) for texture in textures(random, side)]
    files = (
        mp4_bytes(moving_frames(random, pool, int(length), height, width), height, width)
        for length in lengths
    )
    return write_dataset(
        directory, "synthetic clips", {"mp4": files, "label": labels}, {"mp4": "mp4"}
    )


VOLUME_SEED = 20_240_609
AIR, TISSUE, BONE = -1000, 40, 700
"""Hounsfield units."""
NOISE = 25.0
"""Standard deviation in Hounsfield units, as of a standard-dose scan."""
ORGANS = 6


def ellipsoid(
    shape: tuple[int, int, int], centre: npt.NDArray[np.float64], radii: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return which voxels lie inside an ellipsoid; places and radii are shares of each side."""
    distance = np.zeros((), np.float32)
    for axis, size in enumerate(shape):
        place = (np.arange(size) + 0.5) / size
        squared = ((place - centre[axis]) / radii[axis]) ** 2
        along = [1, 1, 1]
        along[axis] = size
        distance = distance + squared.astype(np.float32).reshape(along)
    inside: npt.NDArray[np.bool_] = distance <= 1
    return inside


def scan(random: np.random.Generator, shape: tuple[int, int, int]) -> npt.NDArray[np.int16]:
    """Make one volume in Hounsfield units: a body with organs of several densities."""
    density = np.full(shape, AIR, np.float32)
    body = random.uniform(0.35, 0.45, 3)
    density[ellipsoid(shape, np.full(3, 0.5), body)] = TISSUE
    for _ in range(ORGANS):
        centre = 0.5 + random.uniform(-0.5, 0.5, 3) * body
        radii = random.uniform(0.05, 0.2, 3)
        density[ellipsoid(shape, centre, radii)] = random.uniform(TISSUE - 100, BONE)
    density += NOISE * random.standard_normal(shape, np.float32)
    return density.astype(np.int16)


def write_volumes(
    directory: Path, elements: int, shape: tuple[int, int, int], classes: int
) -> Dataset:
    """Write columns ``volume`` int16 ``[depth, height, width]`` and ``label`` int64."""
    random = np.random.Generator(np.random.PCG64(VOLUME_SEED))
    volumes = np.empty((elements, *shape), np.int16)
    for index in range(elements):
        volumes[index] = scan(random, shape)
    label = random.integers(classes, size=elements)
    return write_dataset(directory, "synthetic scans", {"volume": volumes, "label": label})
