"""Logarithms and hashes agree with their definitions."""

from __future__ import annotations

import numpy as np

from skymark.suites.loading.transforms.numeric import feature_keys, hashed, log_counts, mix

WORD = (1 << 64) - 1


def murmur_finaliser(key: int) -> int:
    """Write MurmurHash3's finaliser as its author does, in whole numbers."""
    key ^= key >> 33
    key = key * 0xFF51AFD7ED558CCD & WORD
    key ^= key >> 33
    key = key * 0xC4CEB9FE1A85EC53 & WORD
    return key ^ (key >> 33)


def test_missing_counts_are_zero_after_the_logarithm():
    logs = log_counts(np.array([-3, -1, 0, 1, 99], np.int32))
    assert logs.dtype == np.float32
    assert np.allclose(logs, [0, 0, 0, np.log(2), np.log(100)])


def test_the_hash_is_murmurhash3s_finaliser():
    keys = [0, 1, 2**63, WORD, 0x123456789ABCDEF]
    assert mix(np.array(keys, np.uint64)).tolist() == [murmur_finaliser(key) for key in keys]


def test_rows_lie_in_their_tables_and_depend_on_the_feature():
    ids = np.full(3, 77, np.int64)
    tables = np.array([10, 1000, 1000], np.uint64)
    rows = hashed(ids, feature_keys(3), tables)
    assert rows.dtype == np.int32
    assert np.all(rows < tables.astype(np.int64))
    assert rows[1] != rows[2]


def test_a_missing_id_hashes_like_any_other():
    key = 0x9E3779B97F4A7C15
    row = hashed(np.array([5, -1]), feature_keys(2), np.array([7, 1000], np.uint64))[1]
    assert row == murmur_finaliser((WORD + key) & WORD) % 1000


def test_rows_are_spread_evenly():
    ids = np.arange(100_000, dtype=np.int64)
    rows = hashed(ids, np.zeros(len(ids), np.uint64), np.full(len(ids), 50, np.uint64))
    counts = np.bincount(rows, minlength=50)
    assert abs(counts / 2000 - 1).max() < 0.1
