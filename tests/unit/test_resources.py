"""Files that come with skymark are found in a checkout and in an installed package."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from skymark import resources
from skymark.model.errors import UsageError
from skymark.resources import requirement_text, resource_directory


def test_profiles_and_requirements_are_found():
    assert (resource_directory("profiles") / "ci_cpu.toml").is_file()
    assert "--hash=sha256:" in requirement_text("adapters/numpy.txt")


def test_an_incomplete_installation_says_so(monkeypatch, tmp_path):
    monkeypatch.setitem(resources._ROOTS, "profiles", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(UsageError, match="no profiles"):
        resource_directory("profiles")
    (tmp_path / "b").mkdir()
    assert resource_directory("profiles") == tmp_path / "b"


def origin(monkeypatch, text):
    """Let skymark be installed from somewhere, as pip and uv note it (PEP 610)."""
    monkeypatch.setattr(resources, "checkout", lambda: None)
    noted = SimpleNamespace(read_text=lambda name: text if name == "direct_url.json" else None)
    monkeypatch.setattr(resources, "distribution", lambda _: noted)
    return shlex.split(resources.install_line("report"))


def test_an_extra_is_installed_from_the_checkout_for_this_interpreter():
    line = shlex.split(resources.install_line("report"))
    assert line[:3] == ["uv", "pip", "install"]
    assert line[line.index("--python") + 1] == sys.executable
    assert line[-2:] == ["--editable", f"{resources.checkout()}[report]"]


@pytest.mark.parametrize(
    ("noted", "address"),
    [
        (
            '{"url": "https://git.example/s", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "git+https://git.example/s@abc",
        ),
        ('{"url": "file:///dist/skymark.whl", "archive_info": {}}', "file:///dist/skymark.whl"),
        (None, "git+ADDRESS-OF-ITS-REPOSITORY"),
        ("{", "git+ADDRESS-OF-ITS-REPOSITORY"),
    ],
)
def test_an_extra_of_an_installed_skymark_is_installed_from_where_that_came(
    monkeypatch, noted, address
):
    assert origin(monkeypatch, noted)[-1] == f"skymark[report] @ {address}"


def test_no_message_sends_a_user_to_a_package_index_for_skymark():
    source = Path(resources.__file__).parent
    told = re.compile(r"pip install '?skymark")
    assert [path for path in source.rglob("*.py") if told.search(path.read_text())] == []
