"""Directories that nobody else can put anything into."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from skymark.machine.private_directory import (
    other_hand,
    own_folder,
    private_directory,
    require_own,
)
from skymark.model.errors import UsageError


def open_to_all(path):
    path.mkdir()
    path.chmod(0o777)


def link_to_a_directory(path):
    (path.parent / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.parent / "elsewhere")


@pytest.mark.parametrize("put", [open_to_all, link_to_a_directory, Path.touch, os.mkfifo])
def test_a_directory_that_a_stranger_prepared_is_passed_over(tmp_path, put):
    put(tmp_path / "prepared")
    own = private_directory([tmp_path / "prepared", tmp_path / "own"])
    assert own == tmp_path / "own"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert private_directory([own]) == own
    with pytest.raises(UsageError, match="prepared"):
        private_directory([tmp_path / "prepared"])


STRANGER = 40_001
"""A number without a name: nobody has it."""


def own(path):
    path.mkdir()


def readable(path):
    path.mkdir(mode=0o755)


def absent(path):
    pass


def sticky_for_all(path):
    path.mkdir()
    path.chmod(0o1777)


def writable_by_the_group(path):
    path.mkdir()
    os.chown(path, -1, STRANGER)
    path.chmod(0o775)


def a_stranger_s(path):
    path.mkdir()
    os.chown(path, STRANGER, -1)


def below_a_stranger_s(path):
    path.parent.mkdir(exist_ok=True)
    path.mkdir()
    os.chown(path.parent, STRANGER, -1)


def link_into_open_ground(path):
    ground = path.with_name("ground")
    open_to_all(ground)
    (ground / "place").mkdir(mode=0o700)
    path.symlink_to(ground / "place")


def link_of_a_stranger(path):
    path.with_name("mine").mkdir(mode=0o700)
    path.symlink_to("mine")
    os.chown(path, STRANGER, -1, follow_symlinks=False)


def link_to_a_link_into_open_ground(path):
    link_into_open_ground(path.with_name("first"))
    path.symlink_to("../below/first")


def circle(path):
    path.symlink_to(path.name)


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("put", "is_own"),
    [
        (own, True),
        (readable, True),
        (absent, True),
        (link_to_a_directory, True),
        (sticky_for_all, True),
        (open_to_all, False),
        (writable_by_the_group, False),
        (a_stranger_s, False),
        (below_a_stranger_s, False),
        (link_into_open_ground, False),
        (link_of_a_stranger, False),
        (link_to_a_link_into_open_ground, False),
        (circle, False),
    ],
)
def test_a_path_is_one_s_own_if_nobody_else_can_change_any_part_of_it(tmp_path, put, is_own):
    place = tmp_path / "below" / "place"
    place.parent.mkdir()
    put(place)
    fault = other_hand(place)
    assert (fault is None) is is_own, fault
    seen = other_hand(place, missing_ok=False)
    assert (seen is None) is (is_own and put is not absent), seen
    if not is_own:
        with pytest.raises(UsageError, match="SKYMARK_CACHE"):
            require_own(place)
        with pytest.raises(UsageError):
            own_folder(place / "code")
        if os.path.lexists(place) and put is not circle:
            assert other_hand(place / "deeper") is not None


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_nobody_else_may_write_to_a_folder_of_code_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        made = own_folder(tmp_path / "a" / "b")
        closed = private_directory([tmp_path / "c"])
    finally:
        os.umask(before)
    for one in (made, made.parent):
        assert stat.S_IMODE(one.stat().st_mode) == 0o755 & ~umask
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_a_directory_that_others_may_read_is_closed(tmp_path):
    (tmp_path / "mine").mkdir(mode=0o755)
    assert stat.S_IMODE(private_directory([tmp_path / "mine"]).stat().st_mode) == 0o700
