"""Mistakes in places, values, masks and axes are named, whatever the scenario."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.oracle.diagnosis import longer, shifted, shorter
from skymark.suites.loading.scenarios.nlp_texts import TextSequences, TokenBlocks
from skymark.suites.loading.work import Size

INDICES = np.arange(12)
BLOCKS = TokenBlocks(size=Size(elements=12, batch_size=12, values={"block": 64}))
TEXTS = TextSequences(
    size=Size(elements=12, batch_size=12, values={"longest": 64, "classes": 2}), seed=1
)

CUT_TEXTS = TextSequences(
    size=Size(elements=12, batch_size=12, values={"longest": 8, "classes": 2}), seed=1
)
"""So short that most of the texts are longer."""


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return {one.id: one.generate(folder / one.id) for one in (BLOCKS, TEXTS)}


def cause_of(scenario, dataset, **changed):
    oracle = Oracle(scenario, dataset)
    batch = dict(oracle.reference.batch(0, INDICES))
    oracle.check(
        Content(0, {**batch, **{name: change(batch[name]) for name, change in changed.items()}})
    )
    return oracle.cause


@pytest.mark.parametrize(
    ("field", "change", "words"),
    [
        ("inputs", lambda tokens: tokens + 1, "one too large"),
        ("inputs", lambda tokens: shifted(tokens, 1, 1), "one place later"),
        ("positions", lambda places: places + 1, "one too large"),
        ("segment_ids", lambda ids: ids - 1, "one too small"),
        ("loss_mask", lambda mask: shifted(mask, 1, 1), "one place later"),
        ("loss_mask", lambda mask: longer(mask, 1), "ones reach"),
        ("loss_mask", lambda mask: shorter(mask, -1), "ones end"),
        ("loss_mask", lambda mask: 1 - mask, "exchanged"),
        ("inputs", lambda tokens: tokens[:, ::-1], "mirrored along axis 1"),
    ],
)
def test_a_token_or_mask_that_is_off_by_one_is_named(datasets, field, change, words):
    cause = cause_of(BLOCKS, datasets["NLP-1"], **{field: change})
    assert cause.kind == "deformed", cause
    assert words in cause.message
    assert f"{field!r}" in cause.message


def test_an_attention_mask_that_ends_too_early_is_named(datasets):
    cause = cause_of(TEXTS, datasets["NLP-2"], attention_mask=lambda mask: shorter(mask, -1))
    assert cause.kind == "deformed"
    assert "ones end" in cause.message


@pytest.mark.parametrize("mistake", CUT_TEXTS.stages()[0].mistakes)
def test_a_text_that_is_cut_off_by_one_is_named(datasets, mistake):
    dataset = datasets["NLP-2"]
    first, *rest = CUT_TEXTS.stages()
    wrong = [first._replace(apply=first.mistakes[mistake]), *rest]
    oracle = Oracle(CUT_TEXTS, dataset)
    oracle.check(Content(0, oracle.reference.batch(0, INDICES, stages=wrong)))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message


def test_values_without_any_order_are_still_unexplained(datasets):
    random = np.random.default_rng(1)
    cause = cause_of(
        BLOCKS, datasets["NLP-1"], inputs=lambda tokens: random.integers(0, 50_000, tokens.shape)
    )
    assert cause.kind == "content"


def test_what_is_moved_in_leaves_its_own_place_as_it_was():
    values = np.array([[1, 2, 3]])
    assert shifted(values, 1, 1).tolist() == [[1, 1, 2]]
    assert shifted(values, 1, -1).tolist() == [[2, 3, 3]]


def test_runs_of_ones_grow_and_shrink_at_one_end():
    mask = np.array([[0, 1, 1, 0, 0]])
    assert longer(mask, 1).tolist() == [[0, 1, 1, 1, 0]]
    assert longer(mask, -1).tolist() == [[1, 1, 1, 0, 0]]
    assert shorter(mask, -1).tolist() == [[0, 1, 0, 0, 0]]
    assert shorter(mask, 1).tolist() == [[0, 0, 1, 0, 0]]
