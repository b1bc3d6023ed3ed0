"""Tables made ready for recommendation models: logarithms of counts, hashed categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
"""Multipliers of MurmurHash3's 64-bit finaliser (Austin Appleby, public domain)."""
INCREMENT = 0x9E3779B97F4A7C15
"""Weyl increment of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014), which gives every feature a hash of its own."""
_SHIFT = np.uint64(33)


def log_counts(counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return ``log(1 + max(x, 0))`` as DLRM takes it of Criteo's counts (missing is negative).

    Naumov et al., "Deep learning recommendation model for personalization and recommendation
    systems" (2019), in the preprocessing of its reference implementation.

    Args:
        counts: integers of any shape.

    Returns:
        float32 of the same shape.
    """
    logs: npt.NDArray[np.float32] = np.log1p(np.maximum(counts, 0).astype(np.float32))
    return logs


def mix(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply MurmurHash3's 64-bit finaliser, a bijection of 64-bit words, to each key."""
    mixed = keys ^ (keys >> _SHIFT)
    mixed *= MIXERS[0]
    mixed ^= mixed >> _SHIFT
    mixed *= MIXERS[1]
    mixed ^= mixed >> _SHIFT
    return mixed


def feature_keys(features: int) -> npt.NDArray[np.uint64]:
    """Return the key added to the ids of each feature before mixing, uint64 ``[features]``."""
    return np.arange(features, dtype=np.uint64) * np.uint64(INCREMENT)


def hashed(
    ids: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64], tables: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int32]:
    """Hash categorical ids to rows of embedding tables: ``mix(id + key) mod table size``.

    Args:
        ids: int64 ``[F]``, any value; negative ones are taken modulo 2**64.
        keys: uint64 ``[F]``, see `feature_keys`.
        tables: uint64 ``[F]``, rows of each feature's table, each below 2**31.

    Returns:
        int32 ``[F]``, 0 ≤ row < table size.
    """
    return (mix(ids.view(np.uint64) + keys) % tables).astype(np.int32)
