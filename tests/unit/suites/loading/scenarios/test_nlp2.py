"""NLP-2 does what it says; mixed buckets, surplus padding and known mistakes are refused."""

from __future__ import annotations

import re
from bisect import bisect_left

import numpy as np
import pytest

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyReference
from skymark.suites.loading.oracle import Content, Elements, Oracle, Order
from skymark.suites.loading.scenarios.nlp_texts import TextSequences
from skymark.suites.loading.work import Size

SIZE = Size(elements=300, batch_size=16, values={"longest": 128, "classes": 2})


@pytest.fixture
def scenario():
    return TextSequences(size=SIZE, seed=3)


@pytest.fixture
def oracle(scenario, tmp_path):
    return Oracle(scenario, scenario.generate(tmp_path / "data"))


def lengths(oracle):
    return np.array([min(len(element["tokens"]), 126) + 2 for element in oracle.dataset])


def of_one_bucket(oracle, count=16):
    buckets = np.array([bisect_left((32, 64, 128), length) for length in lengths(oracle)])
    return np.flatnonzero(buckets == 0)[:count]


def test_every_variant_ends_with_a_short_batch():
    for size in TextSequences.variants.values():
        assert size.elements % size.batch_size


def test_some_texts_are_longer_than_allowed_and_are_truncated(scenario, oracle):
    raw = np.array([len(element["tokens"]) for element in oracle.dataset])
    assert raw.max() > 128
    transformed = scenario.transform(oracle.dataset[int(raw.argmax())], 0)
    assert len(transformed["tokens"]) == 128
    assert transformed["tokens"][0] != transformed["tokens"][-1]


def test_a_batch_is_padded_to_its_longest_with_a_mask(scenario, oracle):
    chosen = of_one_bucket(oracle)
    batch = oracle.reference.batch(0, chosen)
    longest = lengths(oracle)[chosen].max()
    assert batch["tokens"].shape == batch["attention_mask"].shape == (16, longest)
    assert batch["tokens"].dtype == np.int32
    assert np.array_equal(batch["attention_mask"].sum(axis=1), lengths(oracle)[chosen])


class Unbucketed(TextSequences):
    bucket_boundaries = ()


def test_the_texts_of_a_bucket_may_lie_together_in_storage(oracle):
    random = np.random.default_rng(1)
    starts = random.permutation(range(0, 288, 16))
    batches = [random.permutation(np.arange(start, start + 16)) for start in starts]
    plain = Oracle(Unbucketed(SIZE), oracle.dataset)
    assert Order(0, batches).fault(plain).kind == "hardly-shuffled"
    oracle.check(Order(0, batches))
    assert oracle.cause is None


def test_a_batch_of_one_bucket_passes(oracle):
    oracle.check(Content(0, oracle.reference.batch(0, of_one_bucket(oracle))))
    assert oracle.verdict().passed


def test_a_batch_that_mixes_buckets_is_refused(oracle):
    short, long = lengths(oracle).argmin(), lengths(oracle).argmax()
    oracle.check(Content(0, oracle.reference.batch(0, np.array([short, long]))))
    cause = oracle.verdict().cause
    assert cause is not None
    assert cause.kind == "mixed-buckets"
    assert re.search(rf"element {long} .*\b128 .*bucket 2 ", cause.message)


def test_padding_beyond_the_longest_is_refused(oracle):
    batch = oracle.reference.batch(0, of_one_bucket(oracle))
    for name in ("tokens", "attention_mask"):
        batch[name] = np.pad(batch[name], ((0, 0), (0, 3)))
    oracle.check(Content(0, batch))
    assert oracle.cause is not None
    assert oracle.cause.kind == "shape"


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        (place, mistake)
        for place, stage in enumerate(TextSequences(size=SIZE).stages())
        for mistake in stage.mistakes
    ],
)
def test_a_known_mistake_is_named(scenario, oracle, place, mistake):
    stages = list(scenario.stages())
    stages[place] = stages[place]._replace(apply=stages[place].mistakes[mistake])
    is_of_long_texts = scenario.stages()[place].name == "truncate"
    long = np.flatnonzero(lengths(oracle) == 128)[:4]
    chosen = long if is_of_long_texts else of_one_bucket(oracle)
    oracle.check(Content(0, oracle.reference.batch(0, chosen, stages=stages)))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message


def test_the_reference_loop_delivers_batches_of_one_bucket(scenario, oracle):
    job = LoadingJob(
        scenario=scenario,
        dataset=oracle.dataset,
        storage=oracle.dataset.directory,
        format="canonical",
        batch_size=16,
    )
    batches = list(NumpyReference().open(job).epoch(0))
    for batch in batches:
        oracle.check(Content(0, batch))
    oracle.check(Elements(0, [batch["index"] for batch in batches], batch_size=16))
    assert oracle.verdict().passed, oracle.cause
