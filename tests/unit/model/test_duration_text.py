"""Durations as users write them."""

from __future__ import annotations

import pytest

from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("45s", 45), ("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("1d", 86400)),
        *(("1-12", 129600), ("1-12:30", 131400), ("1-00:00:01", 86401), ("0-01:30:00", 5400)),
        *(("01:30:00", 5400), ("36:00:00", 129600)),
    ],
)
def test_a_duration_is_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "90",
        "m",
        "1.5h",
        "-1h",
        "0s",
        "1h 30m",
        "2w",
        "366d",
        "9" * 5000 + "s",
        "१m",
        "12:30",
        "1-",
        "1-2:3",
        "0-00:00:00",
        "366-00",
        "1:2:3",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="such as 90m"):
        seconds_of(text)
