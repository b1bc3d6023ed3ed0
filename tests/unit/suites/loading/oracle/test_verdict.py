"""The oracle accounts for every element, and names what a loader did wrong with them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array, Dataset
from skymark.suites.loading.oracle import (
    Content,
    Declared,
    Elements,
    Oracle,
    Order,
    RankElements,
    kept_content,
    stream_of,
)
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.work import Size

ELEMENTS, BATCH = 50, 8
SIZE = Size(elements=ELEMENTS, batch_size=BATCH, values={"features": 70})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Determinism(SIZE).generate(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture
def oracle(dataset: Dataset) -> Oracle:
    return Oracle(Determinism(SIZE, seed=7), dataset)


def batches(order: Sequence[int] | Array | None = None, size: int = BATCH) -> list[Array]:
    """Cut an order, by default a shuffled one of all elements, into batches."""
    if order is None:
        order = np.random.default_rng(3).permutation(ELEMENTS)
    order = np.asarray(order)
    return [order[start : start + size] for start in range(0, len(order), size)]


def found(oracle: Oracle) -> Cause:
    cause = oracle.cause
    assert cause is not None
    return cause


def test_each_element_once_passes(oracle: Oracle) -> None:
    oracle.check(Elements(0, batches(), batch_size=BATCH))
    oracle.check(Order(0, batches()))
    assert oracle.cause is None
    assert oracle.indexed_elements == ELEMENTS


def test_a_dropped_tail_is_named(oracle: Oracle) -> None:
    oracle.check(Elements(3, batches()[:-1], batch_size=BATCH))
    assert found(oracle).kind == "dropped-tail"
    assert "dropped tail" in found(oracle).message
    assert "epoch 3" in found(oracle).message
    assert f"2 of {ELEMENTS} elements" in found(oracle).message


def test_a_dropped_last_full_batch_is_a_dropped_tail_too(oracle: Oracle) -> None:
    oracle.check(Elements(0, batches(size=10)[:-1], batch_size=10))
    assert found(oracle).kind == "dropped-tail"


def test_dropping_the_tail_passes_where_it_was_asked_for(oracle: Oracle) -> None:
    oracle.check(Elements(0, batches()[:-1], batch_size=BATCH, drop_last=True))
    assert oracle.cause is None


def test_dropping_more_than_the_tail_is_refused_although_a_drop_was_asked_for(
    oracle: Oracle,
) -> None:
    oracle.check(Elements(0, batches()[:-2], batch_size=BATCH, drop_last=True))
    assert found(oracle).kind == "missing-element"


def test_a_skipped_element_is_named(oracle: Oracle) -> None:
    order = [index for index in range(ELEMENTS) if index != 17]
    oracle.check(Elements(0, batches(order), batch_size=BATCH))
    assert found(oracle).kind == "missing-element"
    assert "element 17" in found(oracle).message


def test_missing_elements_pass_where_the_epoch_was_stopped(oracle: Oracle) -> None:
    oracle.check(Elements(0, batches()[:2], complete=False, batch_size=BATCH))
    assert oracle.cause is None


def test_a_repeated_element_is_named(oracle: Oracle) -> None:
    repeating = batches()
    repeating[2] = repeating[2].copy()
    repeating[2][0] = repeating[0][0]
    oracle.check(Elements(0, repeating, batch_size=BATCH))
    assert found(oracle).kind == "repeated-element"
    assert f"element {repeating[0][0]} more than once" in found(oracle).message


def test_a_repeated_element_is_named_even_in_an_epoch_that_was_stopped(oracle: Oracle) -> None:
    oracle.check(Elements(0, [np.array([1, 2, 3, 1])], complete=False))
    assert found(oracle).kind == "repeated-element"


def test_one_batch_served_again_and_again_is_named(oracle: Oracle) -> None:
    oracle.check(Elements(0, [batches()[0]] * 7, batch_size=BATCH))
    assert found(oracle).kind == "repeated-batch"
    assert re.search(r"batch 1\b.*epoch 0\b", found(oracle).message)


@pytest.mark.parametrize("unknown", [-1, ELEMENTS])
def test_an_unknown_index_is_named(oracle: Oracle, unknown: int) -> None:
    oracle.check(Elements(0, batches([*range(ELEMENTS - 1), unknown]), batch_size=BATCH))
    assert found(oracle).kind == "unknown-element"
    assert f"index {unknown} of {ELEMENTS}" in found(oracle).message


def test_no_batch_at_all_is_named(oracle: Oracle) -> None:
    oracle.check(Elements(4, []))
    oracle.check(Order(4, []))
    assert found(oracle).kind == "no-batches"
    assert "epoch 4" in found(oracle).message


def test_storage_order_is_named_where_a_shuffle_was_asked_for(oracle: Oracle) -> None:
    oracle.check(Order(1, batches(range(ELEMENTS))))
    assert found(oracle).kind == "not-shuffled"
    assert "storage order" in found(oracle).message


def test_batches_larger_than_asked_for_are_named(oracle: Oracle) -> None:
    oracle.check(Elements(0, batches(size=16), batch_size=BATCH))
    assert found(oracle).kind == "batch-size"
    assert re.search(" 16 .* 8$", found(oracle).message)


def test_a_short_batch_before_the_end_is_named(oracle: Oracle) -> None:
    short_first = batches()[::-1]
    oracle.check(Elements(0, short_first, batch_size=BATCH))
    assert found(oracle).kind == "batch-size"
    assert re.search(r"batch 0\b.*epoch 0\b.* 2 ", found(oracle).message)


def test_a_short_batch_per_worker_passes_where_each_worker_has_a_tail(dataset: Dataset) -> None:
    oracle = Oracle(Determinism(SIZE), dataset, Declared(allowed_short_batches=1))
    order = np.random.default_rng(3).permutation(ELEMENTS)
    oracle.check(Elements(0, batches(order[:25]) + batches(order[25:]), batch_size=BATCH))
    assert oracle.cause is None


def test_ranks_that_share_the_elements_pass(oracle: Oracle) -> None:
    order = np.random.default_rng(3).permutation(ELEMENTS)
    ranks = [batches(order[rank::3]) for rank in range(3)]
    oracle.check(RankElements(0, ranks))
    joined = [batch for rank in ranks for batch in rank]
    oracle.check(Elements(0, joined, batch_size=BATCH, streams=3))
    assert oracle.cause is None


def test_elements_of_another_rank_are_named(oracle: Oracle) -> None:
    order = np.random.default_rng(3).permutation(ELEMENTS)
    oracle.check(RankElements(2, [batches(order[:30]), batches(order[30:]), batches(order[25:30])]))
    assert found(oracle).kind == "another-rank"
    assert re.search(r"rank 2\b.*epoch 2\b.*rank 0\b.*\(5\b", found(oracle).message)


def test_ranks_that_ignore_their_rank_are_named(oracle: Oracle) -> None:
    oracle.check(RankElements(0, [batches(), batches()]))
    assert found(oracle).kind == "another-rank"
    assert re.search(rf"rank 1\b.*rank 0\b.*\({ELEMENTS}\b", found(oracle).message)


def test_tails_dropped_by_every_rank_are_named(oracle: Oracle) -> None:
    order = np.random.default_rng(3).permutation(ELEMENTS)
    full = [batch for rank in range(3) for batch in batches(order[rank::3])[:2]]
    oracle.check(Elements(0, full, batch_size=BATCH, streams=3))
    assert found(oracle).kind == "dropped-tail"


def test_content_of_another_seed_is_named(oracle: Oracle, dataset: Dataset) -> None:
    other = Oracle(Determinism(SIZE, seed=0), dataset)
    oracle.check(Content(1, other.reference.batch(1, np.arange(BATCH))))
    assert found(oracle).kind == "ignored-seed"
    assert re.search(r"seed 0\b.* 7\b", found(oracle).message)


def test_content_of_another_epoch_is_named(oracle: Oracle) -> None:
    oracle.check(Content(2, oracle.reference.batch(0, np.arange(BATCH))))
    assert found(oracle).kind == "ignored-epoch"
    assert re.search(r"epoch 0\b.* 2\b", found(oracle).message)


def test_the_first_fault_stays(oracle: Oracle) -> None:
    oracle.refuse("first", "what happened first")
    oracle.refuse("second", "what came of it")
    assert found(oracle).kind == "first"


def test_nothing_checked_is_no_pass(oracle: Oracle) -> None:
    verdict = oracle.verdict()
    assert not verdict.passed
    assert verdict.cause is not None
    assert verdict.cause.kind == "nothing-checked"


def test_what_another_oracle_checked_is_counted_and_its_fault_told_with_the_context(
    oracle: Oracle,
) -> None:
    oracle.check(Elements(0, batches(), batch_size=BATCH))
    again = oracle.fresh()
    assert again.indexed_elements == 0
    again.check(Elements(0, batches()[:-1], batch_size=BATCH))
    oracle.absorb(again, "opened again")
    assert oracle.epochs == 2
    assert oracle.indexed_elements == 2 * ELEMENTS - 2
    assert found(oracle).kind == "dropped-tail"
    assert found(oracle).message.startswith("opened again: ")


def test_a_stream_is_the_batches_end_to_end() -> None:
    assert stream_of([[3, 1], np.array([[2]], np.int32)]).tolist() == [3, 1, 2]
    assert stream_of([]).tolist() == []


def test_a_batch_without_elements_is_named(oracle: Oracle) -> None:
    oracle.check(Content(1, {"index": np.empty(0, np.int64)}))
    assert found(oracle).kind == "batch-size"
    assert "without elements" in found(oracle).message


def test_nan_in_a_batch_is_named(oracle: Oracle) -> None:
    batch = oracle.reference.batch(0, np.arange(BATCH))
    name = next(name for name, value in batch.items() if value.dtype == np.float32)
    batch[name] = batch[name].copy()
    batch[name][3] = np.nan
    oracle.check(Content(0, batch))
    assert found(oracle).kind == "content"
    assert re.search(rf"{name!r} .*NaN\D+1\D+{BATCH} ", found(oracle).message)
    assert oracle.verdict().max_difference is None


def test_a_kept_batch_whose_index_is_not_the_one_that_arrived_is_named(oracle: Oracle) -> None:
    arrived = [np.arange(8), np.arange(8, 16)]
    kept = {1: dict(oracle.reference.batch(0, np.arange(16, 24)))}
    oracle.check(*kept_content(0, arrived, kept))
    assert found(oracle).kind == "changed-index"
    assert re.search(r"batch 1\b.*epoch 0\b", found(oracle).message)


def test_a_kept_batch_whose_index_arrived_passes(oracle: Oracle) -> None:
    oracle.check(
        *kept_content(0, [None, np.arange(8)], {1: oracle.reference.batch(0, np.arange(8))})
    )
    assert oracle.cause is None
    assert oracle.content_elements == 8
