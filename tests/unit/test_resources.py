"""Files that come with skymark are found in a checkout and in an installed package."""

from __future__ import annotations

import pytest

from skymark import resources
from skymark.model.errors import UsageError
from skymark.resources import requirement_text, resource_directory


def test_profiles_and_requirements_are_found():
    assert (resource_directory("profiles") / "ci_cpu.toml").is_file()
    assert "--hash=sha256:" in requirement_text("adapters/numpy.txt")


def test_an_incomplete_installation_says_so(monkeypatch, tmp_path):
    monkeypatch.setitem(resources._ROOTS, "profiles", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(UsageError, match="no profiles; reinstall skymark"):
        resource_directory("profiles")
    (tmp_path / "b").mkdir()
    assert resource_directory("profiles") == tmp_path / "b"
