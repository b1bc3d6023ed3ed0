"""The seam of suites, in words: no file outside a suite's folder says what only the suite knows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from skymark.model.record import Resources
from skymark.resources import load_object
from skymark.suite.registry import GROUP

ROOT = Path(__file__).parents[2]
SUITES = ROOT / "src" / "skymark" / "suites"
PLAIN_UNITS = {"MB/s", "memory"}
"""Headings that anybody may say, of a network or a machine."""


@cache
def files() -> dict[Path, str]:
    """The files that know no suite, and what is in them."""
    found = [
        *(ROOT / "src" / "skymark").rglob("*.py"),
        *(ROOT / "src" / "skymark").rglob("templates/*"),
        *(ROOT / "benchmarks" / "runners").rglob("*.py"),
        *(ROOT / "benchmarks" / "sky").rglob("*.yaml"),
    ]
    return {path: path.read_text("utf-8") for path in sorted(found) if SUITES not in path.parents}


@cache
def suites() -> dict[str, type]:
    """The suites of this package by name, as its entry points have them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {name: load_object(value) for name, value in project["entry-points"][GROUP].items()}


def words_of(suite: type) -> set[str]:
    """What a suite alone may say: the names of its metrics, their headings, its baseline."""
    declared = suite.declaration
    names = {word for one in declared.metrics for word in (one.name, one.heading)}
    return (names | {declared.baseline or ""}) - {"", *Resources.model_fields, *PLAIN_UNITS}


def pattern_of(word: str) -> str:
    """A word as a whole; one that English has, too, such as ``elements``, only in quotes."""
    if word.isalpha():
        return rf"""["'`]{re.escape(word)}["'`]"""
    return rf"(?<!\w){re.escape(word)}(?!\w)"


def found(pattern: str, within: str = "") -> Iterator[str]:
    """Yield the places where a pattern is, as ``path:line: text``.

    Args:
        pattern: spans no lines.
        within: a text that is in all that it finds; to look for that alone takes no time.
    """
    for path, text in files().items():
        if within not in text:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if re.search(pattern, line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_there_are_files_to_look_at_and_suites_to_look_for():
    assert len(files()) > 100
    assert {path.suffix for path in files()} >= {".py", ".yaml", ".j2"}
    assert all(SUITES.joinpath(name).is_dir() for name in suites())
    assert all(len(words_of(suite)) > 5 for suite in suites().values())


@pytest.mark.parametrize("name", suites())
def test_no_file_outside_a_suite_contains_a_word_of_its_metrics(name):
    words = sorted(words_of(suites()[name]))
    assert [place for word in words for place in found(pattern_of(word), word)] == []


@pytest.mark.parametrize("name", suites())
def test_no_file_outside_a_suite_names_it(name):
    assert list(found(rf"""skymark[./]suites[./]{name}\b|["'`]{name}["'`]""", name)) == []


def test_the_suite_of_the_tests_is_known_to_the_tests_alone():
    assert list(found(r"""skymark[_-]sorting|["'`]sorting["'`]|\belements_per_s\b""")) == []
