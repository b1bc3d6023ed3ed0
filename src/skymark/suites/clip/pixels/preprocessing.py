"""open_clip's preprocessing, cut after the steps that give 8-bit integers."""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skymark.image_formats import IMAGE_FORMATS
from skymark.leases import this_machine
from skymark.model.base import Count, Frozen, digest_of
from skymark.model.errors import DataError
from skymark.suites.clip.models.choosing import normalisation_of
from skymark.suites.clip.reading.samples import SKIP

FORMATS = (*IMAGE_FORMATS, "PPM")
"""Decoded formats; the last one occurs in folders of images."""

Pixels = npt.NDArray[np.uint8]
MOST_ELONGATED = 500
"""Longer over shorter edge: resizing a longer image by its shorter edge takes gigabytes."""
FIELDS = ("size", "mode", "interpolation", "resize_mode", "fill_color")
"""Settings that decide the 8-bit pixels; `mean` and `std` apply afterwards."""


@dataclass(frozen=True)
class Preprocessing:
    """The evaluation transform of a model."""

    settings: dict[str, Any]
    """`open_clip.transform.PreprocessCfg` as a dictionary."""
    transform: Any
    """The whole transform, from a PIL image to a normalised tensor."""

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Preprocessing:
        """Build open_clip's transform for these settings."""
        from open_clip.transform import PreprocessCfg, image_transform_v2

        return cls(settings, image_transform_v2(PreprocessCfg(**settings), is_train=False))

    @property
    def key(self) -> str:
        """SHA-256 hex digest of the settings and library versions that decide the 8-bit pixels."""
        libraries = {name: version(name) for name in ("pillow", "torchvision", "open-clip-torch")}
        return digest_of([{name: self.settings[name] for name in FIELDS}, libraries])

    @property
    def title(self) -> str:
        """The settings in a few words, for the record's conditions."""
        width, height = self.shape[2], self.shape[1]
        return f"{self.settings['resize_mode']} {self.settings['interpolation']} {width}x{height}"

    @property
    def normalisation(self) -> str:
        """Mean and standard deviation in a few words, for the record's conditions."""
        return normalisation_of(self.mean, self.std)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        size = self.settings["size"]
        height, width = (size, size) if isinstance(size, int) else size
        return 3, int(height), int(width)

    @property
    def mean(self) -> tuple[float, ...]:
        """Per channel."""
        return tuple(self.settings["mean"])

    @property
    def std(self) -> tuple[float, ...]:
        """Per channel."""
        return tuple(self.settings["std"])

    @property
    def normalised(self) -> npt.NDArray[np.float32]:
        """Normalised value of each 8-bit value, per channel: float32 of shape (3, 256).

        Same operations as torchvision's ToTensor and Normalize, with IEEE 754 rounding.
        """
        values = np.arange(256, dtype=np.float32) / np.float32(255)
        mean, std = (np.array(one, np.float32)[:, None] for one in (self.mean, self.std))
        return (values - mean) / std

    def pixels(self, data: bytes, name: str) -> Pixels:
        """Decode, resize and crop an image to 8-bit pixels of `shape`.

        Raises:
            DataError: it cannot be decoded.
        """
        image = decoded(data, name)
        for step in self._steps_before_tensor():
            image = step(image)
        return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))

    def reference(self, data: bytes, name: str) -> Any:
        """Return an image's tensor from open_clip's own transform."""
        return self.transform(decoded(data, name))

    def _steps_before_tensor(self) -> list[Any]:
        steps = list(self.transform.transforms)
        *before, to_tensor, normalize = steps
        names = [type(step).__name__ for step in (to_tensor, normalize)]
        if names != ["MaybeToTensor", "Normalize"]:
            raise DataError(
                f"open_clip {version('open-clip-torch')} ends its transform with {names}, which "
                "skymark does not know; use the pinned version"
            )
        return before


def decoded(data: bytes, name: str) -> Any:
    """Decode an image to RGB, like WebDataset and torchvision's folders.

    Raises:
        DataError: its format is not in `FORMATS`, or it cannot be decoded.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _require_area(image)
            return image.convert("RGB")
    except Exception as error:  # whatever a decoder raises on bytes that are no image
        raise DataError(
            f"{name} cannot be decoded ({error or type(error).__name__}); fetch the data set "
            f"again, {SKIP}"
        ) from error


def _require_area(image: Any) -> None:
    if max(image.size) > MOST_ELONGATED * min(image.size):
        raise ValueError(f"its {image.width}x{image.height} pixels are a line")


DATA_FILE = "pixels.u8"
INDEX_FILE = "pixels.json"
DECODING_FILE = "decoding.json"


class MapIndex(Frozen):
    """Content of a pixel map; written last, so a map with an index is whole."""

    split: str
    """Identity of the data set's split, with its source and all its images."""
    preprocessing: str
    """Key of the preprocessing."""
    shape: tuple[int, int, int, int]
    """Images, channels, height and width."""
    checksums: tuple[Count, ...]
    """CRC-32 of each image's pixels."""


class Decoding(Frozen):
    """Time to read, decode, resize and write the images of a map."""

    machine: str
    """Identity of the machine since its boot."""
    time_ns: Count


class PixelMap:
    """8-bit pixels of a split, read in place and verified by checksums."""

    def __init__(self, directory: Path, index: MapIndex) -> None:
        self.directory = directory
        self.index = index
        self._pixels = np.memmap(directory / DATA_FILE, np.uint8, mode="r", shape=index.shape)
        self._checked: npt.NDArray[np.bool_] = np.zeros(index.shape[0], bool)

    def __len__(self) -> int:
        """The number of images."""
        return self.index.shape[0]

    def take_decode_ns(self) -> int | None:
        """Return the time of decoding in ns to the first cell that asks.

        None if an earlier cell took it, or another machine decoded the images.
        """
        file = self.directory / DECODING_FILE
        try:
            found = Decoding.model_validate_json(file.read_bytes())
            file.unlink()
        except (OSError, ValueError):
            return None
        return found.time_ns if found.machine == this_machine() else None

    def read(self, start: int, stop: int, out: Pixels | None = None) -> Pixels:
        """Read the pixels of consecutive images.

        Raises:
            DataError: a checksum differs.
        """
        found = self._pixels[start:stop]
        if out is None:
            copied = np.array(found)
        else:
            copied = out[: len(found)]
            np.copyto(copied, found)
        for number in np.flatnonzero(~self._checked[start:stop]):
            if zlib.crc32(copied[number].data) != self.index.checksums[start + number]:
                raise DataError(
                    f"{self.directory} is damaged at image {start + number}; remove it and run "
                    "again"
                )
        self._checked[start:stop] = True
        return copied
