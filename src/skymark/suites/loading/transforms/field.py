"""Work on one field of an element: chains of cheap operations, checksums of blobs.

The operations keep values bounded and neither contract nor expand much, so that a chain of any
length still shows whether one of its links was left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Parameters


def on(
    field: str, work: Callable[[Any], Any], into: str | None = None
) -> Callable[[Element, Parameters], Element]:
    """Return a stage's `apply` that replaces a field by ``work(field)``.

    Args:
        field: what the work reads.
        work: called with the field's value.
        into: the result's name where it is another; `field` is then dropped.
    """

    def apply(element: Element, parameters: Parameters) -> Element:
        del parameters
        if into is None:
            return {**element, field: work(element[field])}
        kept = {name: value for name, value in element.items() if name != field}
        return {**kept, into: work(element[field])}

    return apply


Vector = npt.NDArray[Any]
"""float32; float64 where the oracle computes in double precision."""

GAIN = np.float32(1.5)
THRESHOLD = np.float32(0.8)
PLACES = 3
BEND = np.float32(0.3)
LEVEL = 2.0


def scale(values: Vector) -> Vector:
    """Return ``1.5 x``."""
    return values * GAIN


def fold(values: Vector) -> Vector:
    """Return ``|x| - 0.8``."""
    return np.abs(values) - THRESHOLD


def rotate(values: Vector) -> Vector:
    """Move every value three places to the front, the first three to the end."""
    return np.concatenate((values[PLACES:], values[:PLACES]))


def bend(values: Vector) -> Vector:
    """Return ``x + 0.3 sin x``."""
    bow: Vector = np.sin(values)
    return values + bow * BEND


def level(values: Vector) -> Vector:
    """Scale to a root mean square of 2; a vector of zeros stays as it is."""
    power = float(values @ values) / len(values)
    return values * values.dtype.type(LEVEL / np.sqrt(power)) if power else values


LINKS: Mapping[str, Callable[[Vector], Vector]] = {
    "scale": scale,
    "fold": fold,
    "rotate": rotate,
    "bend": bend,
    "level": level,
}
"""The operations of a chain, over and over in this order."""


def checksum(element: Element, parameters: Parameters) -> Element:
    """Add ``checksum``, the CRC-32 of ``payload`` as int64, as storage clients do."""
    del parameters
    payload = np.asarray(element["payload"]).tobytes()
    return {**element, "checksum": np.int64(zlib.crc32(payload))}
