"""Digests of values."""

from __future__ import annotations

import pytest

from skymark.model.base import digest_of


def test_equal_values_have_equal_digests_and_what_is_no_json_has_none():
    assert digest_of({"b": 1, "a": [1.5, None]}) == digest_of({"a": [1.5, None], "b": 1})
    assert digest_of(1) != digest_of("1")
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of(float("nan"))
