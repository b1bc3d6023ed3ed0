"""Packing and shifting of token blocks."""

from __future__ import annotations

import numpy as np

from skymark.suites.loading.transforms.text import delimit, pack, pad, shift

END = 99


def packed(*documents: list[int], length: int = 9, separate: bool = True):
    tokens = np.array([token for document in documents for token in document], np.uint16)
    lengths = np.array([len(document) for document in documents], np.int32)
    return pack(tokens, lengths, length, END, separate=separate)


def test_documents_are_closed_by_an_end_token_and_padded():
    block = packed([1, 2, 3], [4, 5])
    assert block.tokens.tolist() == [1, 2, 3, END, 4, 5, END, END, END]
    assert block.segment_ids.tolist() == [1, 1, 1, 1, 2, 2, 2, 0, 0]
    assert block.positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1]
    assert {array.dtype for array in block} == {np.dtype(np.int32)}


def test_what_does_not_fit_is_cut_off():
    block = packed([1, 2, 3], [4, 5, 6], length=6)
    assert block.tokens.tolist() == [1, 2, 3, END, 4, 5]
    assert block.segment_ids.tolist() == [1, 1, 1, 1, 2, 2]


def test_a_block_without_documents_is_all_padding():
    block = packed(length=3)
    assert block.tokens.tolist() == [END] * 3
    assert block.segment_ids.tolist() == [0] * 3


def test_an_empty_document_leaves_only_its_end_token():
    assert packed([], [7], length=4).tokens.tolist() == [END, 7, END, END]


def test_without_separators_documents_touch():
    assert packed([1, 2], [3], length=5, separate=False).tokens.tolist() == [1, 2, 3, END, END]


def test_targets_are_the_next_tokens_and_the_loss_stays_within_a_document():
    element = shift(packed([1, 2], [4], length=6))
    assert element["inputs"].tolist() == [1, 2, END, 4, END]
    assert element["targets"].tolist() == [2, END, 4, END, END]
    assert element["loss_mask"].tolist() == [1, 1, 0, 1, 0]
    assert element["segment_ids"].tolist() == [1, 1, 1, 2, 2]
    assert element["positions"].tolist() == [0, 1, 2, 0, 1]


def test_delimiters_stand_where_they_are_asked_for():
    tokens = np.array([5, 6], np.uint16)
    assert delimit(tokens, 1, 2).tolist() == [1, 5, 6, 2]
    assert delimit(tokens, None, 2).tolist() == [5, 6, 2]
    assert delimit(tokens[:0], 1, None).tolist() == [1]
    assert delimit(tokens, None, None).dtype == np.int32


def test_sequences_are_padded_to_the_longest():
    ids, mask = pad([np.array([1], np.int32), np.array([2, 3, 4], np.int32)], padding=9)
    assert ids.tolist() == [[1, 9, 9], [2, 3, 4]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1]]
