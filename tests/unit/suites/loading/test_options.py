"""The options of a selection, as the suite reads them."""

from __future__ import annotations

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Selection
from skymark.suites.loading.options import DEFAULT_SEED, OPTIONS, LoadingOptions, LoadingSettings
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS


def test_what_was_not_given_has_the_default_that_the_command_line_shows():
    options = LoadingOptions()
    assert (options.axis, options.data, options.seed) == ((), None, DEFAULT_SEED)
    declared = {one.name: one.default for one in OPTIONS if not one.setting}
    assert declared["seed"] == options.seed


def test_every_declared_option_is_read_by_the_suite_and_no_other():
    """Those that are settings are recorded with each cell, the others are typed here."""
    settings = {one.name for one in OPTIONS if one.setting}
    assert settings <= LoadingSettings.model_fields.keys()
    assert {one.name for one in OPTIONS} - settings == LoadingOptions.model_fields.keys()


def test_values_of_an_axis_are_read_as_what_they_look_like():
    options = LoadingOptions(axis=("depth=10,3", "mode=eager", "share=0.5"))
    assert options.axes == {"depth": (10, 3), "mode": ("eager",), "share": (0.5,)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": "lucky"}, "option seed="),
        ({"axis": 3}, "option axis="),
        ({"data": 3}, "option data="),
        ({"sede": 3}, "unknown option 'sede'"),
    ],
)
def test_an_option_that_is_none_or_of_another_kind_is_refused(options, words):
    with pytest.raises(UsageError) as caught:
        LoadingSuite().plan(Selection(options=options), EFFORTS["quick"])
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["depth", "depth=", "=10", ""])
def test_an_axis_without_name_or_value_is_refused(text):
    selection = Selection(scenarios=("PC-1",), adapters=("numpy",), options={"axis": [text]})
    with pytest.raises((UsageError, UnknownNameError), match="axis"):
        LoadingSuite().plan(selection, EFFORTS["quick"])
