"""Sweeps with scripted workers: order of rounds, ends of cells, and taking up what was left."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from skymark.execute.asking import Interpreters
from skymark.execute.partition.shard import Shard
from skymark.execute.process import DIED
from skymark.execute.sweeps import run_sweeps
from skymark.execute.venvs import Venvs
from skymark.model.effort import Allotment
from skymark.model.errors import StorageFullError, UsageError, VenvBuildError
from skymark.model.record import RoundResult, Status, Verification
from skymark.rundir.directory import RunDirectory
from skymark.statistics.interval import is_precise_enough
from tests.scripted_suite import (
    EFFORT,
    CountingSuite,
    ScriptedSuite,
    Witness,
    cell_of,
    plan_of,
    planned_cell,
)

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

PRIMARY = ScriptedSuite.declaration.primary_metric


def effort(rounds, most=None, **fields):
    return EFFORT.model_copy(update={"min_rounds": rounds, "max_rounds": most or rounds, **fields})


def statuses(records):
    return [(record.cell.adapter, record.status.value) for record in records]


def interrupted_at(words):
    def interrupt(told):
        if told == words:
            raise KeyboardInterrupt

    return Witness(interrupt)


# Order


def test_rounds_go_round_the_adapters_and_each_starts_one_place_later(bed):
    cells = [cell_of(adapter, scenario) for scenario in ("S-1", "S-2") for adapter in "abc"]
    run_sweeps(bed.measurer(plan_of(*cells, effort=effort(3))))
    order = [(line["round"], line["adapter"]) for line in bed.journal("measure")]
    assert order[::2] == order[1::2]
    assert order[::2] == [
        *((0, adapter) for adapter in "abc"),
        *((1, adapter) for adapter in "bca"),
        *((2, adapter) for adapter in "cab"),
    ]


def test_an_adapters_cells_share_a_fresh_process_per_round(bed):
    cells = [cell_of(adapter, scenario) for scenario in ("S-1", "S-2") for adapter in "ab"]
    run_sweeps(bed.measurer(plan_of(*cells)))
    served = {}
    for line in bed.journal("measure"):
        served.setdefault(line["pid"], []).append((line["adapter"], line["cell"], line["round"]))
    assert len(served) == 4
    assert all(len({(adapter, round) for adapter, _, round in one}) == 1 for one in served.values())
    assert all(len(one) == 2 for one in served.values())
    assert len(bed.journal("close")) == 4


class OneProcess(ScriptedSuite):
    """A suite whose groups follow one another in one process."""

    shares_process = True


def test_groups_follow_one_another_in_a_process_where_the_suite_says_so(bed):
    cells = [cell_of(adapter, scenario) for adapter in "abc" for scenario in ("S-1", "S-2")]
    run_sweeps(bed.measurer(plan_of(*cells, effort=effort(2)), suite=OneProcess()))
    served = {}
    for line in bed.journal("measure"):
        served.setdefault(line["pid"], []).append((line["cell"], line["round"]))
    ids = [cell.id for cell in cells]
    assert sorted(served.values(), key=str) == [[(id, round) for id in ids] for round in (0, 1)]


def test_where_one_breaks_their_process_the_others_get_a_new_one(bed):
    cells = [cell_of("a"), cell_of("b", does="kill"), cell_of("c")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1)), suite=OneProcess()))
    assert [record.status for record in records] == [Status.OK, Status.FAILED, Status.OK]


def test_cells_share_a_process_as_their_groups_say(bed):
    planned = [
        planned_cell(cell_of("a", "S-1"), group="both"),
        planned_cell(cell_of("b", "S-1"), group="both"),
        planned_cell(cell_of("a", "S-2"), group="alone"),
    ]
    run_sweeps(bed.measurer(plan_of(*planned, effort=effort(1))))
    served = {}
    for line in bed.journal("measure"):
        served.setdefault(line["pid"], []).append(line["cell"])
    assert sorted(served.values()) == [
        ["scripted.S-1.small.a", "scripted.S-1.small.b"],
        ["scripted.S-2.small.a"],
    ]


def test_a_shard_runs_its_own_cells_and_leaves_the_others(bed):
    keys = {"a": "one", "b": "one", "c": "two"}
    planned = [planned_cell(cell_of(one), shard_key=key) for one, key in keys.items()]
    plan = plan_of(*planned, effort=effort(1))
    first = run_sweeps(bed.measurer(plan, shard=Shard.of(0, 2)))
    assert [record.cell.adapter for record in first] == ["a", "b"]
    assert bed.run.record(planned[2].cell) is None
    second = run_sweeps(bed.measurer(plan, shard=Shard.of(1, 2)))
    assert [record.cell.adapter for record in second] == ["c"]
    assert len(bed.journal("measure")) == 3


def test_one_adapter_under_two_references_has_processes_of_its_own(bed):
    cells = [cell_of("a"), cell_of("a@1.0")]
    records = run_sweeps(bed.measurer(plan_of(*cells)))
    assert statuses(records) == [("a", "ok"), ("a@1.0", "ok")]
    assert len({line["pid"] for line in bed.journal("measure")}) == 4


# How a cell ends


def test_a_cell_is_ok_after_its_rounds_with_figures_samples_and_versions(bed):
    cell = cell_of("a", ms="100,200")
    (record,) = run_sweeps(bed.measurer(plan_of(cell)))
    assert record.status is Status.OK
    assert record.cause is None
    assert record.metrics["steps_per_s"].value == pytest.approx(4 / 0.1 / 2**0.5)
    assert [one.timed_ns for one in record.rounds] == [100_000_000, 200_000_000]
    assert record.versions == {"library": "1"}
    assert record.conditions == {"mood": "calm"}
    assert bed.run.record(cell) == record
    samples = pq.read_table(bed.run.samples_path(cell)).to_pydict()
    assert len(samples.pop("taken_share")) == 8
    assert samples["round"] == [0] * 4 + [1] * 4
    assert samples["step_ns"] == [25_000_000] * 4 + [50_000_000] * 4
    assert {*samples["cell_id"]} == {cell.id}
    assert list(bed.run.rounds(cell)) == []


def test_what_was_checked_in_all_rounds_is_added_up_with_the_verdict_of_the_last(bed):
    (record,) = run_sweeps(bed.measurer(plan_of(cell_of("a"), effort=effort(3))))
    assert record.verification.passed
    assert record.verification.verified_elements == 12
    assert record.verification.compared_elements == 3
    assert record.verification.counts == {"steps": 12}
    assert record.verification.max_difference == 0.5


def test_a_figure_that_does_not_vary_needs_one_round_whatever_the_effort(bed):
    cells = [cell_of("a"), cell_of("b", ms="100,900")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(3, 9)), suite=CountingSuite()))
    assert [len(record.rounds) for record in records] == [1, 1]
    assert [record.metrics["steps_per_s"].low for record in records] == [None, None]
    assert [record.warnings for record in records] == [(), ()]
    assert len(bed.journal("measure")) == 2


def test_rounds_go_on_until_the_interval_is_narrow_or_the_effort_is_spent(bed):
    steady, noisy = cell_of("steady"), cell_of("noisy", ms="100,150,90,160,80")
    settling = cell_of("settling", ms="100,110,100,101,100,101")
    chosen = effort(2, 5)
    records = run_sweeps(bed.measurer(plan_of(steady, noisy, settling, effort=chosen)))
    rounds = {record.cell.adapter: record.rounds for record in records}
    assert len(rounds["steady"]) == 2
    assert len(rounds["noisy"]) == 5
    assert 2 < len(rounds["settling"]) < 5
    assert is_precise_enough(rounds["settling"], PRIMARY, chosen)
    assert not is_precise_enough(rounds["settling"][:-1], PRIMARY, chosen)
    warned = {one.cell.adapter: [w.kind for w in one.warnings] for one in records}
    assert "wide-interval" in warned["noisy"]
    assert "wide-interval" not in warned["steady"]


def test_an_invalid_round_ends_its_cell_at_once_and_the_others_go_on(bed):
    honest, liar = cell_of("honest"), cell_of("liar", round1="lie")
    records = run_sweeps(bed.measurer(plan_of(honest, liar, effort=effort(3))))
    assert statuses(records) == [("honest", "ok"), ("liar", "invalid")]
    assert records[1].cause.kind == "dropped-tail"
    assert records[1].metrics == {}
    assert [one.round for one in records[1].rounds] == [0, 1]
    assert len(bed.journal("measure")) == 5


@pytest.mark.parametrize("does", ["lie", "wait"])
def test_a_round_that_the_machine_spoilt_failed_and_is_not_invalid(bed, does):
    spoilt = cell_of("spoilt", does=f"{does} for want of room")
    records = run_sweeps(bed.measurer(plan_of(cell_of("honest"), spoilt, effort=effort(1))))
    assert statuses(records) == [("honest", "ok"), ("spoilt", "failed")]
    assert records[1].cause.kind == "shared-memory-full"
    assert records[1].metrics == {}


class DoubtingSuite(ScriptedSuite):
    """A suite for which a dropped tail may be the machine's fault."""

    doubtful = frozenset({"dropped-tail"})


