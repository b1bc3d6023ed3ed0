"""How tests are dealt out to processes: the files that are treated apart are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import APART, CLOUDS_OF_THEIR_OWN, FIRST

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted(APART | CLOUDS_OF_THEIR_OWN | FIRST))
def test_a_file_that_is_named_is_there(path: str) -> None:
    assert (ROOT / path).is_file()
