"""The pixels of a split as a memory map that all processes of a machine share."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.leases import this_machine
from skymark.model.base import Count, Frozen
from skymark.model.errors import DataError
from skymark.suites.clip.pixels.preprocessing import Pixels

DATA_FILE = "pixels.u8"
INDEX_FILE = "pixels.json"
DECODING_FILE = "decoding.json"


class MapIndex(Frozen):
    """What a pixel map holds; written last, so that a map with an index is whole."""

    split: str
    """Identity of the data set's split: of its source and all its images."""
    preprocessing: str
    """Key of the preprocessing."""
    shape: tuple[int, int, int, int]
    """Images, channels, height and width."""
    checksums: tuple[Count, ...]
    """CRC-32 of each image's pixels."""


class Decoding(Frozen):
    """Time in which the images of a map were read, decoded, resized and written."""

    machine: str
    """The one that did it, since it booted."""
    time_ns: Count


class PixelMap:
    """8-bit pixels of a split, read in place; what is read is verified by its checksum."""

    def __init__(self, directory: Path, index: MapIndex) -> None:
        self.directory = directory
        self.index = index
        self._pixels = np.memmap(directory / DATA_FILE, np.uint8, mode="r", shape=index.shape)
        self._checked: npt.NDArray[np.bool_] = np.zeros(index.shape[0], bool)

    def __len__(self) -> int:
        """The number of images."""
        return self.index.shape[0]

    def take_decode_ns(self) -> int | None:
        """Return the time of decoding in ns, once: it belongs to the first cell that asks.

        None where an earlier cell took it, or another machine decoded the images.
        """
        file = self.directory / DECODING_FILE
        try:
            found = Decoding.model_validate_json(file.read_bytes())
            file.unlink()
        except (OSError, ValueError):
            return None
        return found.time_ns if found.machine == this_machine() else None

    def read(self, start: int, stop: int, out: Pixels | None = None) -> Pixels:
        """Return the pixels of consecutive images, in memory.

        Raises:
            DataError: they are not those that were written.
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
