"""Similarities of features, always in fp32, whatever precision the encoders have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ROWS = 1024
"""Queries that are compared at a time, so that memory does not grow with their number."""


def unit(features: Any) -> Any:
    """Return features of length 1, in fp32."""
    import torch

    return torch.nn.functional.normalize(features.float(), dim=-1)


def compared(queries: Any, others: Any) -> Iterator[tuple[int, Any]]:
    """Yield similarities of some queries with all others, with the number of the first query."""
    for start in range(0, len(queries), ROWS):
        yield start, queries[start : start + ROWS] @ others.T
