"""Processes that share a run take each group once, and what others have measured is taken."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from skymark.execute import claimed_groups, session
from skymark.execute.claimed_groups import CLAIMS, ClaimedGroups, Groups
from skymark.leases import Leases
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.record import Status
from skymark.model.requests import Results
from skymark.rundir.directory import RunDirectory
from skymark.rundir.mending import damages
from skymark.rundir.reader import open_run
from skymark.rundir.writer_locks import joint_writer, sole_writer
from tests.scripted_suite import EFFORT, ScriptedSuite, Witness, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

ONCE = EFFORT.model_copy(update={"min_rounds": 1, "max_rounds": 1})


class Shareable(ScriptedSuite):
    shares_machine = True


class OneProcess(Shareable):
    """A suite whose groups follow one another in one process."""

    shares_process = True


@pytest.fixture
def share(tmp_path, monkeypatch):
    """Share a run in a directory of runs; the journal of workers lies in the cache."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(claimed_groups, "POLL_S", 0.05)
    monkeypatch.setattr(session, "suite_named", lambda _: Shareable())
    monkeypatch.setattr(session, "cache_directory", lambda: cache)

    def sharing(plan, name="run", observer=None, groups=(), stores=()):
        results = Results(output=tmp_path / "runs" / name, stores=stores)
        strategy = ClaimedGroups(groups)
        return session.run(plan, results, observer or Witness(), strategy, own=False)

    return sharing


@pytest.fixture
def one_process(monkeypatch, share):
    """Let groups that a process takes follow one another in one worker process."""
    monkeypatch.setattr(session, "suite_named", lambda _: OneProcess())


@pytest.fixture
def journal(tmp_path):
    """What workers were asked to measure, in order."""

    def lines():
        path = tmp_path / "cache" / "journal.jsonl"
        found = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return [line for line in found if line["do"] == "measure"]

    return lines


@pytest.fixture
def measured(journal):
    """The cells in the order in which workers measured them."""
    return lambda: [line["cell"] for line in journal()]


def processes(lines):
    """The groups that each worker process served, in order; a group is an adapter's."""
    served = {}
    for line in lines:
        served.setdefault(line["pid"], []).append(line["cell"].rpartition(".")[2])
    return list(served.values())


def statuses(done):
    return {record.cell.adapter: record.status for record in done.records}


def plan(adapters="abcd", scenarios=("S-1", "S-2")):
    cells = [cell_of(adapter, scenario) for scenario in scenarios for adapter in adapters]
    return plan_of(*cells, effort=ONCE)


def ids(plan):
    return sorted(planned.cell.id for planned in plan.cells)


def test_several_at_once_measure_each_cell_once_and_the_last_ends_the_run(
    share, measured, tmp_path
):
    with ThreadPoolExecutor(3) as pool:
        ended = [pool.submit(share, plan()) for _ in range(3)]
    assert sorted(measured()) == ids(plan())
    records = [record for one in ended for record in one.result().records]
    assert sorted(record.cell.id for record in records) == ids(plan())
    assert all("shared-machine" in {one.kind for one in record.warnings} for record in records)
    run = open_run(tmp_path / "runs/run")
    assert run.manifest.finished
    assert run.manifest.counts == {Status.OK: 8}
    assert not run.missing
    assert damages(run.directory) == {}
    assert list((tmp_path / "runs" / CLAIMS).iterdir()) == []


def test_a_group_that_another_holds_is_waited_for_and_taken_over(share, measured, tmp_path):
    holder = Leases(tmp_path / "runs" / CLAIMS)
    held = []

    class Steals(Witness):
        def ended(self, record, *, rounds_left=0):
            if held:
                held.pop().release()

    name = next(iter({planned.group for planned in plan("ab").cells}))
    run = RunDirectory(tmp_path / "runs/run")
    cells = plan("ab").cells
    key = Groups("scripted", cells, run, holder)._key(name)
    held.append(holder.take(key))
    share(plan("ab"), observer=Steals())
    assert sorted(measured()) == ids(plan("ab"))


