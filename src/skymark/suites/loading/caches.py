"""Work of one epoch that an adapter keeps for the next."""

from __future__ import annotations

from typing import Literal

Caches = Literal["nothing", "objects", "decoded", "finished"]
"""Nothing, objects fetched from a store, decoded elements, or finished ones."""
