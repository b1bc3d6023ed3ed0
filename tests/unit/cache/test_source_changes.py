"""A source that is not what it was is named: gone, cut off or written again, with what to do."""

from __future__ import annotations

import os
import re

import pytest

from skymark.cache.building import SOURCES
from skymark.cache.entries import MOST_SOURCES, troubles
from skymark.cache.providing import build_prepared
from skymark.cache.recipe import recipe_of
from skymark.cache.sources import GONE, WRONG, changes, look_at

CONTENT = b'{"a": 1}\n' * 20


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENT)
    os.utime(path, ns=(0, 1_700_000_000_000_000_000))
    return path


@pytest.fixture
def entry(tmp_path, file):
    """A cache of one source, which a command of the user's filled."""
    recipe = recipe_of((str(file),), prepare=("true",))
    return build_prepared(tmp_path / "root", recipe, sealed=True)


def written(path, content, time_ns):
    path.write_bytes(content)
    os.utime(path, ns=(0, time_ns))


@pytest.mark.parametrize(
    ("harm", "message", "cause", "action"),
    [
        (
            lambda path: path.unlink(),
            GONE.format("rows.jsonl"),
            r"gone .*180 bytes .*22:13:20\.0",
            "put it back",
        ),
        (
            lambda path: written(path, CONTENT[:50], 1_700_000_001_000_000_000),
            WRONG,
            r"shorter: .*50 bytes of 2023-11-14 22:13:21\.0.* 180 bytes",
            "if .* cut off,",
        ),
        (
            lambda path: written(path, b"", 1_700_000_000_000_000_000),
            WRONG,
            r"shorter: .* 0 bytes .*180 bytes",
            "if .* cut off,",
        ),
        (
            lambda path: written(path, CONTENT * 2, 1_700_000_000_000_000_000),
            WRONG,
            r"changed: .*360 bytes .*180 bytes",
            "build it again",
        ),
        (
            lambda path: written(path, CONTENT.replace(b"1", b"2"), 1_700_000_002_000_000_000),
            WRONG,
            r"changed: .*180 bytes .*22:13:22\.0.*22:13:20\.0",
            "build it again",
        ),
    ],
    ids=["gone", "cut off", "emptied", "longer", "same size"],
)
def test_a_source_is_named_with_what_became_of_it(entry, file, harm, message, cause, action):
    assert list(troubles(entry)) == []
    harm(file)
    (found,) = troubles(entry)
    assert found.message == message
    assert re.match(rf"{re.escape(str(file))} .*{cause}", found.cause)
    assert re.match(action, found.action)


def test_a_source_put_back_with_its_time_is_what_it_was(entry, file):
    file.unlink()
    assert len(list(troubles(entry))) == 1
    written(file, CONTENT, 1_700_000_000_000_000_000)
    assert list(troubles(entry)) == []


def test_of_many_sources_a_few_are_named_and_the_others_counted(tmp_path):
    files = [tmp_path / f"{number}.jsonl" for number in range(MOST_SOURCES + 3)]
    for path in files:
        path.write_bytes(CONTENT)
    recipe = recipe_of(tuple(map(str, files)), prepare=("true",))
    entry = build_prepared(tmp_path / "root", recipe, sealed=True)
    for path in files:
        path.unlink()
    found = list(troubles(entry))
    assert len(found) == MOST_SOURCES
    assert ["3 more sources" in trouble.cause for trouble in found] == [
        *([False] * (MOST_SOURCES - 1)),
        True,
    ]


def test_a_list_of_sources_that_is_damaged_is_told(entry):
    (entry / SOURCES).write_text("{half a")
    (found,) = troubles(entry)
    assert found.message == WRONG
    assert f"({SOURCES})" in found.cause


def test_a_name_with_an_equals_sign_is_no_split(tmp_path):
    path = tmp_path / "a=b.jsonl"
    path.write_bytes(CONTENT)
    source = look_at(f"test={path}")
    assert (source.address, list(changes([source]))) == (str(path), [])
