"""NLP-3 packs the documents of a batch, every token once, and its known mistakes are named."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyReference
from skymark.suites.loading.oracle import Content, Elements, Oracle
from skymark.suites.loading.scenarios.nlp_texts import DocumentPacking
from skymark.suites.loading.transforms.text import END, document_tokens, text_tokens
from skymark.suites.loading.work import Size

SIZE = Size(elements=205, batch_size=32, values={"block": 128, "words": 40})
CHOSEN = np.arange(40, 72)


@pytest.fixture(scope="module")
def scenario():
    return DocumentPacking(size=SIZE, seed=3)


@pytest.fixture(scope="module")
def dataset(scenario, tmp_path_factory):
    return scenario.generate(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture
def oracle(scenario, dataset):
    return Oracle(scenario, dataset)


def tokens_of(oracle, index):
    return document_tokens(oracle.dataset[int(index)]["document"]).tolist()


def pieces_in(batch):
    """The tokens of each packed piece, without the end token."""
    found = []
    for row in range(len(batch["inputs"])):
        whole = np.append(batch["inputs"][row], batch["targets"][row][-1])
        segments = batch["segment_ids"][row]
        for segment in range(1, segments.max() + 1):
            places = np.flatnonzero(segments == segment)
            piece = whole[places[0] : places[-1] + 2].tolist()
            found.append(piece[: piece.index(END)])
    return found


def test_every_variant_ends_with_a_short_batch():
    for size in DocumentPacking.variants.values():
        assert size.elements % size.batch_size


def test_documents_are_text_of_many_lengths(oracle):
    texts = [bytes(element["document"]).decode() for element in oracle.dataset]
    words = [len(text.split()) for text in texts]
    assert 25 < np.median(words) < 60
    assert max(words) > 7 * np.median(words) / 2
    assert all(text.endswith(".") for text in texts)


def test_tokens_are_those_of_the_text_in_lower_case(oracle):
    text = bytes(oracle.dataset[0]["document"])
    assert tokens_of(oracle, 0) == text_tokens(text.decode().lower())


def test_a_batch_holds_every_token_of_its_documents_once_and_none_across_rows(oracle):
    batch = oracle.reference.batch(0, CHOSEN)
    assert batch["index"].tolist() == CHOSEN.tolist()
    documents = [tokens_of(oracle, index) for index in CHOSEN]
    cut = [one[at : at + 128] for one in documents for at in range(0, len(one), 128)]
    assert sorted(pieces_in(batch)) == sorted(cut)


def test_rows_are_fuller_than_documents_in_the_order_in_which_they_came(scenario, oracle):
    packed = oracle.reference.batch(0, CHOSEN)
    assert (packed["segment_ids"] > 0).mean() > 0.9
    elements = [scenario.transform(oracle.dataset[int(index)], 0) for index in CHOSEN]
    mistakes = scenario.collate_mistakes
    (loose,) = (collate for name, collate in mistakes.items() if "order" in name)
    assert len(loose(elements)["inputs"]) > len(packed["inputs"])


def test_fields_are_of_rows_and_the_index_of_documents(oracle):
    batch = oracle.reference.batch(0, CHOSEN)
    rows = len(batch["inputs"])
    for name in ("inputs", "targets", "segment_ids", "positions"):
        assert (batch[name].shape, batch[name].dtype) == ((rows, 128), np.int32)
    assert (batch["loss_mask"].shape, batch["loss_mask"].dtype) == ((rows, 128), np.uint8)


def test_the_reference_passes(oracle):
    oracle.check(Content(0, oracle.reference.batch(0, CHOSEN)))
    assert oracle.verdict().passed


def test_documents_of_another_order_are_another_batch(oracle):
    batch = oracle.reference.batch(0, CHOSEN)
    oracle.check(Content(0, batch | {"index": CHOSEN[::-1]}))
    assert not oracle.verdict().passed


@pytest.mark.parametrize("mistake", DocumentPacking(size=SIZE).collate_mistakes)
def test_a_known_mistake_in_packing_is_named(scenario, oracle, mistake):
    elements = [scenario.transform(oracle.dataset[int(index)], 0) for index in CHOSEN]
    oracle.check(Content(0, scenario.collate_mistakes[mistake](elements)))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message


@pytest.mark.parametrize("mistake", DocumentPacking(size=SIZE).stages()[0].mistakes)
def test_a_known_mistake_in_tokenising_is_named(scenario, oracle, mistake):
    (stage,) = scenario.stages()
    wrong = stage._replace(apply=stage.mistakes[mistake])
    oracle.check(Content(0, oracle.reference.batch(0, CHOSEN, stages=[wrong])))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message


def test_rows_that_lie_in_another_order_are_not_what_was_asked(oracle):
    batch = oracle.reference.batch(0, CHOSEN)
    oracle.check(Content(0, {n: v if n == "index" else v[::-1] for n, v in batch.items()}))
    assert oracle.cause is not None


def test_the_reference_loop_delivers_every_document_once(scenario, oracle):
    job = LoadingJob(
        scenario=scenario,
        dataset=oracle.dataset,
        storage=oracle.dataset.directory,
        format="canonical",
        batch_size=32,
    )
    batches = list(NumpyReference().open(job).epoch(0))
    for batch in batches:
        oracle.check(Content(0, batch))
    oracle.check(Elements(0, [batch["index"] for batch in batches], batch_size=32))
    assert oracle.verdict().passed, oracle.cause
