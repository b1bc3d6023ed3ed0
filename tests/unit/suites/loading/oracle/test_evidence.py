"""Evidence gives the verdict that an oracle gives on the spot, and is read without trust."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy._core._rational_tests import rational

from skymark.model.errors import DataError
from skymark.model.record import Cause, Resources
from skymark.suite.contract import Seen
from skymark.suites.loading.judge import replay
from skymark.suites.loading.oracle import Declared, Evidence, Oracle
from skymark.suites.loading.oracle.evidence import heard
from skymark.suites.loading.scenario import Size
from skymark.suites.loading.scenarios.pr_production import Determinism

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
        oracles = {0: Oracle(SCENARIO, dataset)}
        with heard(path) as (declared, said):
            assert declared == DECLARED
            for one in said:
                replay(one, oracles, Seen())
        return oracles[0]

    return through


def rolled(batch):
    return batch | {"features": np.roll(batch["features"], 1, axis=0)}


def whole(verifier, expected, change=lambda batch: batch):
    """Two epochs of honest indices, a kept batch of each, as it should be or changed."""
    for epoch in (0, 1):
        order = OTHERS if epoch else INDICES
        verifier.check_indices(epoch, order, batch_size=60)
        verifier.check_shuffled(epoch, order)
        verifier.check_kept(epoch, order, {2: change(expected(epoch, order[2]))})


def other_seed(verifier, expected):
    again = verifier.fresh(seed=8, allowed_short_batches=3)
    again.check_kept(0, INDICES, {1: expected(0, INDICES[1])})
    verifier.absorb(again, "with another seed")


DRIVES = {
    "honest": whole,
    "content": partial(whole, change=rolled),
    "lacks a field": partial(whole, change=lambda batch: {"index": batch["index"]}),
    "objects": partial(whole, change=lambda batch: batch | {"features": np.array([None] * 60)}),
    "dropped": lambda verifier, _: verifier.check_indices(0, INDICES[:-1], batch_size=60),
    "odd indices": lambda verifier, _: verifier.check_indices(0, [[1, 2], [[3.0], [4.0]]]),
    "ranks": lambda verifier, _: verifier.check_ranks(0, [INDICES[:2], INDICES[1:3], []]),
    "no batch": lambda verifier, _: verifier.check_indices(4, []),
    "seed": other_seed,
    "arrival": lambda verifier, _: verifier.check_arrivals(
        2, Cause(kind="lazy-batch", message="it is lazy")
    ),
    "refused": lambda verifier, _: verifier.refuse("sharding", "on one device"),
    "fetched": lambda verifier, _: verifier.check_fetched(10, ELEMENTS, 10_000),
}


@pytest.mark.parametrize("name", DRIVES)
def test_the_verdict_is_that_of_an_oracle_on_the_spot(oracle, through, name):
    DRIVES[name](oracle, oracle.expected)
    other = through(lambda evidence: DRIVES[name](evidence, oracle.expected))
    assert other.verdict() == oracle.verdict()
    assert (oracle.cause is None) == (name == "honest")


def test_an_array_of_another_librarys_type_is_judged_by_what_it_is_not(through, oracle):
    def changed(batch):
        return batch | {"label": batch["label"].astype(rational)}

    found = through(lambda evidence: whole(evidence, oracle.expected, changed))
    assert found.cause.kind == "dtype"


def test_cpu_time_is_as_the_engine_saw_it(tmp_path, oracle, monkeypatch):
    heard_of = []
    monkeypatch.setattr(Oracle, "check_work", lambda _, cpu_s, elements: heard_of.append(cpu_s))
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED).check_work(99.0, 10)
    for seen in (Seen(resources=Resources(cpu_s=0.5)), Seen()):
        with heard(path) as (_, said):
            for one in said:
                replay(one, {0: oracle}, seen)
    assert heard_of == [0.5, 99.0]


class Runs:
    """Has a command run where it is unpickled."""

    def __reduce__(self):
        return print, ("I am run",)


def test_nothing_but_arrays_and_plain_values_is_made_of_it(tmp_path, capsys):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED)
        pickle.dump((0, "refuse", (Runs(),), {}), file)
    with heard(path) as (_, said), pytest.raises(DataError, match="print is no array"):
        list(said)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kept", [0, 5, -5])
def test_evidence_that_is_cut_off_is_no_verdict(tmp_path, kept):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED).check_indices(0, INDICES)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="evidence"), heard(path) as (_, said):
        list(said)


def test_evidence_that_is_not_there_is_no_verdict(tmp_path):
    with pytest.raises(DataError, match="evidence"), heard(tmp_path / "nowhere"):
        pass


def test_what_no_drive_says_is_refused(tmp_path, oracle):
    path = tmp_path / "evidence"
    with path.open("wb") as file:
        Evidence(file, DECLARED)
        pickle.dump((0, "__init__", (), {}), file)
    with heard(path) as (_, said), pytest.raises(ValueError, match="nothing that a drive says"):
        replay(next(said), {0: oracle}, Seen())
