"""Text that names an adapter, taken apart and put together again."""

from __future__ import annotations

from pathlib import Path

import pytest

from skymark.model.errors import UsageError
from skymark.suites.loading.specification import FileReference, SlugReference, parse_reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("grain", SlugReference(slug="grain")),
        ("grain@0.2.17", SlugReference(slug="grain", version="0.2.17")),
        ("Google Grain", SlugReference(slug="Google Grain")),
        ("/a/my.py:Mine", FileReference(path=Path("/a/my.py"), class_name="Mine")),
        ("/a@b/my.py:Mine", FileReference(path=Path("/a@b/my.py"), class_name="Mine")),
        ("/a.py:b/my.py:Mine", FileReference(path=Path("/a.py:b/my.py"), class_name="Mine")),
    ],
)
def test_a_reference_is_read_and_written_as_the_same_text(text, reference):
    assert parse_reference(text) == reference
    assert str(reference) == text


def test_the_path_of_an_own_file_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(parse_reference("./my.py:Mine")) == f"{tmp_path}/my.py:Mine"


@pytest.mark.parametrize(("text", "words"), [("grain@", "no version"), ("@2", "no adapter")])
def test_half_of_a_version_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        parse_reference(text)