def test_a_round_that_the_machine_may_have_spoilt_is_measured_again_in_a_new_process(bed):
    cell = cell_of("stalled", round1="lie")
    (record,) = run_sweeps(bed.measurer(plan_of(cell, effort=effort(3)), suite=DoubtingSuite()))
    assert record.status is Status.OK
    assert [one.round for one in record.rounds] == [0, 2, 3]
    (warning,) = (one for one in record.warnings if one.kind == "doubtful-round")
    assert re.search(r"\bround 2\b", warning.message)
    assert len({line["pid"] for line in bed.journal("measure")}) == 4


@pytest.mark.parametrize(
    ("lies", "status", "rounds"),
    [
        ((0, 1), Status.INVALID, [1]),
        ((1, 2), Status.INVALID, [0, 2]),
        ((2, 3), Status.INVALID, [0, 1, 3]),
        ((1, 4), Status.OK, [0, 2, 3, 5]),
        ((3, 4, 5), Status.INVALID, [0, 1, 2, 5]),
    ],
)
def test_two_doubtful_rounds_are_a_verdict_if_they_are_half_of_all(bed, lies, status, rounds):
    cell = cell_of("liar", **{f"round{number}": "lie" for number in lies})
    (record,) = run_sweeps(bed.measurer(plan_of(cell, effort=effort(4)), suite=DoubtingSuite()))
    assert record.status is status
    assert [one.round for one in record.rounds] == rounds
    if status is Status.OK:
        (warning,) = (one for one in record.warnings if one.kind == "doubtful-round")
        assert re.search(r"\brounds 2, 5\b", warning.message)


