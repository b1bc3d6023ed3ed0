"""Encoded images: the formats that are decoded, the kinds of pixels, errors of damaged files.

Pillow would also take dozens of other formats that nobody needs here, and start Ghostscript for
PostScript.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skymark.model.errors import DataError, SkymarkError

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")

PLAIN_KINDS = frozenset(
    {
        *("JPEG", "grey JPEG", "CMYK JPEG", "MPO"),
        *("PNG", "RGBA PNG", "palette PNG", "grey PNG", "grey-and-alpha PNG", "1-bit PNG"),
        *("2-bit grey PNG", "4-bit grey PNG", "16-bit grey PNG", "16-bit PNG", "16-bit RGBA PNG"),
    }
)
"""Kinds of images that every general decoder gives as Pillow does."""

PIXELS = {
    "1": "1-bit",
    "L": "grey",
    "LA": "grey-and-alpha",
    "I;16": "16-bit grey",
    "I;16B": "16-bit grey",
    "P": "palette",
    "PA": "palette",
    "RGB": "",
    "RGBX": "",
    "RGBA": "RGBA",
    "CMYK": "CMYK",
    "YCbCr": "YCbCr",
}
"""Modes of Pillow's images that have an 8-bit RGB form, with the word for their kind."""

OTHER_PIXELS = {"I": "whole numbers of 32 bits", "F": "floating-point numbers"}

TIFF_ORIENTATION, TIFF_PHOTOMETRY = 274, 262
"""Tags of TIFF: orientation, which Pillow follows, unlike that of EXIF in other formats; whether 0
is white (0) or black, which it follows up to 8 bits."""
LONGEST_CAUSE = 200
"""Characters of an error of Pillow's that a message repeats."""


WIDE = re.compile(";1[56]")
"""In Pillow's name for pixels of 16 bits, of each channel or, in BMP, of all three."""


class PixelsError(ValueError):
    """Error of pixels without an 8-bit RGB form."""


def image_kind(image: Any) -> str:
    """Return the format and the pixels of an opened Pillow image, of which only the header is read.

    Such as ``JPEG``, ``CMYK JPEG``, ``16-bit grey PNG`` or ``turned TIFF``; RGB of 8 bits goes
    without saying. Decoders differ between kinds, and agree within each.
    """
    pixels = PIXELS.get(image.mode, image.mode)
    return " ".join(word for word in (*_remarks(image), pixels, image.format) if word)


def _remarks(image: Any) -> Iterator[str]:
    """Yield words for a file's properties beyond the mode of its pixels."""
    match image.format:
        case "JPEG" | "MPO" if image.mode == "CMYK" and "adobe" not in image.info:
            yield "unmarked"  # Adobe's marker says that inks are inverted, as Pillow takes all
        case "GIF":
            if "transparency" in image.info:
                yield "transparent"
            if image.tile and image.tile[0][1] != (0, 0, *image.size):
                yield "partial"
        case "WEBP":
            if image.is_animated:
                yield "animated"
            if "exif" in image.info:
                yield "EXIF-marked"
        case "TIFF":
            yield from _tiff_remarks(image)
    raw = _raw_mode(image)
    if image.mode in {"RGB", "RGBA", "LA"} and WIDE.search(raw):
        yield "16-bit"
    if raw in {"L;2", "L;4"}:
        yield f"{raw[-1]}-bit"


def _tiff_remarks(image: Any) -> Iterator[str]:
    if image.tag_v2.get(TIFF_ORIENTATION, 1) != 1:
        yield "turned"
    if is_white_zero(image):
        yield "white-is-zero"
    if _raw_mode(image) == "RGBa":
        yield "multiplied"  # by alpha


def is_white_zero(image: Any) -> bool:
    """Whether a Pillow image is a TIFF whose 0 is white."""
    return bool(image.format == "TIFF" and image.tag_v2.get(TIFF_PHOTOMETRY) == 0)


def _raw_mode(image: Any) -> str:
    """Return Pillow's name for the pixels in the file; empty where a library decodes all of it."""
    arguments = image.tile[0][3] if image.tile else ()
    return str(arguments if isinstance(arguments, str) else next(iter(arguments), ""))


@contextmanager
def opened_image(data: Any, what: str) -> Iterator[Any]:
    """Open an encoded image with Pillow. Only its header is read here.

    Raises:
        DataError: the image cannot be decoded, as `readable` says.
    """
    from PIL import Image

    with readable(what), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own, of large images and odd metadata
        with Image.open(io.BytesIO(memoryview(data)), formats=IMAGE_FORMATS) as image:
            yield image


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Explain every error of Pillow with the image, the cause and the next step.

    On damaged files Pillow raises errors of any type: `struct.error`, `OverflowError` and more.

    Raises:
        DataError: the image cannot be decoded.
    """
    try:
        yield
    except SkymarkError:
        raise
    except Exception as error:
        cause, advice = _explained(error)
        raise DataError(
            f"{what} cannot be decoded ({cause}); {advice}, remove it, or take the rest with "
            "--skip-damaged"
        ) from error


def _explained(error: Exception) -> tuple[str, str]:
    """Return the cause of an error while an image is decoded, and how to mend the image."""
    from PIL import Image, UnidentifiedImageError

    said = " ".join(str(error).split())[:LONGEST_CAUSE]
    if isinstance(error, UnidentifiedImageError):
        formats = f"{', '.join(IMAGE_FORMATS[:-1])} or {IMAGE_FORMATS[-1]}"
        return f"it is no {formats} file, or damaged", "convert it, copy it again"
    if isinstance(error, Image.DecompressionBombError):
        return said.partition(", could be")[0], "scale it down"
    if isinstance(error, PixelsError):
        return said, "convert it to 8 or 16 bits per channel"
    if "MAX_TEXT" in said:
        return (
            "a text in it is larger than the 1.05 MB that Pillow reads",
            "save it without its texts",
        )
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is", "copy it again"
    if not isinstance(error, (OSError, SyntaxError)):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return said, "copy it again"
