"""Conversion of values of real data for canonical columns."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import numpy.typing as npt

from skymark.image_formats import opened_image
from skymark.model.errors import DataError
from skymark.resources import needs
from skymark.suites.loading.dataset.tabular import MISSING

LARGEST_ID = 1 << 63
LARGEST_FIGURE = float(np.finfo(np.float32).max)
LONGEST_SHOWN = 80
"""Characters of a value that a message shows."""
_HASH = re.compile(r"[0-9a-f]{8}")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


def jpeg(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return an image's unchanged file, uint8 ``[length]``, after decoding it to its end.

    The column has the name of the usual format; the file may have any of `IMAGE_FORMATS`.

    Raises:
        DataError: the image does not decode to its end, or not to 8-bit RGB.
    """
    with needs("PIL"):
        from skymark.suites.loading.transforms.images import rgb
    with _opened(value, place) as image:
        rgb(image)
    return np.frombuffer(value, np.uint8)


def image_height(value: Any, place: str) -> int:
    """Return the height in pixels that the decoded image has."""
    with _opened(value, place) as image:
        return int(image.height)


def image_width(value: Any, place: str) -> int:
    """Return the width in pixels that the decoded image has."""
    with _opened(value, place) as image:
        return int(image.width)


@contextmanager
def _opened(value: Any, place: str) -> Iterator[Any]:
    """Open an image; errors within name its place."""
    what = f"the image of {place}"
    _require_file(value, what)
    with needs("PIL"), opened_image(value, what) as image:
        yield image


def label(value: Any, place: str) -> int | str:
    """Return a label as a number if it is one, else as text.

    Text such as ``7`` is a number; ``07`` and ``7.0`` are not, because they may be names beside it.
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        text = value.strip()
        return int(text) if _WHOLE.fullmatch(text) else text
    is_number = isinstance(value, (int, float, np.number))
    if is_number and -LARGEST_ID < value < LARGEST_ID and int(value) == value:
        return int(value)
    raise DataError(f"the label of {place} is {_shown(value)}; give a whole number or a name")


def numbered_labels(labels: list[int | str]) -> npt.NDArray[np.int64]:
    """Return labels as numbers, int64 ``[n]``; names are numbered in alphabetical order."""
    if all(isinstance(value, int) for value in labels):
        return np.array(labels, np.int64)
    names = [str(value) for value in labels]
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def text(value: Any, place: str) -> str:
    """Return a text, the first of several, or the messages of a chat, a line each."""
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(one, dict) for one in value):
            return "\n".join(_message(one, place) for one in value)
        value = value[0]
    if not isinstance(value, str):
        kind = "missing" if value is None else f"{type(value).__name__} {_shown(value)}"
        raise DataError(f"the text of {place} is {kind}; give text or remove the row")
    return value


def _message(message: dict[str, Any], place: str) -> str:
    content = next((message[key] for key in ("content", "value") if key in message), None)
    if isinstance(content, list):  # of parts, each of which has a text or an image
        content = " ".join(part.get("text") or "" for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise DataError(f"a message of {place} has no text as its 'content'; add it")
    return content


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
    """Return a sound as a WAV file of 16 bits and 16 kHz, uint8 ``[length]``.

    Such WAV files stay unchanged; other sounds are decoded, and resampled if needed.

    Raises:
        DataError: the sound does not decode to its end.
    """
    from skymark.suites.loading.transforms.audio import decode_wav, is_usual_wav

    _require_file(value, f"the sound of {place}")
    with _named(place):
        if is_usual_wav(value):
            decode_wav(value)
            return np.frombuffer(value, np.uint8)
        with needs("av"):
            from skymark.suites.loading.dataset.sounds import decoded_sound, wav_bytes
        return wav_bytes(decoded_sound(value))


def flac(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a sound as a FLAC file of one channel and 16 kHz, uint8 ``[length]``.

    Such FLAC files stay unchanged; other sounds are decoded, and resampled if needed.

    Raises:
        DataError: the sound does not decode to its end.
    """
    _require_file(value, f"the sound of {place}")
    with needs("av"):
        from skymark.suites.loading.dataset.sounds import decoded_sound, flac_bytes, is_usual_flac
    with _named(place):
        if is_usual_flac(value):
            return np.frombuffer(value, np.uint8)
        return flac_bytes(decoded_sound(value))


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Put the place before what is wrong with an element."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def mp4(value: Any, place: str) -> npt.NDArray[np.uint8]:
    """Return a clip as an MP4 file, uint8 ``[length]``, after decoding all of it.

    Frames of other containers are moved into MP4 without a new encoding.

    Raises:
        DataError: a frame cannot be decoded, or cannot be found by its number.
    """
    with needs("av"):
        from skymark.suites.loading.transforms.video import as_mp4, check_clip
    _require_file(value, f"the clip of {place}")
    with _named(place):
        clip = as_mp4(value)
        check_clip(clip)
    return np.frombuffer(clip, np.uint8)


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
        advice = "remove the column, or turn it into numbers"
        if _COMMA.fullmatch(str(value).strip()):
            advice = "write it with a decimal point"
        raise DataError(f"{place} holds {_shown(value)}, where a number is needed; {advice}")
    return None if math.isnan(parsed) else parsed


def numbers(row: Mapping[str, Any], place: str) -> npt.NDArray[np.float64]:
    """Return the numbers of fields, float64 ``[n]``; none may be missing.

    Dates are seconds since 1970. Single precision would lose the difference between two of them.
    """
    parsed = {name: _figure(name, value, place) for name, value in row.items()}
    if missing := [name for name, value in parsed.items() if value is None]:
        raise DataError(f"{missing[0]!r} of {place} is missing; fill it in, or remove the row")
    return np.array(list(parsed.values()), np.float64)


def _figure(name: str, value: Any, place: str) -> float | None:
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return number(value, f"{name!r} of {place}")


def counts(row: Mapping[str, Any], place: str) -> npt.NDArray[np.int32]:
    """Return counts, int32 ``[n]``; empty fields are `MISSING`."""
    parsed = [number(value, f"{name!r} of {place}") for name, value in row.items()]
    whole = np.array([MISSING if value is None else value for value in parsed])
    return whole.clip(-(2**31), 2**31 - 1).astype(np.int32)


def categories(row: Mapping[str, Any], place: str) -> npt.NDArray[np.int64]:
    """Return category ids, int64 ``[n]``; empty fields are `MISSING`."""
    del place
    return np.array([category(value) for value in row.values()], np.int64)


class _Shown(reprlib.Repr):
    """Values as messages have them: short, and without the bytes of files."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = LONGEST_SHOWN

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Return the number of bytes."""
        del level
        return f"{len(value)} bytes"


_shown = _Shown().repr


def category(value: Any) -> int:
    """Return the id of a category.

    Whole numbers stand for themselves, and so do Criteo's 32-bit hashes, written as eight
    hexadecimal digits. Anything else is hashed to 63 bits (BLAKE2b), so that ``1`` and ``01`` are
    two categories.
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN alone differs
        return MISSING
    is_number = isinstance(value, (int, float, np.number))
    if is_number and 0 <= value < LARGEST_ID and int(value) == value:
        return int(value)
    if isinstance(value, str) and _HASH.fullmatch(value):
        return int(value, 16)
    digest = hashlib.blake2b(str(value).encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