def test_who_comes_when_all_is_taken_leaves_while_one_waits(share, measured, tmp_path):
    holder = Leases(tmp_path / "runs" / CLAIMS)
    run = RunDirectory(tmp_path / "runs/run")
    waiting = Groups("scripted", plan("a").cells, run, holder)
    names = [plan("a").cells[0].group, f"{run.path.name}/waits"]
    held = [holder.take(waiting._key(name)) for name in names]
    assert share(plan("a")).records == ()
    assert measured() == []
    for one in held:
        one.release()


def test_a_cell_that_a_run_beside_has_measured_is_taken_from_it(share, measured, tmp_path):
    share(plan("abc"), "first")
    share(plan("bcd"), "second")
    assert sorted(measured()) == ids(plan("abcd"))
    second = open_run(tmp_path / "runs/second")
    assert second.manifest.finished
    assert len(second.records) == 6
    assert damages(second.directory) == {}


def test_a_bad_end_is_not_taken_from_elsewhere(share, measured):
    wrong = plan_of(cell_of("a", does="raise"), effort=ONCE)
    share(wrong, "first")
    share(wrong, "second")
    assert len(measured()) == 2


def test_what_could_not_be_set_up_is_taken_again_by_who_comes_next(share, measured, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        assert statuses(share(plan("a"))) == {"a": Status.FAILED}
    assert statuses(share(plan("a"))) == {"a": Status.OK}
    assert sorted(measured()) == ids(plan("a"))
    assert share(plan("a")).records == ()


def test_named_groups_alone_are_taken(share, measured):
    name = plan("abc").cells[1].group
    share(plan("abc"), groups=[name])
    assert measured()
    assert {cell.rpartition(".")[2] for cell in measured()} == {plan("abc").cells[1].cell.adapter}
    with pytest.raises(UsageError, match="no group 'nobody'"):
        share(plan("abc"), groups=["nobody"])


def test_results_reach_a_store_and_the_last_one_completes_it(share, tmp_path):
    (tmp_path / "stored").mkdir()
    stores = ((tmp_path / "stored").as_uri(),)
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(share, plan(), stores=stores) for _ in range(2)]
    assert all(one.ok for done in ended for one in done.result().stored)
    stored = open_run(tmp_path / "stored/run")
    assert stored.manifest.finished
    assert damages(stored.directory) == {}


def test_a_group_that_was_taken_over_is_left_to_its_new_holder(share, tmp_path, measured):
    claims = tmp_path / "runs" / CLAIMS

    class StandsStill(Witness):
        def stage(self, text):
            self.on(text)

        def planned(self, steps):
            for path in [*claims.glob("*.1")]:
                path.with_suffix(".2").write_text("somebody else")

    share_ended = share(plan("a"), observer=StandsStill())
    assert share_ended.records == ()
    assert measured() == []


# Worker processes


def test_a_worker_process_serves_the_groups_that_its_process_takes(one_process, share, journal):
    done = share(plan("abc"))
    assert {record.status for record in done.records} == {Status.OK}
    assert processes(journal()) == [list("aabbcc")]


def test_groups_of_a_suite_that_does_not_say_so_have_a_process_each(share, journal):
    share(plan("abc"))
    assert processes(journal()) == [list("aa"), list("bb"), list("cc")]


