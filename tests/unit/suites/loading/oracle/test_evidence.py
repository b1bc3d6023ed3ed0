"""Evidence gives the verdict that an oracle gives on the spot, and is read without trust."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy._core._rational_tests import rational

from skymark.model.errors import DataError
from skymark.model.record import Cause
from skymark.suites.loading.oracle import (
    Declared,
    Elements,
    Evidence,
    FetchedBytes,
    Oracle,
    Order,
    RankElements,
    kept_content,
)
from skymark.suites.loading.oracle.evidence import opened_evidence, replay
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.work import Size

ELEMENTS = 600
SCENARIO = Determinism(Size(elements=ELEMENTS, batch_size=64, values={"features": 4}), seed=7)
DECLARED = Declared(native=False, caches="nothing", shuffle="global", allowed_short_batches=0)
INDICES, OTHERS = (
    np.array_split(np.random.default_rng(seed).permutation(ELEMENTS), 10) for seed in (3, 4)
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return SCENARIO.generate(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture
def oracle(dataset):
    return Oracle(SCENARIO, dataset)


@pytest.fixture
def through(tmp_path, dataset):
    """Tell the oracle of a judge what a drive says; returns it."""

    def through(drive):
        path = tmp_path / "evidence"
        with path.open("wb") as file:
            drive(Evidence(file, DECLARED))
        oracle = Oracle(SCENARIO, dataset)
        with opened_evidence(path) as (declared, entries):
            assert declared == DECLARED
            replay(entries, oracle)
        return oracle

    return through


def rolled(batch):
    return batch | {"features": np.roll(batch["features"], 1, axis=0)}


def whole(verifier, expected, change=lambda batch: batch):
    """Two epochs of honest indices, a kept batch of each, as it should be or changed."""
    for epoch in (0, 1):
        order = OTHERS if epoch else INDICES
        verifier.check(Elements(epoch, order, batch_size=60))
        verifier.check(Order(epoch, order))
        verifier.check(*kept_content(epoch, order, {2: change(expected(epoch, order[2]))}))


def other_seed(verifier, expected):
    again = verifier.fresh(seed=8, allowed_short_batches=3)
    again.check(*kept_content(0, INDICES, {1: expected(0, INDICES[1])}))
    verifier.absorb(again, "with another seed")


DRIVES = {
    "honest": whole,
    "content": partial(whole, change=rolled),
    "lacks a field": partial(whole, change=lambda batch: {"index": batch["index"]}),
    "objects": partial(whole, change=lambda batch: batch | {"features": np.array([None] * 60)}),
    "dropped": lambda verifier, _: verifier.check(Elements(0, INDICES[:-1], batch_size=60)),
    "odd indices": lambda verifier, _: verifier.check(Elements(0, [[1, 2], [[3.0], [4.0]]])),
    "ranks": lambda verifier, _: verifier.check(RankElements(0, [INDICES[:2], INDICES[1:3], []])),
    "no batch": lambda verifier, _: verifier.check(Elements(4, [])),
    "seed": other_seed,
    "arrival": lambda verifier, _: verifier.check_arrivals(
        2, Cause(kind="lazy-batch", message="it is lazy")
    ),
    "refused": lambda verifier, _: verifier.refuse("sharding", "on one device"),
    "fetched": lambda verifier, _: verifier.check(FetchedBytes(10, ELEMENTS, 10_000)),
}


@pytest.mark.parametrize("name", DRIVES)
def test_the_verdict_is_that_of_an_oracle_on_the_spot(oracle, through, name):
    DRIVES[name](oracle, oracle.reference.batch)
    other = through(lambda evidence: DRIVES[name](evidence, oracle.reference.batch))
    assert other.verdict() == oracle.verdict()
    assert (oracle.cause is None) == (name == "honest")


def test_an_array_of_another_librarys_type_is_judged_by_what_it_is_not(through, oracle):
    def changed(batch):
        return batch | {"label": batch["label"].astype(rational)}

    found = through(lambda evidence: whole(evidence, oracle.reference.batch, changed))
    assert found.cause.kind == "dtype"


class Runs:
    """Has a command run where it is unpickled."""

    def __reduce__(self):
        return print, ("I am run",)


def replayed(path, oracle=None):
    with opened_evidence(path) as (_, entries):
        replay(entries, oracle)


def test_nothing_but_arrays_and_plain_values_is_made_of_it(tmp_path, capsys):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED)
        pickle.dump((0, "Refusal", {"kind": Runs(), "message": ""}), file)
    with pytest.raises(DataError, match=r"print .*no array"):
        replayed(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kept", [0, 5, -5])
def test_evidence_that_is_cut_off_is_no_verdict(tmp_path, oracle, kept):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED).check(Elements(0, INDICES))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="evidence"):
        replayed(path, oracle)


def test_evidence_that_is_not_there_is_no_verdict(tmp_path):
    with pytest.raises(DataError, match="evidence"):
        replayed(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["__init__", "verdict", "Check"])
def test_what_is_no_check_is_refused(tmp_path, oracle, name):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED)
        pickle.dump((0, name, {}), file)
    with pytest.raises(DataError, match="no check"):
        replayed(path, oracle)
