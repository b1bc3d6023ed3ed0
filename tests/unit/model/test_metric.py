"""Declarations: metrics by name, those that nobody declared, and names that people read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from skymark.model.metric import Declaration, Metric, Shown, Spread, names_of

RATE = Metric(name="steps_per_s", heading="steps/s", unit="1/s", better="higher", compared=True)
LOSS = Metric(name="loss", heading="loss", scale="exact", own=True)
DECLARATION = Declaration(
    suite="training",
    metrics=(RATE, LOSS),
    primary="steps_per_s",
    scenario_titles={"T-1": "train a small network"},
    adapter_names={"jax": "JAX", "jax@0.6": "JAX@0.6"},
)


def test_a_metric_is_found_by_name_and_the_primary_one_is_one_of_them():
    assert DECLARATION.metric("loss") is LOSS
    assert DECLARATION.primary_metric is RATE
    assert DECLARATION.compared == DECLARATION.shared == (RATE,)
    assert names_of(DECLARATION.metrics) == ("steps_per_s", "loss")


def test_a_metric_that_nobody_declared_is_shown_as_a_plain_number_and_never_compared():
    found = DECLARATION.metric("memory_moved")
    assert (found.name, found.heading, found.own) == ("memory_moved", "memory moved", True)
    assert found.shown == Shown(gives_way=10)
    assert not found.compared
    assert found.better is None


@pytest.mark.parametrize(
    ("adapter", "name"),
    [("jax", "JAX"), ("jax@0.6", "JAX@0.6"), ("torch", "torch"), ("torch@2", "torch@2")],
)
def test_a_library_is_called_by_its_own_name_where_one_is_declared(adapter, name):
    assert DECLARATION.adapter_name(adapter) == name


def test_a_scenario_without_a_title_has_none():
    assert DECLARATION.scenario_title("T-1") == "train a small network"
    assert DECLARATION.scenario_title("T-2") is None


def test_a_declaration_reads_back_from_a_manifest_whole():
    assert Declaration.model_validate_json(DECLARATION.model_dump_json()) == DECLARATION


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"compared": True}, "compared, .*better"),
        ({"better": "lower", "gated": True}, "gated, .*compared"),
    ],
)
def test_a_metric_that_is_judged_says_all_that_judging_needs(fields, words):
    with pytest.raises(ValidationError, match=words):
        Metric(name="loss", heading="loss", **fields)


def test_a_declaration_names_only_metrics_that_it_has():
    with pytest.raises(ValidationError, match=r"\['speed'\] are named"):
        Declaration(suite="training", metrics=(RATE,), primary="speed")
    spread = Spread(
        heading="wait", metrics=("steps_per_s", "p95", "p99"), labels=("50", "95", "99")
    )
    with pytest.raises(ValidationError, match=r"\['p95', 'p99'\] are named"):
        Declaration(suite="training", metrics=(RATE,), primary="steps_per_s", spreads=(spread,))


def test_tables_cannot_be_ordered_by_a_metric_that_is_neither_better_nor_worse():
    with pytest.raises(ValidationError, match="loss orders tables"):
        Declaration(suite="training", metrics=(LOSS,), primary="loss")