def test_a_round_is_in_a_process_that_has_not_measured_its_cell(one_process, share, journal):
    cells = [cell_of("a"), cell_of("b")]
    share(plan_of(*cells, effort=EFFORT))
    assert processes(journal()) == [["a"], ["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("does", "status"),
    [("kill", Status.FAILED), ("exit", Status.FAILED), ("hang", Status.TIMEOUT)],
)
@pytest.mark.usefixtures("short_time_for_what_hangs")
def test_the_group_after_one_that_broke_its_process_gets_a_new_one(
    one_process, share, journal, does, status
):
    cells = [cell_of("a"), cell_of("b", does=does), cell_of("c"), cell_of("d")]
    limited = ONCE.model_copy(update={"cell_timeout_s": 60.0})
    done = share(plan_of(*cells, effort=limited))
    assert processes(journal()) == [["a", "b"], ["c", "d"]]
    assert statuses(done) == {"a": Status.OK, "b": status, "c": Status.OK, "d": Status.OK}
    assert not psutil.pid_exists(journal()[0]["pid"])


def test_a_process_that_dies_between_two_groups_costs_no_cell(one_process, share, journal):
    def kill(told):
        if told == "stage taking b":
            psutil.Process(journal()[-1]["pid"]).kill()
            psutil.Process(journal()[-1]["pid"]).wait(60)

    done = share(plan("abc"), observer=Witness(kill))
    assert {record.status for record in done.records} == {Status.OK}
    assert processes(journal()) == [["a", "a"], list("bbcc")]


def test_output_goes_to_the_log_of_its_own_cell(one_process, share, tmp_path):
    cells = [cell_of("a"), cell_of("b", does="print")]
    share(plan_of(*cells, effort=ONCE))
    logs = {cell.adapter: tmp_path / f"runs/run/logs/{cell.id}.log" for cell in cells}
    assert "a library that talks" in logs["b"].read_text()
    assert logs["a"].read_text() == ""


@pytest.mark.parametrize("moment", ["stage taking b", "measuring scripted.S-1.small.b 0"])
def test_an_interrupt_ends_the_process_that_was_kept(one_process, share, journal, moment):
    def interrupt(told):
        if told == moment:
            assert psutil.pid_exists(journal()[0]["pid"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        share(plan("ab"), observer=Witness(interrupt))
    assert not psutil.pid_exists(journal()[0]["pid"])


def test_a_group_lost_to_another_is_left_and_the_next_is_measured(
    one_process, share, journal, tmp_path
):
    claims = tmp_path / "runs" / CLAIMS

    def lose(told):
        if told == "stage taking b":
            for path in [*claims.glob("*.1")]:
                path.with_suffix(".2").write_text("somebody else")

    done = share(plan("abc"), observer=Witness(lose), groups=["a", "b", "c"])
    assert statuses(done) == {"a": Status.OK, "c": Status.OK}


def test_processes_that_a_kept_worker_leaves_behind_are_ended_and_told(one_process, share, journal):
    cells = [cell_of("a", does="leak"), cell_of("b")]
    witness = Witness()
    share(plan_of(*cells, effort=ONCE), observer=witness)
    assert processes(journal()) == [["a", "b"]]
    (told,) = (one for one in witness.told if "outlived" in one)
    assert "sleep 3600" in told


def test_another_plan_or_a_suite_that_needs_the_machine_is_refused(share, monkeypatch):
    share(plan("a"))
    with pytest.raises(RunDirectoryError, match="another plan"):
        share(plan("b"))
    monkeypatch.setattr(session, "suite_named", lambda _: ScriptedSuite())
    with pytest.raises(UsageError, match=r"the machine .*--share"):
        share(plan("a"), "other")


def test_a_sole_writer_and_those_who_share_keep_each_other_out(tmp_path):
    path = Path(tmp_path, "run")
    with joint_writer(path) as one, joint_writer(path) as other:
        with one.alone() as alone:
            assert not alone
        with other.alone() as alone:
            assert not alone
        with (
            pytest.raises(RunDirectoryError, match="another skymark run"),
            sole_writer(path, wait=False),
        ):
            pass
    with joint_writer(path) as one, one.alone() as alone:
        assert alone


def test_of_writers_that_leave_at_once_the_last_finds_itself_alone(tmp_path):
    path = Path(tmp_path, "run")
    with joint_writer(path) as one, joint_writer(path) as other:
        with one.alone(leaving=True) as alone:
            assert not alone
        with other.alone(leaving=True) as alone:
            assert alone
        with sole_writer(path, wait=False):
            pass
