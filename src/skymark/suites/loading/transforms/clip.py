"""The image preprocessing of CLIP: shortest side to N bicubic, centre N × N, normalise.

Radford et al., "Learning transferable visual models from natural language supervision" (2021),
as in the preprocessing of its reference implementation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""Mean and deviation per channel (red, green, blue) of CLIP's training images, scaled to 0…1."""

_SCALE = (1 / (255 * np.asarray(CLIP_DEVIATION))).astype(np.float32)
_SHIFT = (np.asarray(CLIP_MEAN) / np.asarray(CLIP_DEVIATION)).astype(np.float32)


def resize_shortest(
    image: Image.Image, side: int, method: Image.Resampling = Image.Resampling.BICUBIC
) -> Image.Image:
    """Resize so that the shortest side is `side`, antialiased; the other is rounded down."""
    width, height = image.size
    if width <= height:
        size = (side, int(side * height / width))
    else:
        size = (int(side * width / height), side)
    return image.resize(size, method)


def crop_centre(image: Image.Image, side: int, off: int = 0) -> Image.Image:
    """Cut the central square out; an odd margin is halved as Python rounds.

    Args:
        image: at least `side` pixels high and wide.
        side: of the square.
        off: pixels that it lies below and right (a mistake the oracle recognises).
    """
    left, top = (round((edge - side) / 2) + off for edge in image.size)
    return image.crop((left, top, left + side, top + side))


def crop_corner(image: Image.Image, side: int) -> Image.Image:
    """Cut the top left square out (a mistake the oracle recognises)."""
    return image.crop((0, 0, side, side))


def normalised(image: Image.Image | npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return ``(pixels / 255 - mean) / deviation`` with CLIP's figures, float32 ``[H, W, 3]``."""
    pixels: npt.NDArray[Any] = np.asarray(image).astype(np.float32)
    pixels *= _SCALE
    pixels -= _SHIFT
    return pixels
