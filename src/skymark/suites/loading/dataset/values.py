"""Conversion of values of real data into those of canonical columns."""

from __future__ import annotations

import hashlib
import io
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from skymark.image_formats import IMAGE_FORMATS
from skymark.model.errors import DataError
from skymark.model.installed import needs
from skymark.suites.loading.dataset.tabular import MISSING

_JPEG_START = b"\xff\xd8"
_FLAC_START = b"fLaC"
LARGEST_ID = 1 << 63
LARGEST_FIGURE = float(np.finfo(np.float32).max)
LONGEST_SHOWN = 80
"""Characters of a value that a message shows."""
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,8}")


def jpeg(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a JPEG file, uint8 ``[length]``; other formats are decoded and encoded again.

    Raises:
        DataError: the image does not decode to its end.
    """
    image = _image(value, place)
    try:
        image.load()
    except (OSError, SyntaxError) as error:
        raise DataError(
            f"the image of {place} cannot be decoded ({error}); copy it again or remove it"
        ) from error
    if value.startswith(_JPEG_START):
        return np.frombuffer(value, np.uint8)
    from skymark.suites.loading.dataset.images import jpeg_bytes

    return jpeg_bytes(image.convert("RGB"))


def image_height(value: Any, place: str) -> int:
    """Return an image's height in pixels."""
    return int(_image(value, place).height)


def image_width(value: Any, place: str) -> int:
    """Return an image's width in pixels."""
    return int(_image(value, place).width)


def _image(value: Any, place: str) -> Any:
    with needs("PIL"):
        from PIL import Image
    _require_file(value, f"the image of {place}")
    try:
        return Image.open(io.BytesIO(value), formats=IMAGE_FORMATS)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"the image of {place} cannot be decoded ({error}); copy it again or remove it"
        ) from error


def label(value: Any, place: str) -> int | str:
    """Return a label as a number if it is one, else as text."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text
    is_number = isinstance(value, (int, float, np.number))
    if is_number and -LARGEST_ID < value < LARGEST_ID and int(value) == value:
        return int(value)
    raise DataError(f"the label of {place} is {_shown(value)}; give a whole number or a name")


def numbered_labels(labels: list[int | str]) -> npt.NDArray[np.int64]:
    """Return labels as numbers, int64 ``[n]``: as they are, or names in alphabetical order."""
    if all(isinstance(value, int) for value in labels):
        return np.array(labels, np.int64)
    names = [str(value) for value in labels]
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def text(value: Any, place: str) -> str:
    """Return a text, or the first of several."""
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if not isinstance(value, str):
        raise DataError(f"the text of {place} is {type(value).__name__}; give text")
    return value


def text_bytes(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a text in UTF-8, uint8 ``[length]``."""
    try:
        return np.frombuffer(text(value, place).encode(), np.uint8)
    except UnicodeEncodeError as error:  # half a character: JSON can hold one
        raise DataError(f"the text of {place} is no Unicode ({error}); mend it") from error


def byte_tokens(value: Any, place: str) -> npt.NDArray[np.uint16]:
    """Return a text's UTF-8 bytes as token ids, uint16 ``[length]``, each below 256."""
    return text_bytes(value, place).astype(np.uint16)


def wav(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a sound as a WAV file, uint8 ``[length]``; FLAC is decoded, and loses nothing.

    Raises:
        DataError: the sound does not decode to its end, or is not of 16 bits and 16 kHz.
    """
    samples = _samples(value, place)
    if not value.startswith(_FLAC_START):
        return np.frombuffer(value, np.uint8)
    from skymark.suites.loading.dataset.sounds import wav_bytes

    return wav_bytes(samples)


def flac(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a sound as a FLAC file of one channel, uint8 ``[length]``; WAV files are encoded.

    Raises:
        DataError: the sound does not decode to its end, or is not of 16 bits and 16 kHz.
    """
    samples = _samples(value, place)
    if value.startswith(_FLAC_START):
        return np.frombuffer(value, np.uint8)
    with needs("av"):
        from skymark.suites.loading.dataset.sounds import flac_bytes

        return flac_bytes(samples)


def _samples(value: Any, place: str) -> npt.NDArray[np.int16]:
    """Decode a sound to one channel, int16 ``[n]``."""
    from skymark.suites.loading.transforms.audio import decode_wav

    _require_file(value, f"the sound of {place}")
    try:
        if value.startswith(_FLAC_START):
            with needs("av"):
                from skymark.suites.loading.transforms.compressed_audio import decode_flac
            samples = decode_flac(value)
        else:
            samples = decode_wav(value)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    whole: npt.NDArray[np.int16] = np.rint(samples * 32768).astype(np.int16)
    return whole


def mp4(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a clip's file as it is, uint8 ``[length]``, once all of it has been decoded.

    Raises:
        DataError: a frame cannot be decoded, or not be found by its number.
    """
    with needs("av"):
        from skymark.suites.loading.transforms.video import check_clip
    _require_file(value, f"the clip of {place}")
    try:
        check_clip(value)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    return np.frombuffer(value, np.uint8)


def _require_file(value: Any, what: str) -> None:
    if not isinstance(value, bytes):
        kind = type(value).__name__
        raise DataError(f"{what} is no encoded file but {kind}; give the bytes of one")


def number(value: Any, place: str) -> float | None:
    """Return a number, or None where the field is empty.

    Raises:
        DataError: it is neither.
    """
    if value is None or value == "":
        return None
    try:
        parsed = float(value)
    except (TypeError, ValueError, OverflowError):
        parsed = math.inf
    if abs(parsed) > LARGEST_FIGURE:
        raise DataError(f"{place} holds {_shown(value)}, where a number is needed")
    return None if math.isnan(parsed) else parsed


def numbers(row: tuple[Any, ...], place: str) -> npt.NDArray[np.float32]:
    """Return numbers, float32 ``[n]``; none may be missing."""
    parsed = [number(value, place) for value in row]
    if None in parsed:
        raise DataError(
            f"value {parsed.index(None) + 1} of {place} is missing; fill it in, or remove the row"
        )
    return np.array(parsed, np.float32)


def counts(row: tuple[Any, ...], place: str) -> npt.NDArray[np.int32]:
    """Return counts, int32 ``[n]``; empty fields are `MISSING`."""
    parsed = [number(value, place) for value in row]
    whole = np.array([MISSING if value is None else value for value in parsed])
    return whole.clip(-(2**31), 2**31 - 1).astype(np.int32)


def categories(row: tuple[Any, ...], place: str) -> npt.NDArray[np.int64]:
    """Return category ids, int64 ``[n]``; empty fields are `MISSING`."""
    del place
    return np.array([category(value) for value in row], np.int64)


def _shown(value: Any) -> str:
    return repr(value)[:LONGEST_SHOWN]


def category(value: Any) -> int:
    """Return the id of a category.

    Whole numbers stand for themselves, as do Criteo's 32-bit hashes, written in hexadecimal; any
    other text is hashed to 63 bits (BLAKE2b).
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN alone differs
        return MISSING
    if isinstance(value, (int, float, np.number)) and -LARGEST_ID < value < LARGEST_ID:
        return int(value)
    if _HEXADECIMAL.fullmatch(str(value).lower()):
        return int(str(value), 16)
    digest = hashlib.blake2b(str(value).encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
