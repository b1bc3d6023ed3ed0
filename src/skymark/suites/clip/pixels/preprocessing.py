"""A model's preprocessing, cut after the steps that give 8-bit integers."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

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

Pixels = npt.NDArray[Any]
"""8-bit integers, or float32 if the preprocessing has no 8-bit step."""
MOST_ELONGATED = 500
"""Longer over shorter edge: resizing a longer image by its shorter edge takes gigabytes."""
FIELDS = frozenset({"size", "mode", "interpolation", "resize_mode", "fill_color"})
"""open_clip's settings that decide the 8-bit pixels; `mean` and `std` apply afterwards."""
TO_TENSOR = frozenset({"ToTensor", "MaybeToTensor"})
"""Steps that turn an 8-bit image into a tensor."""


@dataclass(frozen=True)
class Preprocessing:
    """The evaluation transform of a model, cut after the steps that give 8-bit integers."""

    settings: dict[str, Any]
    """What decides the pixels: open_clip's settings, a processor's, or a digest of Python."""
    shape: tuple[int, int, int]
    """Channels, height and width."""
    title: str
    """The settings in a few words, for the record's conditions."""
    normalisation: str
    """Mean and standard deviation in a few words, for the record's conditions."""
    resized: Callable[[Any], Any]
    """From a PIL image to an array of `shape`, before normalisation."""
    transform: Callable[[Any], Any]
    """The whole transform, from a PIL image to a normalised tensor."""
    normalised: npt.NDArray[np.float32] | None
    """Normalised value of each 8-bit value, per channel: float32 of shape (3, 256). None if the
    transform has no 8-bit step: then `resized` gives its float32 values."""

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Preprocessing:
        """Build open_clip's transform for its `PreprocessCfg` as a dictionary.

        Raises:
            DataError: this version of open_clip ends its transform otherwise.
        """
        from open_clip.transform import PreprocessCfg, image_transform_v2

        transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
        size = settings["size"]
        height, width = (size, size) if isinstance(size, int) else size
        whole = cls.of_transform(
            transform,
            {name: settings[name] for name in FIELDS},
            f"{settings['resize_mode']} {settings['interpolation']} {width}x{height}",
            (3, int(height), int(width)),
        )
        if whole.normalised is None:
            raise DataError(
                f"open_clip {version('open-clip-torch')} ends its transform in a way that skymark "
                "does not know; use the pinned version"
            )
        return replace(whole, settings=settings)

    @classmethod
    def of_transform(
        cls,
        transform: Callable[[Any], Any],
        settings: dict[str, Any],
        title: str,
        shape: tuple[int, int, int],
    ) -> Preprocessing:
        """Cut a transform before its last two steps, if these are torchvision's usual ones.

        Args:
            transform: from a PIL image to a tensor.
            settings: what decides its result.
            title: the settings in a few words.
            shape: of the tensor.
        """
        steps = list(getattr(transform, "transforms", ()))
        names = [type(step).__name__ for step in steps[-2:]]
        if len(names) < 2 or names[0] not in TO_TENSOR or names[1] != "Normalize":
            return cls(settings, shape, title, "its own", _as_floats(transform), transform, None)
        *before, _, normalize = steps
        mean, std = (tuple(map(float, one)) for one in (normalize.mean, normalize.std))

        def resized(image: Any) -> Any:
            for step in before:
                image = step(image)
            return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)

        table = normalised_values(mean, std)
        named = normalisation_of(mean, std)
        return cls(settings, shape, title, named, resized, transform, table)

    @property
    def key(self) -> str:
        """SHA-256 hex digest of the settings and library versions that decide the cached pixels."""
        libraries = {
            name: library_version(name) for name in ("pillow", "torchvision", "open-clip-torch")
        }
        own = self.settings
        deciding = {name: own[name] for name in FIELDS} if own.keys() >= FIELDS else own
        return digest_of([deciding, libraries])

    @property
    def dtype(self) -> Literal["uint8", "float32"]:
        """Type of the cached pixels."""
        return "float32" if self.normalised is None else "uint8"

    def pixels(self, data: bytes, name: str) -> Pixels:
        """Decode, resize and crop an image to pixels of `shape`.

        Raises:
            DataError: it cannot be decoded.
        """
        return np.ascontiguousarray(self.resized(decoded(data, name)), dtype=self.dtype)

    def reference(self, data: bytes, name: str) -> Any:
        """Return an image's tensor from the model's own transform."""
        return self.transform(decoded(data, name))


def normalised_values(mean: Sequence[float], std: Sequence[float]) -> npt.NDArray[np.float32]:
    """Return the normalised value of each 8-bit value, per channel: float32 of shape (3, 256).

    Same operations as torchvision's ToTensor and Normalize, with IEEE 754 rounding.
    """
    values = np.arange(256, dtype=np.float32) / np.float32(255)
    means, deviations = (np.array(one, np.float32)[:, None] for one in (mean, std))
    table: npt.NDArray[np.float32] = (values - means) / deviations
    return table


def _as_floats(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda image: transform(image).float().numpy()


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


@cache
def library_version(name: str) -> str:
    """Return the version of an installed library; reading it takes milliseconds."""
    return version(name)


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
    dtype: Literal["uint8", "float32"] = "uint8"


class Decoding(Frozen):
    """Time to read, decode, resize and write the images of a map."""

    machine: str
    """Identity of the machine since its boot."""
    time_ns: Count


class UndecodedPixels:
    """Pixels of a split whose features are known: decoded only where the oracle looks."""

    def __init__(self, read: Callable[[int], Pixels], count: int, images_digest: str) -> None:
        """Take the reader of one image's pixels, their number, and the digest of all pixels."""
        self._read, self._count = read, count
        self.images_digest = images_digest

    def __len__(self) -> int:
        """The number of images."""
        return self._count

    def take_decode_ns(self) -> None:
        """Return None: no cell decoded them."""

    def read(self, start: int, stop: int) -> Pixels:
        """Decode consecutive images.

        Raises:
            DataError: one cannot be decoded.
        """
        return np.stack([self._read(number) for number in range(start, min(stop, self._count))])


class PixelMap:
    """Pixels of a split, read in place and verified by checksums."""

    def __init__(self, directory: Path, index: MapIndex) -> None:
        self.directory = directory
        self.index = index
        self._pixels = np.memmap(directory / DATA_FILE, index.dtype, mode="r", shape=index.shape)
        self._checked: npt.NDArray[np.bool_] = np.zeros(index.shape[0], bool)

    def __len__(self) -> int:
        """The number of images."""
        return self.index.shape[0]

    @property
    def images_digest(self) -> str:
        """SHA-256 hex digest of the checksums of all pixels in order."""
        return digest_of(list(self.index.checksums))

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
