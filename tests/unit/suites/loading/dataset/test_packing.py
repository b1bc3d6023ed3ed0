"""The packing plan: nothing lost, nothing too full, little padding."""

from __future__ import annotations

import numpy as np

from skymark.suites.loading.dataset.text import best_fit, pieces_of, plan_blocks


def test_best_fit_decreasing_fills_the_bins_of_a_known_instance():
    sizes = [4, 8, 1, 4, 2, 1]
    bins = [[sizes[item] for item in items] for items in best_fit(np.array(sizes), 10)]
    assert sorted(map(sum, bins)) == [10, 10]


def test_an_item_goes_into_the_fullest_bin_with_room():
    bins = best_fit(np.array([6, 7, 3]), 10)
    assert bins == [[1, 2], [0]]


def test_long_documents_are_cut_and_empty_ones_left_out():
    assert pieces_of(np.array([5, 0, 2]), 2) == [(0, 0, 2), (0, 2, 4), (0, 4, 5), (2, 0, 2)]


def test_a_plan_holds_every_token_once_and_no_block_overflows():
    lengths = np.random.default_rng(3).integers(0, 300, 500)
    plan = plan_blocks(lengths, 128)
    seen = np.zeros(len(lengths), np.int64)
    for block in plan:
        assert sum(piece.stop - piece.start + 1 for piece in block) <= 128
        for piece in block:
            seen[piece.document] += piece.stop - piece.start
    assert np.array_equal(seen, lengths)


def test_a_plan_pads_less_than_one_percent_of_natural_lengths():
    lengths = np.exp(np.random.default_rng(5).normal(4.5, 1, 4000)).astype(np.int64) + 1
    plan = plan_blocks(lengths, 257)
    used = sum(piece.stop - piece.start + 1 for block in plan for piece in block)
    assert used / (257 * len(plan)) > 0.99