def test_a_doubted_round_is_measured_again_though_the_time_of_the_run_is_over(bed):
    plan = plan_of(
        cell_of("stalled", round0="lie"), effort=effort(1), allotment=Allotment(time_s=1e-6)
    )
    (record,) = run_sweeps(bed.measurer(plan, suite=DoubtingSuite()))
    assert record.status is Status.OK
    assert [one.round for one in record.rounds] == [1]


@pytest.mark.parametrize(
    ("does", "status", "kind", "words"),
    [
        ("raise", Status.FAILED, "RuntimeError", "RuntimeError: "),
        ("kill", Status.FAILED, DIED, "signal 9"),
        ("exit", Status.FAILED, DIED, "status 4"),
        ("hang", Status.TIMEOUT, "timeout", " 2 s"),
        ("scribble", Status.FAILED, "worker-garbage", "'Segmentation"),
        ("babble", Status.FAILED, "worker-garbage", ""),
        ("divide", Status.FAILED, "ValidationError", "finite number"),
        ("absent", Status.SKIPPED, "LibraryAbsentError", "install library"),
        ("unsupported", Status.UNSUPPORTED, "UnsupportedError", "no such images"),
    ],
)
@pytest.mark.usefixtures("short_time_for_what_hangs")
def test_a_fault_ends_its_cell_and_spares_the_adapters_next(bed, does, status, kind, words):
    bad, good = cell_of("a", "S-1", does=does), cell_of("a", "S-2")
    records = run_sweeps(bed.measurer(plan_of(bad, good, effort=effort(1, cell_timeout_s=60.0))))
    assert [record.status for record in records] == [status, Status.OK]
    assert records[0].cause.kind == kind
    assert words in records[0].cause.message
    assert records[0].metrics == {}
    assert records[0].verification is None


