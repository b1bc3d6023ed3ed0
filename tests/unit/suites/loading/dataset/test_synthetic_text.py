"""Synthetic text is deterministic and has the statistics it claims."""

from __future__ import annotations

import numpy as np

from skymark.suites.loading.dataset.text import END_OF_TEXT, write_blocks, zipf_tokens


def test_tokens_follow_zipfs_law_with_mandelbrots_offset():
    tokens = zipf_tokens(np.random.default_rng(1), 1_000_000)
    counts = np.bincount(tokens, minlength=END_OF_TEXT)
    for first, second in ((0, 9), (9, 99), (3, 30)):
        expected = (second + 2.7) / (first + 2.7)
        assert abs(counts[first] / counts[second] / expected - 1) < 0.1
    assert tokens.max() < END_OF_TEXT


def test_blocks_are_the_same_each_time_and_nearly_full(tmp_path):
    first, second = (write_blocks(tmp_path / name, 50, 129) for name in "ab")
    assert len(first) == 50
    for index in range(50):
        assert np.array_equal(first[index]["tokens"], second[index]["tokens"])
        assert np.array_equal(first[index]["lengths"], second[index]["lengths"])
        assert first[index]["lengths"].sum() == len(first[index]["tokens"])
    used = sum(len(element["tokens"]) + len(element["lengths"]) for element in first)
    assert used / (50 * 129) > 0.97


def test_tokens_are_stored_in_two_bytes(tmp_path):
    element = write_blocks(tmp_path, 5, 65)[0]
    assert element["tokens"].dtype == np.uint16
    assert element["lengths"].dtype == np.int32
