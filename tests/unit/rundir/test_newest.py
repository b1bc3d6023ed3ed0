"""The link to the newest run, and the runs that a command takes when none is named."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from skymark.execute.planner import load_profile, make_plan
from skymark.model.errors import UsageError
from skymark.model.manifest import Pair
from skymark.model.requests import Work
from skymark.model.schema import sealed
from skymark.rundir.newest import (
    LATEST,
    newest_run,
    own_directory,
    point_at,
    runs_in,
    unfinished_run,
    unfinished_tune,
)
from skymark.rundir.reader import read_manifest

SAVED = Path("tests/data/run").absolute()
COMMIT = "0" * 40


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(name: str, second: int = 0, **changes) -> Path:
    """A run in results, whose manifest was written at a time."""
    path = Path("results", name)
    path.mkdir(parents=True)
    manifest = read_manifest(SAVED).model_copy(update={"run_id": name, **changes})
    (path / "manifest.json").write_bytes(sealed(manifest))
    os.utime(path / "manifest.json", (second, second))
    return path


def plan_of(rounds: int):
    return make_plan(load_profile("ci_cpu"), Work(scenarios=("TAB-1",), rounds=rounds))


def unfinished(name: str, second: int, rounds: int, **changes) -> Path:
    plan = plan_of(rounds)
    own = {"plan": plan, "plan_hash": plan.hash, "finished": False, **changes}
    return run(name, second, **own)


def names() -> set[str]:
    return {path.name for path in Path("results").iterdir()}


def test_the_link_leads_to_the_run_that_begins_last_and_is_no_run_of_its_own():
    for name in ("a", "b"):
        point_at(run(name))
    assert Path("results", LATEST).readlink() == Path("b")
    assert runs_in(Path("results")) == [Path("results/a"), Path("results/b")]
    assert newest_run() == Path("results/b")
    assert names() == {"a", "b", LATEST}


def test_runs_that_begin_at_once_leave_one_link_to_one_of_them():
    runs = [run(f"r{number}") for number in range(8)]
    together = threading.Barrier(len(runs))

    def begin(path):
        together.wait()
        for _ in range(50):
            point_at(path)
            assert newest_run() in runs

    threads = [threading.Thread(target=begin, args=(path,)) for path in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert newest_run() in runs
    assert names() == {*(path.name for path in runs), LATEST}


@pytest.mark.parametrize("elsewhere", ["other/run", "results/tune/rung-1"])
def test_a_run_elsewhere_changes_no_link(elsewhere):
    point_at(run("a"))
    shutil.copytree("results/a", elsewhere)
    point_at(Path(elsewhere))
    assert newest_run() == Path("results/a")


def test_a_directory_of_that_name_is_left_alone():
    point_at(run(LATEST))
    point_at(run("b"))
    assert not Path("results", LATEST).is_symlink()
    assert runs_in(Path("results")) == [Path("results/b"), Path("results/latest")]


def test_a_link_out_of_the_directory_of_runs_is_not_followed():
    run("a")
    shutil.copytree("results/a", "elsewhere")
    Path("results", LATEST).symlink_to("../elsewhere")
    assert newest_run() == Path("results/a")


def test_a_run_s_own_directory_stays_the_same_when_the_link_moves_on():
    point_at(run("a"))
    taken = own_directory(Path("results", LATEST))
    point_at(run("b"))
    assert taken == Path("results/a").absolute()


def test_without_a_link_the_newest_manifest_counts():
    run("a", second=200)
    run("b", second=100)
    assert newest_run() == Path("results/a")


def test_the_newest_run_of_a_suite_is_found_behind_those_of_others():
    run("a", second=100)
    point_at(run("b", second=200))
    other = read_manifest(SAVED).plan.model_copy(update={"suite": "clip"})
    run("c", second=50, plan=other)
    assert [newest_run(), newest_run(suite="clip")] == [Path("results/b"), Path("results/c")]


@pytest.mark.parametrize(
    ("suite", "said"),
    [(None, r"no run in results; .*skymark run$"), ("clip", r"suite clip in .*skymark clip run$")],
)
def test_no_run_is_said_with_what_to_do(suite, said):
    with pytest.raises(UsageError, match=said):
        newest_run(suite=suite)


def test_the_newest_unfinished_run_of_the_plan_goes_on():
    unfinished("old", 1, rounds=1)
    unfinished("mine", 2, rounds=1)
    unfinished("other", 3, rounds=2)
    unfinished("done", 4, rounds=1, finished=True)
    pair = Pair(side="candidate", partner="pair-baseline", commit=COMMIT)
    unfinished("pair", 5, rounds=1, duet=pair)
    base = Pair(side="baseline", partner="pair", commit=COMMIT)
    unfinished("pair-baseline", 6, rounds=1, duet=base)
    assert unfinished_run(plan_of(1)) == Path("results/mine")
    assert unfinished_run(plan_of(2)) == Path("results/other")
    assert unfinished_run(plan_of(1), paired=True) == Path("results/pair")


def test_another_plan_s_unfinished_runs_are_named():
    with pytest.raises(UsageError, match=r"--resume, .*--output"):
        unfinished_run(plan_of(3))
    unfinished("other", 3, rounds=2)
    with pytest.raises(UsageError, match=r"other plans: results/other\. "):
        unfinished_run(plan_of(3))


def test_a_damaged_manifest_is_passed_over():
    unfinished("mine", 2, rounds=1)
    broken = unfinished("broken", 3, rounds=1)
    (broken / "manifest.json").write_text("{}")
    assert unfinished_run(plan_of(1)) == Path("results/mine")


def test_the_newest_unfinished_tune_of_a_profile_goes_on():
    for name in ("20260101-000000-cpu-tune-abc", "20260102-000000-cpu-tune-abc"):
        Path("results", name).mkdir(parents=True)
    Path("results", "20260103-000000-cpu-tune-abc").mkdir()
    Path("results", "20260103-000000-cpu-tune-abc", "tune.json").touch()
    Path("results", "20260104-000000-other-tune-abc").mkdir()
    assert unfinished_tune("cpu-tune", "tune.json").name == "20260102-000000-cpu-tune-abc"
    with pytest.raises(UsageError, match=r"gpu-tune in results; .*--resume"):
        unfinished_tune("gpu-tune", "tune.json")