def test_a_bad_line_of_a_worker_fails_its_cell_and_the_others_get_all_their_rounds(bed):
    before, bad, after = cell_of("a", "S-1"), cell_of("a", "S-2", round1="scribble"), cell_of("b")
    records = run_sweeps(bed.measurer(plan_of(before, bad, after, effort=effort(3))))
    assert [record.status.value for record in records] == ["ok", "failed", "ok"]
    assert records[1].cause.kind == "worker-garbage"
    assert [len(record.rounds) for record in records] == [3, 1, 3]


def test_a_worker_that_sent_a_bad_line_is_replaced_before_the_next_cell(bed):
    bad, good = cell_of("a", "S-1", does="scribble"), cell_of("a", "S-2")
    records = run_sweeps(bed.measurer(plan_of(bad, good, effort=effort(1))))
    assert [record.status for record in records] == [Status.FAILED, Status.OK]
    assert len({line["pid"] for line in bed.journal("measure")}) == 2


def test_a_fault_in_a_later_round_keeps_what_was_measured_before(bed):
    (record,) = run_sweeps(bed.measurer(plan_of(cell_of("a", round1="raise"))))
    assert record.status is Status.FAILED
    assert [one.round for one in record.rounds] == [0]
    assert pq.read_table(bed.run.samples_path(record.cell)).num_rows == 4


def test_a_refused_cell_gets_its_record_without_a_worker(bed):
    records = run_sweeps(bed.measurer(plan_of(refused=[cell_of("a")])))
    assert statuses(records) == [("a", "unsupported")]
    assert bed.journal("measure") == []
    assert bed.witness.told == ["ended scripted.S-1.small.a unsupported 2", "planned 0"]


