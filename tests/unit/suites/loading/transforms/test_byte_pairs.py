"""The tokenizer learns, splits and frames as its sources say."""

from __future__ import annotations

import numpy as np

from skymark.suites.loading.dataset.text import WORDS, captions
from skymark.suites.loading.transforms.text import (
    END,
    FIRST_MERGE,
    MERGES,
    START,
    byte_pairs,
    learn,
    merged,
    symbols,
    text_tokens,
    tokenise,
    tokenise_bytes,
)


def decoded(tokens: list[int]) -> str:
    """Spell tokens out again, a space after each end of a word."""
    parts = {token: pair for pair, token in byte_pairs().items()}

    def spell(token: int) -> bytes:
        if token in parts:
            return b"".join(map(spell, parts[token]))
        return bytes([token - 1]) if token <= 256 else bytes([token - 257]) + b" "

    return b"".join(map(spell, tokens)).decode()


def test_the_most_frequent_pair_is_learned_first():
    pairs = learn(["aab", "aac", "ab"], 2)
    a, ends_in_b = ord("a") + 1, ord("b") + 257
    assert list(pairs.items()) == [((a, a), FIRST_MERGE), ((a, ends_in_b), FIRST_MERGE + 1)]


def test_learning_stops_when_no_pair_is_left():
    assert len(learn(["ab"], 10)) == 1


def test_pairs_are_merged_from_left_to_right():
    assert merged((1, 1, 1, 2), (1, 1), 9) == (9, 1, 2)


def test_the_last_byte_of_a_word_is_marked():
    assert symbols("ab") == (ord("a") + 1, ord("b") + 257)


def test_text_survives_but_for_case_and_spacing():
    text = "Two DOGS run, 42 wörld's 日本"
    assert decoded(text_tokens(text)) == "two dogs run , 4 2 wörld 's 日本 "


def test_the_vocabulary_is_full_and_words_of_captions_are_short():
    assert len(byte_pairs()) == MERGES
    assert np.mean([len(text_tokens(word)) for word in WORDS]) < 2.5


def test_a_caption_is_framed_and_padded():
    ids = tokenise("a dog")
    assert (ids.dtype, ids.shape) == (np.int32, (77,))
    length = len(text_tokens("a dog")) + 2
    assert ids[0] == START
    assert ids[length - 1] == END
    assert not ids[length:].any()


def test_a_long_text_is_cut_off_but_keeps_its_end():
    ids = tokenise("dog " * 200)
    assert ids[-1] == END
    assert np.all(ids > 0)


def test_without_delimiters_there_is_no_start():
    assert START not in tokenise("a dog", delimited=False)
    assert tokenise("dog " * 200, delimited=False).all()


def test_bytes_give_the_same_tokens_as_their_text():
    data = np.frombuffer("ein Bär".encode(), np.uint8)
    assert np.array_equal(tokenise_bytes(data), tokenise("ein Bär"))


def test_synthetic_captions_fit_and_are_as_long_as_those_of_coco():
    texts = [bytes(data).decode() for data in captions(np.random.default_rng(0), 500)]
    assert 8 < np.mean([len(text.split()) for text in texts]) < 13
    assert max(len(text_tokens(text)) for text in texts) <= 75
