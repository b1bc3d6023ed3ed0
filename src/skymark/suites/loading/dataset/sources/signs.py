"""Signs of damage in encoded files that show without decoding them."""

from __future__ import annotations

import os
from typing import BinaryIO

from skymark.model.errors import DataError

_START, _END = b"\xff\xd8", b"\xff\xd9"
_TAIL = 4096
"""Some cameras and editors leave bytes after the end marker."""


def check_jpeg(file: BinaryIO, size: int, place: str) -> None:
    """Check that a JPEG file begins and ends as one (ITU-T T.81, markers SOI and EOI).

    Raises:
        DataError: it does not; the message names the place.
    """
    start = file.tell()
    if file.read(2) != _START:
        raise DataError(f"{place} is no JPEG file, though named as one; convert or remove it")
    file.seek(start + max(0, size - _TAIL), os.SEEK_SET)
    if _END not in file.read(min(size, _TAIL)):
        raise DataError(f"{place} is a truncated JPEG file; copy it again or remove it")
