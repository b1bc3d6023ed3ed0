"""The suite that sorts, through `run`: the contract of suites, without the command line."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skymark
from skymark.execute.planner import make_plan
from skymark.execute.session import FinishedRun, run
from skymark.execute.sweeps import Sweeps
from skymark.execute.venvs import Venvs
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.metric import SAMPLE_ORIGIN
from skymark.model.plan import Plan, Profile
from skymark.model.record import Cell, Record, Round, Status, is_well
from skymark.model.requests import Results, Work
from skymark.model.venv import VenvSpec
from skymark.rundir.reader import open_run
from skymark.suite.registry import suite_named

PROFILE = Profile(
    name="any", description="", suite="sorting", platform="cpu", scenarios=("random", "reversed")
)
LENGTH = 256


class Silent:
    """An observer that looks away."""

    def stage(self, text: str) -> None: ...
    def planned(self, steps: int) -> None: ...
    def measuring(self, cell: Cell, round: int) -> None: ...
    def measured(self, cell: Cell, round: int, result: Round | None) -> None: ...
    def ended(self, record: Record, *, rounds_left: int = 0) -> None: ...


@pytest.fixture(autouse=True)
def found_by_workers(sorting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers import the suite, and measure under a lock and a cache of the test's own."""
    paths = [sorting, Path(skymark.__file__).parents[1], os.environ.get("SKYMARK_WORKER_PATH", "")]
    monkeypatch.setenv("SKYMARK_WORKER_PATH", os.pathsep.join(filter(None, map(str, paths))))
    monkeypatch.setenv("SKYMARK_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))


def plan_of(*adapters: str, rounds: int = 1, **selected) -> Plan:
    return make_plan(PROFILE, Work(adapters=adapters, rounds=rounds, **selected))


def test_a_plan_says_which_cells_share_a_process_and_a_machine():
    cells = plan_of().cells
    assert [one.cell.id for one in cells[:4]] == [
        "sorting.random.small.builtin",
        "sorting.random.small.heap",
        "sorting.random.small.insertion",
        "sorting.random.small.merge",
    ]
    assert {one.group for one in cells} == {"builtin", "heap", "insertion", "merge"}
    assert {one.shard_key for one in cells} == {"random:small", "reversed:small"}
    assert all(one.guess.low_s < one.guess.expected_s < one.guess.high_s for one in cells)


def test_all_is_every_scenario_and_every_adapter():
    cells = make_plan(PROFILE, Work(scenarios=("all",), adapters=("all",))).cells
    suite = suite_named("sorting")
    assert {one.cell.scenario for one in cells} == {row["id"] for row in suite.scenarios()}
    assert {one.cell.adapter for one in cells} == {row["slug"] for row in suite.adapters()}


def test_an_array_too_long_for_an_algorithm_is_refused_with_the_reason():
    cells = plan_of(options={"length": 100_000}).cells
    refused = {one.cell.adapter: one.refusal for one in cells if one.refusal is not None}
    assert list(refused) == ["insertion"]
    status, cause = refused["insertion"]
    assert status is Status.UNSUPPORTED
    assert "quadratic time" in cause.message


@pytest.mark.parametrize(
    ("selected", "reason"),
    [
        ({"scenarios": ("sideways",)}, "unknown scenario 'sideways'"),
        ({"scenarios": ("random:huge",)}, "variant of random 'huge'"),
        ({"adapters": ("bubble",)}, "unknown adapter 'bubble'"),
        ({"settings": {"elment": "int"}}, "'element'"),
        ({"settings": {"element": "str"}}, "setting element='str'"),
        ({"options": {"length": 0}}, "option length=0"),
    ],
)
def test_a_wrong_name_or_value_is_refused_before_anything_starts(selected, reason):
    with pytest.raises((UsageError, UnknownNameError)) as refused:
        make_plan(PROFILE, Work(**selected))
    assert reason in str(refused.value)


def measured(plan: Plan, path: Path) -> FinishedRun:
    """Carry out a plan into a directory."""
    return run(plan, Results(output=path), Silent(), Sweeps())


def test_cells_are_measured_counted_and_verified(tmp_path):
    ran = measured(plan_of("builtin", "insertion", rounds=2), tmp_path / "out")
    assert is_well(ran.records)
    records = open_run(tmp_path / "out").by_id
    assert len(records) == 4
    for record in records.values():
        assert record.status is Status.OK
        assert record.metrics["elements_per_s"].low > 0
        assert record.metrics["comparisons"].low is None
        assert record.verification.verified_elements == 2 * LENGTH
        assert record.versions["skymark-sorting"] == "1.0"
        assert record.conditions["language"] in {"C", "Python"}
    inserted = records["sorting.reversed.small.insertion"].metrics["comparisons"].value
    assert inserted == LENGTH * (LENGTH - 1) / 2
    assert records["sorting.reversed.small.builtin"].metrics["comparisons"].value == LENGTH - 1
    path = tmp_path / "out" / "samples" / "sorting.random.small.builtin.parquet"
    rows_give_the_rates(pq.read_table(path), records["sorting.random.small.builtin"])


def rows_give_the_rates(table: pa.Table, record: Record) -> None:
    """The raw samples have the declared columns, and the figures can be derived from them."""
    assert table.column_names[:4] == ["round", "taken_share", "sorting_ns", "arrays"]
    assert {*table.column_names[4:]} == SAMPLE_ORIGIN - {"round", "taken_share"}
    for one in record.rounds:
        rows = [row for row in table.to_pylist() if row["round"] == one.round]
        arrays, taken_ns = (sum(row[name] for row in rows) for name in ("arrays", "sorting_ns"))
        rate = LENGTH * arrays / (taken_ns / 1e9)
        assert rate == pytest.approx(one.metrics["elements_per_s"])


def test_what_does_not_sort_is_invalid_with_the_place_where_that_shows(tmp_path):
    shapes = ("random", "reversed", "few-distinct")
    ran = measured(plan_of("no-op", scenarios=shapes), tmp_path / "out")
    assert not is_well(ran.records)
    assert len(ran.records) == 3
    for record in ran.records:
        assert record.status is Status.INVALID
        assert record.cause.kind == "not-sorted"
        assert record.cause.message.startswith("element ")
        assert record.metrics == {}


def test_an_algorithm_in_a_venv_of_its_own_finds_the_package_of_its_suite(tmp_path, monkeypatch):
    from skymark_sorting.suite import SortingSuite

    monkeypatch.setattr(SortingSuite, "venv", lambda *_: VenvSpec(name="empty"))
    # What skymark needs of others; the package of the suite is not there.
    monkeypatch.setenv("SKYMARK_WORKER_PATH", sysconfig.get_path("purelib"))
    ran = measured(plan_of("merge", scenarios=("random",)), tmp_path / "out")
    assert [(record.status, record.cause) for record in ran.records] == [(Status.OK, None)]
    (venv,) = Venvs(tmp_path / "cache").built()
    assert venv.name == "empty"
    (root,) = (tmp_path / "cache" / "import").iterdir()
    assert {path.name for path in root.iterdir()} == {"skymark", "skymark_sorting"}


def test_the_oracle_finds_elements_that_are_lost_or_made_up(sorting):
    from skymark_sorting.oracle import verify

    assert verify([3, 1, 2, 1], [1, 1, 2, 3]).passed
    lost = verify([3, 1, 2, 1], [1, 2, 3])
    assert lost.cause.kind == "not-a-permutation"
    assert re.findall(r"\d+", lost.cause.message) == ["1", "2", "1"]
    made_up = verify([3, 1, 2], [1, 2, 3, 4])
    assert re.findall(r"\d+", made_up.cause.message) == ["4", "0", "1"]
    assert verify([], []).passed
