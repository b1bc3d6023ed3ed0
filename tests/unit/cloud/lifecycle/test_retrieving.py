"""Results come to the first directory that takes them; what comes nowhere is not given up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skymark.cloud.lifecycle.results import ReturnedResults
from skymark.cloud.lifecycle.retrieving import GONE, brought, else_stored, from_machine
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.model.errors import CloudError, StorageFullError, UnreachableError
from skymark.model.record import Status
from tests.rented_runs import run_of
from tests.unit.cloud.lifecycle.conftest import CELLS, PLAN

FINISHED = Finished(run_of(run_id="one"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "skymark-results" / "one"


def results_in(directory: Path, **changes) -> ReturnedResults:
    empty = {"records": {}, "missing": (), "differing": (), "phases": ()}
    return ReturnedResults(directory=directory, **empty, **changes)


def bring_to(results, bring, finished=FINISHED):
    return brought(finished, results, bring, nothing="nothing was run")


def test_results_come_to_the_directory_that_was_asked_for(tmp_path):
    came = bring_to(tmp_path / "results", results_in)
    assert came.results.directory == tmp_path / "results" / "one"
    assert came.safe


def test_what_one_directory_does_not_take_another_one_does_and_it_is_named(tmp_path, home):
    (tmp_path / "file").write_text("")
    came = bring_to(tmp_path / "file", results_in)
    assert came.results.directory == home
    assert came.safe
    assert "is no directory" in came.problems[0]
    assert came.problems[1].endswith(f" {home}")


@pytest.mark.parametrize("fault", [OSError(28, "No space left"), StorageFullError("full")])
def test_a_disk_that_fills_while_results_come_is_such_a_directory(tmp_path, home, fault):
    def bring(directory):
        if directory.parent.name == "results":
            raise fault
        return results_in(directory)

    came = bring_to(tmp_path / "results", bring)
    assert came.results.directory == home
    assert str(fault) in came.problems[0]


def test_where_no_directory_takes_them_the_machine_must_stay(tmp_path):
    tried = []

    def bring(directory):
        tried.append(directory)
        raise CloudError("rsync failed")

    came = bring_to(tmp_path / "results", bring)
    assert not came.safe
    assert len(tried) == len(came.problems) == 3
    assert not tried[-1].parent.exists()


def test_a_machine_that_does_not_answer_is_no_matter_of_directories(tmp_path):
    def bring(directory):
        raise UnreachableError("no route")

    came = bring_to(tmp_path / "results", bring)
    assert not came.safe
    (problem,) = came.problems
    assert problem.endswith(": no route")


def test_of_a_job_that_never_began_nothing_is_kept(tmp_path):
    def bring(directory):
        raise UnreachableError("no route")

    assert bring_to(tmp_path / "results", bring, Finished(run_of(), begun=False)).safe


def test_what_comes_damaged_everywhere_is_kept_where_it_is_whole(tmp_path):
    came = bring_to(
        tmp_path / "results", lambda directory: results_in(directory, unequal=("logs/a.log",))
    )
    assert not came.safe
    assert came.results.directory == tmp_path / "results" / "one"


def test_without_a_place_for_temporary_files_there_is_one_directory_less(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))

    def bring(directory):
        raise CloudError("rsync failed")

    came = bring_to(tmp_path / "results", bring)
    assert not came.safe
    assert len(came.problems) == 2


@pytest.mark.parametrize("gone", [True, False])
def test_a_machine_that_is_gone_is_not_said_to_be_kept(machines, tmp_path, monkeypatch, gone):
    """Its provider's list is no part of this; `is_gone` is tried with one."""
    machines.node("skymark-cpu-1").rmdir()
    monkeypatch.setattr("skymark.cloud.lifecycle.retrieving.is_gone", lambda _: gone)
    came = from_machine(FINISHED, "skymark-cpu-1", tmp_path / "results")
    assert came.safe is gone
    assert (GONE in came.problems) is gone


def of_a_run_in(*addresses):
    return Finished(run_of(run_id="one", plan_hash=PLAN.hash, stores=addresses))


@pytest.mark.parametrize("safe", [True, False])
def test_what_a_machine_does_not_give_comes_from_its_store_as_far_as_it_is_there(
    stored, tmp_path, safe
):
    finished = of_a_run_in(stored(CELLS[0]))
    came = else_stored(Retrieved(finished, problems=("gone",), safe=safe), tmp_path / "results")
    assert came.results.records == {Status.OK: 1}
    assert came.results.directory == tmp_path / "results" / "one"
    first, where, missing = came.problems
    assert first == "gone"
    assert f" zip://{tmp_path}" in where
    assert missing.startswith("1 planned cell ")
    assert came.safe is safe, "a machine that may have more is kept"


def test_a_store_that_has_all_of_it_goes_before_one_that_has_some(stored, tmp_path):
    some = stored(CELLS[0])
    (tmp_path / "more").mkdir()
    shutil.copy(tmp_path / "one.zip", tmp_path / "more" / "one.zip")
    shutil.rmtree(tmp_path / "sent")
    stored(*CELLS)
    finished = of_a_run_in(f"{some}/more", some)
    came = else_stored(Retrieved(finished, safe=False), tmp_path / "results")
    assert came.results.whole
    assert came.safe


def test_what_came_from_the_machine_stays_where_no_store_has_more(stored, tmp_path):
    finished = of_a_run_in(stored(CELLS[0]))
    damaged = results_in(tmp_path / "results" / "one", unequal=("logs/a.log",))
    came = Retrieved(finished, damaged, safe=False)
    assert else_stored(came, tmp_path / "results") is came
