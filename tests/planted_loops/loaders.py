"""Loaders of a user's own with a known limit, for `skymark tune FILE.py:NAME`."""

from __future__ import annotations

from typing import Any

from loops import Costs, torch_loader

BATCHES = 400


def _loader(costs: Costs, num_workers: int, **settings: Any) -> Any:
    """A PyTorch loader; without workers its other settings have no meaning."""
    return torch_loader(
        costs, BATCHES, {}, num_workers=num_workers, **settings if num_workers else {}
    )


def decoding(
    num_workers: int = 0, prefetch_factor: int = 2, persistent_workers: bool = False
) -> Any:
    """A fifth less than a step of 20 ms for one core."""
    return _loader(
        Costs(decode=4),
        num_workers,
        prefetch_factor=prefetch_factor,
        persistent_workers=persistent_workers,
    )


def transforming(num_workers: int = 0, prefetch_factor: int = 2, in_order: bool = True) -> Any:
    """More than a step of 20 ms, in Python, for one core."""
    return _loader(
        Costs(transform=7), num_workers, prefetch_factor=prefetch_factor, in_order=in_order
    )


def waiting(num_workers: int = 0, prefetch_factor: int = 2) -> Any:
    """Storage that answers after 10 ms: workers cost no core."""
    return _loader(Costs(read=10), num_workers, prefetch_factor=prefetch_factor)


def choosing(num_workers: int = 0, prefetch_factor: int = 2, decode: str = "slow") -> Any:
    """Two decoders, of which one takes half of the time."""
    costs = Costs(decode={"slow": 8, "fast": 4}[decode])
    return _loader(costs, num_workers, prefetch_factor=prefetch_factor)
