"""Signs of damage in encoded images that show without decoding them."""

from __future__ import annotations

from skymark.model.errors import DataError

_TAIL = 4096
"""Some cameras and editors leave bytes after the end marker."""
ENDS = {b"\xff\xd8": (b"\xff\xd9", "JPEG"), b"\x89PNG\r\n\x1a\n": (b"IEND", "PNG")}
"""The marker near the end of a file that begins so (ITU-T T.81, EOI; RFC 2083, 4.1.4)."""
OTHERS = (b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")
"""Beginnings of the other formats of images."""


def check_image(data: bytes, place: str) -> None:
    """Check that an encoded image begins and ends as one.

    Raises:
        DataError: it does not; the message names the place.
    """
    for start, (end, name) in ENDS.items():
        if data.startswith(start):
            if end not in data[-_TAIL:]:
                raise DataError(f"{place} is a truncated {name} file; copy it again or remove it")
            return
    if not data.startswith(OTHERS):
        raise DataError(
            f"{place} is no image that skymark can read: it begins with {data[:16]!r}; convert it "
            "or remove it"
        )
