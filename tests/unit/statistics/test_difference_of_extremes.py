"""Absurd figures, which a run of others may hold, are compared without an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.model.metric import Metric
from skymark.statistics.difference import difference, is_shown

FIGURES = st.lists(st.floats(-1e60, 1e60), min_size=1, max_size=4)


@pytest.mark.parametrize("scale", ["log", "linear", "exact"])
@given(ours=FIGURES, theirs=FIGURES)
def test_any_figures_are_compared(scale, ours, theirs):
    metric = Metric(name="rate", heading="rate", better="higher", scale=scale)
    found = difference(ours, theirs, metric)
    assert found.ratio is None or found.ratio.value == pytest.approx(found.ratio.value)
    assert is_shown(ours, theirs, metric) is found.is_real


@pytest.mark.parametrize("scale", ["log", "linear", "exact"])
def test_a_single_figure_may_be_as_large_or_small_as_a_float(scale):
    metric = Metric(name="rate", heading="rate", better="higher", scale=scale)
    for pair in ((1e308, 5e-324), (5e-324, 1e308), (1e308, 1e308)):
        difference([pair[0]], [pair[1]], metric)
