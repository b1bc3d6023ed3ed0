"""Whoever is refused for another plan reads what makes it another."""

from __future__ import annotations

import re

import pytest

from skymark.model.effort import Effort
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cell
from skymark.rundir.directory import plan_differences

EFFORT = Effort(
    name="quick",
    min_rounds=3,
    max_rounds=8,
    target_relative_interval=0.1,
    cell_timeout_s=60.0,
    limits={"min_seconds": 1.0},
)


def cell_of(adapter="jax", *, settings=None, specification=None, **axes):
    return Cell(
        suite="training",
        scenario="T-1",
        variant="small",
        adapter=adapter,
        axes=axes,
        settings=settings or {},
        specification=specification or {},
    )


def plan_of(*cells, **effort):
    return Plan(
        suite="training",
        profile="cpu",
        effort=EFFORT.model_copy(update=effort),
        cells=[PlannedCell(cell=cell, group=cell.adapter, shard_key=cell.id) for cell in cells],
    )


SIZES = {"seed": 0, "sizes": {"rows": 10, "columns": 2}}


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        (
            plan_of(cell_of("jax")),
            plan_of(cell_of("numpy"), cell_of("grain")),
            "adapters: jax .*there, grain, numpy .*here",
        ),
        (
            plan_of(cell_of(depth=1), cell_of(depth=2)),
            plan_of(cell_of(depth=1)),
            "scenarios: T-1:small depth=2 .*there",
        ),
        (
            plan_of(cell_of("jax", depth=1), cell_of("numpy", depth=2)),
            plan_of(cell_of("jax", depth=2), cell_of("numpy", depth=1)),
            (
                "cells: training.T-1.small.depth-1.jax, training.T-1.small.depth-2.numpy .*there, "
                "training.T-1.small.depth-1.numpy, training.T-1.small.depth-2.jax .*here"
            ),
        ),
        (
            plan_of(*(cell_of(depth=depth) for depth in range(6))),
            plan_of(cell_of(depth=0)),
            "scenarios: T-1:small depth=1, T-1:small depth=2, T-1:small depth=3, 2 more .*there",
        ),
        (
            plan_of(cell_of(), name="check", max_rounds=1),
            plan_of(cell_of()),
            "effort .*check there .*quick here",
        ),
        (
            plan_of(cell_of()),
            plan_of(cell_of(), max_rounds=9, limits={"min_seconds": 2.0, "max_seconds": 9.0}),
            (
                r"effort\.limits\.max_seconds .*not set there .*9\.0 here; "
                r"effort\.limits\.min_seconds .*1\.0 there .*2\.0 here; "
                r"effort\.max_rounds .*8 there .*9 here"
            ),
        ),
        (
            plan_of(cell_of(settings={"workers": 2}), cell_of("numpy", settings={"workers": 2})),
            plan_of(cell_of(settings={"workers": 4}), cell_of("numpy", settings={"workers": 4})),
            r"settings\.workers .*2 there .*4 here",
        ),
        (
            plan_of(cell_of(specification=SIZES)),
            plan_of(cell_of(specification=SIZES | {"sizes": {"rows": 9, "columns": 2}})),
            r"specification\.sizes\.rows .*10 there .*9 here",
        ),
        (
            plan_of(cell_of(specification={"words": "x" * 90})),
            plan_of(cell_of(specification={"words": ""})),
            rf"specification\.words .*\b{'x' * 39}… there .*empty here",
        ),
    ],
    ids=[
        "adapters",
        "axes",
        "combinations",
        "many",
        "efforts",
        "limits",
        "settings",
        "specification",
        "a long value",
    ],
)
def test_what_makes_a_plan_another_is_said(theirs, ours, words):
    assert theirs.hash != ours.hash
    assert re.fullmatch(words, plan_differences(theirs, ours))


def test_what_does_not_count_is_not_said():
    theirs, ours = plan_of(cell_of(), cell_timeout_s=9.0), plan_of(cell_of())
    assert theirs.hash == ours.hash
    assert plan_differences(theirs, ours) == ""
