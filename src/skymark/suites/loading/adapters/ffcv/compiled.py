"""Fields and operations for FFCV: stored JPEGs, drawn crops, standardised features.

Random parameters reach the compiled code in the field's metadata, the rows that FFCV keeps in
memory: the loader writes an epoch's crops and flips (`DRAWN`) there before its first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES, SimpleRGBImageDecoder
from ffcv.libffcv import imdecode
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.transforms import NormalizeImage

from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN, decode_rgb

DRAWN = ("top", "left", "crop_height", "crop_width", "flip")


class StoredJpeg(RGBImageField):  # type: ignore[misc]
    """An RGBImageField that keeps the file's own JPEG bytes, with room for the drawn crop."""

    @property
    def metadata_type(self) -> np.dtype[Any]:
        """The dtype of an image's metadata: FFCV's own fields, and `DRAWN`."""
        kept = super().metadata_type.descr
        return np.dtype([*kept, *((name, "<i4") for name in DRAWN)])

    @staticmethod
    def from_binary(binary: Any) -> StoredJpeg:
        """Make the field of an existing file."""
        del binary
        return StoredJpeg()

    def encode(self, destination: Any, image: npt.NDArray[np.uint8], malloc: Any) -> None:
        """Write the bytes of one JPEG, uint8 ``[length]``."""
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["width"], destination["height"] = decode_rgb(image, -1).size
        destination["data_ptr"], storage = malloc(image.nbytes)
        storage[:] = image


def weights(size: int, side: int) -> tuple[Any, Any, Any]:
    """Return the pixels and weights of each output of an antialiased bilinear resize.

    The triangle filter as wide as the step, or one pixel where the step is smaller: first and last
    pixel, int64 ``[S]``, and weights float32 ``[S, width]``, each row of sum 1.
    """
    step = size / side
    reach = max(step, 1.0)
    begins, ends = np.empty(side, np.int64), np.empty(side, np.int64)
    table = np.zeros((side, 2 * int(np.ceil(reach)) + 1), np.float32)
    for place in range(side):
        centre = (place + 0.5) * step
        begins[place] = max(0, int(centre - reach + 0.5))
        ends[place] = min(size, int(centre + reach + 0.5))
        for pixel in range(begins[place], ends[place]):
            weight = max(0.0, 1 - abs(pixel + 0.5 - centre) / reach)
            table[place, pixel - begins[place]] = weight
        table[place] /= table[place].sum()
    return begins, ends, table


def narrow(image: Any, begins: Any, ends: Any, table: Any, result: Any) -> None:
    """Resize the rows of an image ``[H, W, 3]`` into a result ``[H, S, 3]``."""
    for y in range(image.shape[0]):
        for x in range(len(begins)):
            red = green = blue = np.float32(0)
            for pixel in range(begins[x], ends[x]):
                weight = table[x, pixel - begins[x]]
                red += weight * image[y, pixel, 0]
                green += weight * image[y, pixel, 1]
                blue += weight * image[y, pixel, 2]
            result[y, x, 0] = np.uint8(red + 0.5)
            result[y, x, 1] = np.uint8(green + 0.5)
            result[y, x, 2] = np.uint8(blue + 0.5)


def shorten(rows: Any, begins: Any, ends: Any, table: Any, result: Any) -> None:
    """Resize the columns of rows ``[H, S * 3]`` into a result ``[S, S * 3]``."""
    line = np.empty(rows.shape[1], np.float32)
    for y in range(len(begins)):
        line[:] = 0.5
        for row in range(begins[y], ends[y]):
            weight = table[y, row - begins[y]]
            for place in range(len(line)):
                line[place] += weight * rows[row, place]
        for place in range(len(line)):
            result[y, place] = np.uint8(line[place])


class DrawnCrop(SimpleRGBImageDecoder):  # type: ignore[misc]
    """Decode, cut the drawn box out, resize it and mirror it where drawn: uint8 ``[S, S, 3]``.

    The resize is antialiased bilinear, as the work is defined; FFCV's own `resize_crop` repeats
    pixels where it enlarges (OpenCV's INTER_AREA).
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def declare_state_and_memory(self, previous_state: Any) -> Any:
        """Ask for the result and, per element of a batch, a decoded and a narrowed image."""
        shape, pixel = (self.side, self.side, 3), np.dtype("<u1")
        height, width = int(self.metadata["height"].max()), int(self.metadata["width"].max())
        memory = (
            AllocationQuery(shape, pixel),
            AllocationQuery((height * width * 3,), pixel),
            AllocationQuery((height, self.side, 3), pixel),
        )
        return replace(previous_state, jit_mode=True, shape=shape, dtype=pixel), memory

    def generate_code(self) -> Callable[..., Any]:
        """Return the code, run in FFCV's threads."""
        read, side, elements = self.memory_read, self.side, Compiler.get_iterator()
        decode_jpeg, weigh = Compiler.compile(imdecode), Compiler.compile(weights)
        resize_rows, resize_columns = Compiler.compile(narrow), Compiler.compile(shorten)

        def crop(indices: Any, memory: Any, metadata: Any, storage_state: Any) -> Any:
            result, decoded, narrowed = memory
            for place in elements(len(indices)):
                row = metadata[indices[place]]
                height, width = np.uint32(row["height"]), np.uint32(row["width"])
                image = decoded[place][: height * width * 3].reshape(height, width, 3)
                data = read(row["data_ptr"], storage_state)
                decode_jpeg(data, image, height, width, height, width, 0, 0, 1, 1, False, False)
                top, left = row["top"], row["left"]
                box = image[top : top + row["crop_height"], left : left + row["crop_width"]]
                begins, ends, table = weigh(row["crop_width"], side)
                if row["flip"]:
                    begins, ends, table = begins[::-1].copy(), ends[::-1].copy(), table[::-1].copy()
                resize_rows(box, begins, ends, table, narrowed[place])
                begins, ends, table = weigh(row["crop_height"], side)
                rows = narrowed[place].reshape(-1, side * 3)
                resize_columns(rows, begins, ends, table, result[place].reshape(side, side * 3))
            return result[: len(indices)]

        crop.is_parallel = True  # type: ignore[attr-defined]
        return crop


class Standardise(Operation):  # type: ignore[misc]
    """Subtract a mean and divide by a deviation, each float32 ``[F]``."""

    def __init__(self, mean: npt.NDArray[np.float32], deviation: npt.NDArray[np.float32]) -> None:
        super().__init__()
        self.mean = mean
        self.deviation = deviation

    def declare_state_and_memory(self, previous_state: Any) -> Any:
        """Ask for the result."""
        query = AllocationQuery(previous_state.shape, previous_state.dtype)
        return replace(previous_state, jit_mode=True), query

    def generate_code(self) -> Callable[..., Any]:
        """Return the code, run in FFCV's threads."""
        mean, deviation, elements = self.mean, self.deviation, Compiler.get_iterator()

        def standardise(features: Any, result: Any) -> Any:
            for place in elements(len(features)):
                result[place] = (features[place] - mean) / deviation
            return result[: len(features)]

        standardise.is_parallel = True  # type: ignore[attr-defined]
        return standardise


def normalise() -> Any:
    """Return FFCV's own normalisation with ImageNet's mean and deviation."""
    mean, deviation = 255 * np.asarray(IMAGENET_MEAN), 255 * np.asarray(IMAGENET_DEVIATION)
    return NormalizeImage(mean, deviation, np.float32)
