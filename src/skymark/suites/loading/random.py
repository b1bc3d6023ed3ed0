"""Counter-based random numbers: pure functions of (seed, epoch, index).

Philox-4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011), written for arrays of counters. Because a draw is a pure function of its counter, the
order of elements and the number of workers cannot change it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox(
    counter: npt.NDArray[np.uint32], key: tuple[int, int], rounds: int = 10
) -> npt.NDArray[np.uint32]:
    """Return the Philox-4x32 block of each counter.

    Args:
        counter: uint32 ``[n, 4]``.
        key: two 32-bit words.
        rounds: 10 is the number the authors recommend.

    Returns:
        uint32 ``[n, 4]``, uniform over all 32-bit words.
    """
    words = [counter[:, column].astype(np.uint64) for column in range(4)]
    keys = [np.uint32(word & 0xFFFFFFFF) for word in key]
    with np.errstate(over="ignore"):
        for _ in range(rounds):
            product_0 = words[0] * _MULTIPLIERS[0]
            product_1 = words[2] * _MULTIPLIERS[1]
            words = [
                (product_1 >> _SHIFT) ^ words[1] ^ np.uint64(keys[0]),
                product_1 & _LOW,
                (product_0 >> _SHIFT) ^ words[3] ^ np.uint64(keys[1]),
                product_0 & _LOW,
            ]
            keys = [np.uint32(keys[0] + _WEYL[0]), np.uint32(keys[1] + _WEYL[1])]
    return np.stack(words, axis=1).astype(np.uint32)


def uniforms(
    seed: int, epoch: int, indices: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.float64]:
    """Draw `count` numbers in [0, 1) for each element.

    Args:
        seed: the run's seed, 0 ≤ seed < 2**64.
        epoch: number of the pass over the data, 0 ≤ epoch < 2**32.
        indices: int64 ``[n]``, the elements, each 0 ≤ index < 2**32.
        count: draws per element.

    Returns:
        float64 ``[n, count]`` with 32 random bits each.
    """
    key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    blocks = []
    for block in range(-(-count // 4)):
        counter = np.empty((len(indices), 4), np.uint32)
        counter[:, 0] = indices
        counter[:, 1] = epoch
        counter[:, 2] = block
        counter[:, 3] = 0
        blocks.append(philox(counter, key))
    return np.concatenate(blocks, axis=1)[:, :count] / np.float64(2**32)


def derived_seed(seed: int, epoch: int) -> int:
    """Return a 31-bit seed for a library's own shuffle in one epoch."""
    counter = np.array([[0, epoch, 0, 1]], np.uint32)
    return int(philox(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))[0, 0] >> 1)
