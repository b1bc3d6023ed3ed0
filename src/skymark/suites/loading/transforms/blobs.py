"""Work on opaque objects: a checksum, so cheap that reading dominates."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Parameters


def checksum(element: Element, parameters: Parameters) -> Element:
    """Add ``checksum``, the CRC-32 of ``payload`` as int64, as storage clients do."""
    del parameters
    payload = np.asarray(element["payload"]).tobytes()
    return {**element, "checksum": np.int64(zlib.crc32(payload))}