def test_a_library_that_this_machine_lacks_skips_its_cells_and_no_others(bed):
    cells = [cell_of("a", lacks="DALI", prepare="well"), cell_of("b")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert statuses(records) == [("a", "skipped"), ("b", "ok")]
    assert records[0].cause.kind == "library-absent"
    assert "DALI" in records[0].cause.message
    assert "from source" in records[0].cause.action
    assert {line["adapter"] for line in bed.journal("measure")} == {"b"}
    assert bed.journal("prepare") == []


def test_what_the_plan_refuses_is_said_and_not_what_this_machine_lacks(bed):
    (record,) = run_sweeps(bed.measurer(plan_of(refused=[cell_of("a", lacks="DALI")])))
    assert record.status is Status.UNSUPPORTED
    assert record.cause.kind == "lacks-ability"


def test_a_library_that_was_absent_is_run_on_a_machine_that_has_it(bed):
    """Absence is asked when cells are run, so the same plan is run where the library is."""
    plan = plan_of(cell_of("a", lacks="DALI"), effort=effort(1))
    assert run_sweeps(bed.measurer(plan))[0].status is Status.SKIPPED

    class Equipped(ScriptedSuite):
        def absence(self, cell):
            return None

    (record,) = run_sweeps(bed.measurer(plan, suite=Equipped()), retry={Status.SKIPPED})
    assert record.status is Status.OK


def test_a_worker_that_cannot_start_fails_all_its_cells_and_no_others(bed):
    cells = [cell_of("fails-to-start", "S-1"), cell_of("fails-to-start", "S-2"), cell_of("a")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert [record.status.value for record in records] == ["failed", "failed", "ok"]
    assert records[0].cause.message == "RuntimeError: no such device"
    first, second, _ = (bed.run.log_path(cell) for cell in cells)
    assert "no such device" in first.read_text()
    assert first.name in second.read_text()


def test_an_interpreter_that_vanished_fails_the_cells_and_not_the_run(bed, tmp_path):
    measurer = bed.measurer(plan_of(cell_of("a", "S-1"), cell_of("a", "S-2")))
    measurer.interpreters = Interpreters(None, tmp_path / "gone")
    records = run_sweeps(measurer)
    assert [(one.status.value, one.cause.kind) for one in records] == [
        ("failed", "worker-start"),
        ("failed", "worker-start"),
    ]


def test_a_venv_that_cannot_be_made_fails_its_cells_with_the_tail_of_the_log(bed):
    bad = [cell_of("cannot-be-installed", scenario) for scenario in ("S-1", "S-2")]
    records = run_sweeps(bed.measurer(plan_of(*bad), own=True))
    assert [record.status for record in records] == [Status.FAILED] * 2
    assert records[0].cause.kind == "venv"
    assert "nowhere-1.0" in records[0].cause.message
    assert records[0].cause.action == "skymark env build cannot-be-installed"
    assert "nowhere-1.0" in bed.run.log_path(bad[0]).read_text()


def test_what_could_not_be_set_up_is_tried_again_by_the_next_run_and_nothing_else_is(bed, tmp_path):
    plan = plan_of(cell_of("a"), cell_of("b", does="raise"), effort=effort(1))
    measurer = bed.measurer(plan_of(cell_of("a"), effort=effort(1)))
    measurer.interpreters = Interpreters(None, tmp_path / "gone")
    assert statuses(run_sweeps(measurer)) == [("a", "failed")]
    assert statuses(run_sweeps(bed.measurer(plan))) == [("a", "ok"), ("b", "failed")]
    assert statuses(run_sweeps(bed.measurer(plan))) == [("a", "ok"), ("b", "failed")]
    assert [line["adapter"] for line in bed.journal("measure")] == ["a", "b"]


def offline(*_):
    raise VenvBuildError("uv could not make it", "client error (Connect): dns error")


def test_a_venv_without_a_network_says_where_to_make_it(bed, monkeypatch):
    monkeypatch.setattr(Venvs, "ensure", offline)
    plan = plan_of(cell_of("a"), cell_of("without-a-venv"), effort=effort(1))
    record, other = run_sweeps(bed.measurer(plan, own=True))
    assert record.cause.kind == "venv"
    assert "no network" in record.cause.message
    assert record.cause.action.startswith("skymark env build a,")
    assert "SKYMARK_CACHE" in record.cause.action
    assert other.status is Status.OK


def test_where_no_venv_can_be_made_without_a_network_one_line_says_so(bed, monkeypatch):
    monkeypatch.setattr(Venvs, "ensure", offline)
    measurer = bed.measurer(plan_of(cell_of("a"), cell_of("b")), own=True)
    with pytest.raises(UsageError, match=r"\bno network\b.*\ba, b\b"):
        run_sweeps(measurer)
    assert measurer.open.records == {}


def test_the_command_that_builds_a_venv_again_names_the_adapter_as_its_suite_does(bed):
    class OfFiles(ScriptedSuite):
        def adapter_reference(self, cell):
            return f"own.py:{cell.adapter}"

    measurer = bed.measurer(plan_of(cell_of("cannot-be-installed")), own=True, suite=OfFiles())
    (record,) = run_sweeps(measurer)
    assert record.cause.action == "skymark env build own.py:cannot-be-installed"


def test_an_adapter_without_a_venv_runs_in_skymarks_own_interpreter(bed):
    plan = plan_of(cell_of("without-a-venv"), effort=effort(1))
    (record,) = run_sweeps(bed.measurer(plan, own=True))
    assert record.status is Status.OK
    assert not (bed.cache / "venvs").exists()


def test_processes_that_an_adapter_leaves_behind_are_a_warning_of_its_cells(bed):
    leaky, clean = cell_of("leaky", does="leak"), cell_of("clean")
    records = run_sweeps(bed.measurer(plan_of(leaky, clean, effort=effort(1))))
    warnings = [[w for w in one.warnings if w.kind == "leaked-processes"] for one in records]
    assert [len(found) for found in warnings] == [1, 0]
    assert "sleep 3600" in warnings[0][0].message


# Data


def prepared_in(told):
    """The scenarios and adapters whose data was told to be prepared."""
    return re.findall(r"preparing (\S+) \(small\) for (\S+)", "\n".join(told))


def test_data_is_prepared_once_before_anything_is_measured(bed):
    run_sweeps(bed.measurer(plan_of(cell_of("a", prepare="well"), cell_of("b"))))
    lines = (bed.cache / "journal.jsonl").read_text().splitlines()
    does = [json.loads(line)["do"] for line in lines]
    assert does[0] == "prepare"
    assert does.count("prepare") == 1


def test_a_worker_that_is_killed_while_it_starts_is_started_once_more(bed):
    cells = [cell_of("dies-at-first-start", "S-1"), cell_of("dies-at-first-start", "S-2")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert [record.status for record in records] == [Status.OK, Status.OK]


def test_a_worker_that_always_dies_at_its_start_fails_its_cells(bed):
    cells = [cell_of("dies-at-start", "S-1"), cell_of("dies-at-start", "S-2")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert [record.status for record in records] == [Status.FAILED, Status.FAILED]
    assert "signal 9" in records[0].cause.message


def test_data_from_elsewhere_is_fetched_before_any_worker_starts(bed):
    run_sweeps(
        bed.measurer(plan_of(cell_of("a", fetch="photos", prepare="well"), effort=effort(1)))
    )
    assert bed.witness.told[0] == "stage fetching photos"
    assert prepared_in(bed.witness.told[:2]) == [("S-1", "a")]


@pytest.mark.parametrize("shares_process", [False, True])
def test_all_that_is_prepared_is_told_when_it_is(bed, monkeypatch, shares_process):
    monkeypatch.setattr(ScriptedSuite, "shares_process", shares_process)
    pairs = [("S-1", "a"), ("S-2", "a"), ("S-2", "b")]
    cells = [cell_of(adapter, scenario, prepare="well") for scenario, adapter in pairs]
    run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert prepared_in(bed.witness.told) == pairs


def test_data_that_another_cell_made_ready_is_not_prepared_again(bed, monkeypatch):
    def one_needs_it(self, cells, cache):
        """Say that data is lacking until the first cell was told to be prepared."""
        return [] if prepared_in(bed.witness.told) else list(cells)

    monkeypatch.setattr(ScriptedSuite, "unprepared", one_needs_it)
    monkeypatch.setattr(ScriptedSuite, "shares_process", True)
    cells = [cell_of("a", "S-1", prepare="well"), cell_of("a", "S-2", prepare="well")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    assert prepared_in(bed.witness.told) == [("S-1", "a")]
    assert [record.status for record in records] == [Status.OK, Status.OK]


def test_data_that_cannot_be_prepared_fails_its_cell_only(bed):
    damaged, well = cell_of("a", "S-1", prepare="raise"), cell_of("a", "S-2", prepare="well")
    records = run_sweeps(bed.measurer(plan_of(damaged, well, effort=effort(1))))
    assert [record.status.value for record in records] == ["failed", "ok"]
    assert records[0].cause.kind == "ValueError"


# What observers are told


def test_an_observer_is_told_of_every_round_and_end(bed):
    run_sweeps(bed.measurer(plan_of(cell_of("a"), cell_of("b", does="raise"))))
    assert bed.witness.told == [
        "planned 4",
        "measuring scripted.S-1.small.a 0",
        "measured scripted.S-1.small.a 0",
        "measuring scripted.S-1.small.b 0",
        "measured scripted.S-1.small.b 0",
        "ended scripted.S-1.small.b failed 1",
        "measuring scripted.S-1.small.a 1",
        "measured scripted.S-1.small.a 1",
        "ended scripted.S-1.small.a ok 0",
    ]


def test_the_steps_announced_are_the_steps_that_come(bed):
    cells = [cell_of("a"), cell_of("b", does="raise"), cell_of("c", round1="lie")]
    run_sweeps(bed.measurer(plan_of(*cells, effort=effort(3))))
    planned = [int(told.split()[1]) for told in bed.witness.told if told.startswith("planned")]
    measured = sum(told.startswith("measured") for told in bed.witness.told)
    spared = sum(int(told.split()[-1]) for told in bed.witness.told if told.startswith("ended"))
    assert planned == [measured + spared]


# Taking up a run


@pytest.mark.parametrize("data", [{}, {"prepare": "well"}], ids=["data-there", "data-gone"])
def test_an_interrupted_run_goes_on_where_it_was(bed, data):
    plan = plan_of(cell_of("a", **data), cell_of("b", **data), effort=effort(2))
    bed.witness = interrupted_at("measuring scripted.S-1.small.b 1")
    with pytest.raises(KeyboardInterrupt):
        run_sweeps(bed.measurer(plan))
    bed.witness = Witness()
    records = run_sweeps(bed.measurer(plan))
    assert statuses(records) == [("a", "ok"), ("b", "ok")]
    assert len(bed.journal("measure")) == 4
    assert all([one.round for one in record.rounds] == [0, 1] for record in records)


def test_finished_cells_are_not_run_again(bed):
    plan = plan_of(cell_of("a"))
    first = run_sweeps(bed.measurer(plan))
    assert run_sweeps(bed.measurer(plan)) == first
    assert len(bed.journal("measure")) == 2


def test_only_the_statuses_to_retry_are_run_again(bed):
    cells = [cell_of("a"), cell_of("b", does="raise"), cell_of("c", does="lie")]
    plan = plan_of(*cells, effort=effort(1))
    first = run_sweeps(bed.measurer(plan))
    done = len(bed.journal("measure"))
    second = run_sweeps(bed.measurer(plan), retry={Status.FAILED})
    assert statuses(second) == statuses(first)
    assert [line["adapter"] for line in bed.journal("measure")[done:]] == ["b"]
    assert second[0] == first[0]
    assert second[1].started_at > first[1].started_at


def test_a_retried_cell_without_rounds_drops_the_samples_of_its_earlier_record(bed):
    cell = cell_of("a", round1="raise")
    run_sweeps(bed.measurer(plan_of(cell)))
    assert bed.run.samples_path(cell).exists()
    failing = bed.measurer(plan_of(cell))
    failing.interpreters = Interpreters(None, bed.cache / "gone")
    (record,) = run_sweeps(failing, retry={Status.FAILED})
    assert record.rounds == ()
    assert not bed.run.samples_path(cell).exists()


def test_rounds_of_other_versions_are_not_put_together(bed):
    cell = cell_of("a", versions="1,2,2,2")
    (record,) = run_sweeps(bed.measurer(plan_of(cell, effort=effort(2))))
    assert [one.round for one in record.rounds] == [1, 2]
    assert record.versions == {"library": "2"}


def test_rounds_on_disk_of_other_versions_are_left_out_on_resuming(bed):
    cell = cell_of("a", versions="1,2,2,2")
    plan = plan_of(cell, effort=effort(2))
    bed.witness = interrupted_at("measuring scripted.S-1.small.a 2")
    with pytest.raises(KeyboardInterrupt):
        run_sweeps(bed.measurer(plan))
    bed.witness = Witness()
    (record,) = run_sweeps(bed.measurer(plan))
    assert [one.round for one in record.rounds] == [1, 2]
    assert bed.witness.told[0] == "planned 1"


def test_a_damaged_round_is_measured_anew_under_a_number_of_its_own(bed):
    cell = cell_of("a")
    plan = plan_of(cell, effort=effort(4))
    bed.witness = interrupted_at("measuring scripted.S-1.small.a 3")
    with pytest.raises(KeyboardInterrupt):
        run_sweeps(bed.measurer(plan))
    damaged = bed.run.path / "rounds" / cell.id / "1.json"
    damaged.write_bytes(damaged.read_bytes()[:100])
    bed.witness = Witness()
    (record,) = run_sweeps(bed.measurer(plan))
    assert [one.round for one in record.rounds] == [0, 2, 3, 4]


def test_a_run_that_has_its_rounds_already_only_writes_the_record(bed):
    cell = cell_of("a")
    for number in range(3):
        bed.run.write_round(cell, round_of(number), {"library": "1"})
    (record,) = run_sweeps(bed.measurer(plan_of(cell, effort=effort(3))))
    assert record.status is Status.OK
    assert bed.journal("measure") == []


def round_of(number):
    timed_ns = 10**8 + number
    return RoundResult(
        round=number,
        started_at=datetime.now(UTC),
        setup_s=0.0,
        timed_ns=timed_ns,
        metrics={"steps_per_s": 4e9 / timed_ns, "step_ns": timed_ns / 4},
        samples={"step_ns": (timed_ns // 4,) * 4},
        verification=Verification(passed=True),
    )


# A disk that refuses


def test_a_refused_write_stops_the_run_and_keeps_what_is_done(bed):
    done, next_one = cell_of("a"), cell_of("b")
    run_sweeps(bed.measurer(plan_of(done, effort=effort(1))))
    (bed.run.path / "rounds").rmdir()
    (bed.run.path / "rounds").write_text("in the way")
    with pytest.raises(StorageFullError, match="--resume"):
        run_sweeps(bed.measurer(plan_of(done, next_one, effort=effort(1))))
    assert RunDirectory(bed.run.path).record(done).status is Status.OK
    assert bed.run.record(next_one) is None


def test_an_adapter_whose_data_another_one_makes_imports_nothing_before_its_round(bed, monkeypatch):
    def made_by_the_first(self, cells, cache):
        return [] if prepared_in(bed.witness.told) else list(cells)

    monkeypatch.setattr(ScriptedSuite, "unprepared", made_by_the_first)
    before = []
    bed.witness.on = lambda told: before.append((told, len(bed.journal("import"))))
    cells = [cell_of(f"forks-{one}", prepare="well") for one in "abc"]
    run_sweeps(bed.measurer(plan_of(*cells, effort=effort(1))))
    first = next(imports for told, imports in before if told.startswith("measuring"))
    assert (first, len(bed.journal("import"))) == (1, 3)


def test_disturbed_rounds_are_set_aside_and_measured_again(bed, taken):
    taken.shares = [0.4, 0.0, 0.0, 0.4, 0.0]
    plan = plan_of(cell_of("a", ms="300,100,110,320,105"), effort=effort(2, most=3))
    (record,) = run_sweeps(bed.measurer(plan, sets_aside=True))
    assert [round.is_disturbed for round in record.rounds] == [True, False, False]
    assert not record.disturbed
    assert record.values("steps_per_s") == [
        round.metrics["steps_per_s"] for round in record.counted
    ]
    assert record.metrics["steps_per_s"].value > 37
    assert {"rounds-set-aside"} <= {warning.kind for warning in record.warnings}


def test_a_cell_that_is_always_disturbed_ends_and_says_so(bed, taken):
    taken.shares = [0.4] * 9
    plan = plan_of(cell_of("a"), effort=effort(2, most=4))
    (record,) = run_sweeps(bed.measurer(plan, sets_aside=True))
    assert record.disturbed
    assert len(record.rounds) == 4
    assert list(record.counted) == list(record.rounds)
    assert {"disturbed"} <= {warning.kind for warning in record.warnings}


def test_disturbed_rounds_of_an_interrupted_run_stay_set_aside(bed, taken):
    taken.shares = [0.0, 0.4, 0.0]
    plan = plan_of(cell_of("a"), effort=effort(2, most=4))

    def interrupt(told):
        if told == "measuring scripted.S-1.small.a 2":
            raise KeyboardInterrupt

    bed.witness = Witness(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sweeps(bed.measurer(plan, sets_aside=True))
    bed.witness = Witness()
    (record,) = run_sweeps(bed.measurer(plan, sets_aside=True))
    assert [round.is_disturbed for round in record.rounds] == [False, True, False]
