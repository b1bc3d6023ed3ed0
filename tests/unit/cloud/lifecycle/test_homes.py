"""A directory of runs is tried before a machine is rented; others stand in for one that fails."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from skymark.cloud.lifecycle import retrieving as module
from skymark.cloud.lifecycle.retrieving import LEAST_FREE_BYTES, check_home, fault_of, homes
from skymark.model.errors import UsageError
from tests.other_user import OTHER_USER


@pytest.fixture(autouse=True)
def programs(tmp_path_factory, monkeypatch):
    """Have both programs that fetch results, which these tests never run."""
    place = tmp_path_factory.mktemp("programs")
    for name in ("rsync", "ssh"):
        (place / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


def test_a_directory_that_is_there_or_can_be_made_will_do_and_nothing_stays_of_the_trial(tmp_path):
    for results in (tmp_path, tmp_path / "not" / "yet"):
        check_home(results)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file", "file/runs", "dangling", "dangling/runs"])
def test_what_is_no_directory_is_refused_before_anything_is_rented(tmp_path, below):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"nothing was rented: .* is no directory; choose another"):
        check_home(tmp_path / below)


def test_a_name_that_no_file_system_takes_is_refused(tmp_path):
    assert "name too long" in fault_of(tmp_path / ("n" * 300)).lower()


@pytest.fixture
def without_roots_rights():
    """Be nobody for this test where the tests run as root, who may write anywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(OTHER_USER)
    yield
    os.seteuid(user)


def test_a_directory_without_the_right_to_write_is_refused(without_roots_rights):
    with TemporaryDirectory() as place:
        Path(place).chmod(0o500)
        assert "Permission denied" in fault_of(Path(place, "runs"))


def test_a_file_system_that_takes_no_files_is_refused():
    assert fault_of(module.Path("/proc/runs")) is not None


def test_a_disk_without_room_is_refused(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=LEAST_FREE_BYTES - 1)  # no disk of a test is nearly full
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UsageError, match=r"\b268 MB\b.*\b268 MB"):
        check_home(tmp_path)


@pytest.mark.parametrize("program", ["rsync", "ssh"])
def test_what_fetches_results_must_be_installed(tmp_path, monkeypatch, program):
    for other in {"rsync", "ssh"} - {program}:
        (tmp_path / other).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=f" {program},.*apt install"):
        check_home(tmp_path)


def test_the_last_resort_is_a_new_directory_that_goes_where_nothing_came(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with closing(homes(tmp_path / "results")) as candidates:
        first, second, third = candidates
        assert (first, second) == (tmp_path / "results", tmp_path / "home" / "skymark-results")
    assert not third.exists()
    with closing(homes(tmp_path / "results")) as candidates:
        *_, third = (next(candidates) for _ in range(3))
        (third / "run").mkdir()
    assert third.exists()
    shutil.rmtree(third)
