"""Each library that installs by itself does its scenarios, or its record says why it cannot.

Here each library does every third one of the scenarios that it shares with others. All pairs:

    nox -s libraries
"""

from __future__ import annotations

import socket
from collections import defaultdict
from functools import cache

import pytest

import skymark
from skymark.execute.planner import write_plan
from skymark.model.plan import Plan
from skymark.model.record import Status
from skymark.suites.loading.registry import adapters
from tests.functional.conftest import run_in
from tests.in_library import run_in_library

CALL_FFMPEG = ("torchcodec", "spdl-io")
SMALL = ("numpy", "grain")
"""Libraries whose venvs have less than a gigabyte: `make test` runs them, all others bring PyTorch
or TensorFlow."""


def marks_of(slug: str) -> list[pytest.MarkDecorator]:
    """Mark a library by its venv and by the packages that it needs of the system."""
    venv = pytest.mark.core if slug in SMALL else pytest.mark.libraries
    return [venv, pytest.mark.needs("ffmpeg")] if slug in CALL_FFMPEG else [venv]


INSTALLABLE = [slug for slug, cls in adapters().items() if not cls.install_hint]
WHOLE = ("numpy", "torchcodec", "torchvision", "spdl-io")
"""The reference, and libraries of few scenarios: they do all of theirs."""


@cache
def whole_plan() -> Plan:
    """Plan every scenario, small, for every library."""
    options = {"axis": ["depth=5", "ranks=2"]}
    work = {"scenarios": ["all:tiny"], "adapters": INSTALLABLE, "timeout_s": 300.0}
    return skymark.plan(skymark.Work(**work, effort="check", options=options))


@cache
def left_out() -> frozenset[str]:
    """Return the cells that a library leaves to others: two thirds of a scenario that many do."""
    cells = defaultdict(list)
    for planned in whole_plan().runnable:
        if planned.cell.adapter not in WHOLE:
            cells[planned.cell.label].append(planned.cell.id)
    shared = [ids for ids in cells.values() if len(ids) > 3]
    return frozenset(
        id for shift, ids in enumerate(shared) for turn, id in enumerate(ids, shift) if turn % 3
    )


def plan_of(slug: str, *, all_pairs: bool) -> Plan:
    """Plan a library's part, with the cells that it cannot do."""
    plan = whole_plan()
    kept = [one for one in plan.cells if one.cell.adapter == slug]
    if not all_pairs:
        kept = [one for one in kept if one.cell.id not in left_out()]
    return plan.model_copy(update={"cells": tuple(kept)})


@pytest.mark.core
def test_each_scenario_and_each_library_is_tried():
    runnable = [one.cell for one in whole_plan().runnable]
    tried = [cell for cell in runnable if cell.id not in left_out()]
    assert {cell.label for cell in tried} == {cell.label for cell in runnable}
    assert {cell.adapter for cell in tried} == {cell.adapter for cell in runnable}
    assert len(tried) > len(runnable) / 3


@pytest.mark.parametrize("slug", [pytest.param(slug, marks=marks_of(slug)) for slug in INSTALLABLE])
def test_a_library_is_verified_in_the_scenarios_that_it_can_do(tmp_path, pytestconfig, slug):
    plan = plan_of(slug, all_pairs=pytestconfig.getoption("--all-pairs", False))
    write_plan(plan, tmp_path / "plan.json")
    ran = run_in(tmp_path, "run", "--plan", str(tmp_path / "plan.json"))
    ends = {id: (record.status, record.cause) for id, record in ran.records.items()}
    wrong = {
        id: cause
        for id, (status, cause) in ends.items()
        if status not in {Status.OK, Status.UNSUPPORTED}
    }
    assert not wrong, ran.stderr
    assert ran.status == 0
    assert set(ran.records) == {one.cell.id for one in plan.cells}
    for record in ran.records.values():
        if record.status is Status.UNSUPPORTED:
            assert record.cause.message
        else:
            assert record.verification.passed
            assert record.verification.compared_elements > 0
            assert record.versions[adapters()[slug].distribution]


@pytest.mark.libraries
@pytest.mark.parametrize("slug", ["energon", "litdata", "pytorch"])
def test_a_state_is_whole_where_the_epoch_before_was_left_in_its_middle(tmp_path, slug):
    done = run_in_library(slug, "tests.left_epochs", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "had come before" in line] == []


@pytest.mark.libraries
def test_processes_that_start_after_copies_to_a_gpu_are_not_forked(tmp_path):
    done = run_in_library("spdl", "tests.forked_late", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "170\n"), done.stderr


@pytest.mark.libraries
@pytest.mark.parametrize("slug", ["deeplake", "lance", "mosaic", "s3torchconnector"])
def test_a_client_of_s3_reads_from_this_machine_whatever_proxy_there_is(tmp_path, slug):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        ran = run_in(
            *(tmp_path, "run", "--scenarios", "IO-1:tiny", "--axis", "source=http"),
            *("--effort", "check", "--timeout", "600", "--adapters", slug),
            HTTP_PROXY=address,
            http_proxy=address,
            NO_PROXY="",
            no_proxy="",
        )
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    assert [record.status for record in ran.records.values()] == [Status.OK], ran.stderr


@pytest.mark.libraries
@pytest.mark.parametrize("slug", ["litdata", "megatron"])
@pytest.mark.parametrize("workers", ["0", "3"])
def test_a_mixture_is_verified_with_workers_that_divide_no_source(tmp_path, slug, workers):
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "MIX-1:tiny", "--effort", "check", "--timeout", "600"),
        *("--adapters", slug, "--workers", workers),
    )
    (record,) = ran.records.values()
    assert (record.status, record.cause) == (Status.OK, None), ran.stderr


@pytest.mark.libraries
def test_litdata_mixes_parquet_files_that_were_indexed_in_any_order(tmp_path):
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "MIX-1:tiny", "--effort", "check", "--timeout", "600"),
        *("--adapters", "litdata", "--set", "format=indexed-parquet"),
    )
    (record,) = ran.records.values()
    assert (record.status, record.cause) == (Status.OK, None), ran.stderr


@pytest.mark.parametrize(
    ("slug", "option", "execution", "scenarios"),
    [
        pytest.param(
            *("grain", "grain_processes=2", "2 processes", ("NLP-2", "MIX-1", "PR-1", "PR-5")),
            marks=marks_of("grain"),
        ),
        pytest.param(
            *("spdl", "spdl_execution=processes", "2 processes", ("NLP-2", "PR-2")),
            marks=marks_of("spdl"),
        ),
        pytest.param(
            *("spdl", "spdl_execution=process", "2 threads in a process of their own", ("CV-4",)),
            marks=marks_of("spdl"),
        ),
    ],
)
def test_what_is_usually_done_in_threads_is_verified_in_processes_too(
    tmp_path, slug, option, execution, scenarios
):
    cells = (f"{name}:tiny" for name in scenarios)
    ran = run_in(
        *(tmp_path, "run", "--effort", "check", "--timeout", "600", "--scenarios", *cells),
        *("--adapters", slug, "--set", option),
    )
    for record in ran.records.values():
        assert (record.status, record.cause) == (Status.OK, None), ran.stderr
        assert record.conditions["execution"] == execution
    assert len(ran.records) == len(scenarios)


@pytest.mark.libraries
def test_a_library_is_compared_with_an_older_release_of_itself(tmp_path):
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "TAB-1", "--effort", "check"),
        *("--adapters", "Google Grain", "grain@0.2.17"),
    )
    assert ran.status == 0, ran.stderr
    older = ran.records["loading.TAB-1.small.grain@0_2_17"]
    newest = ran.records["loading.TAB-1.small.grain"]
    assert older.status is newest.status is Status.OK
    assert older.versions["grain"] == "0.2.17"
    assert newest.versions["grain"] != "0.2.17"


@pytest.mark.core
@pytest.mark.parametrize("slug", ["numpy", "pytorch", "grain"])
def test_the_three_first_libraries_lack_nothing_of_tier_1(tmp_path, slug):
    planned = run_in(tmp_path, "plan", "--scenarios", "tier-1", "--adapters", slug, "--json")
    plan = Plan.model_validate_json(planned.stdout)
    assert len(plan.runnable) == len(plan.cells) == 14


@pytest.mark.libraries
def test_what_calls_ffmpeg_is_skipped_with_what_to_install_where_there_is_none(tmp_path):
    # Of the FFmpeg that there may be, releases 4 to 9, none loads where these files come first.
    for release in range(56, 63):
        (tmp_path / f"libavutil.so.{release}").write_bytes(b"")
    arguments = ("--scenarios", "CV-1:tiny", "CV-5:tiny", "AU-1:tiny", "--adapters", *CALL_FFMPEG)
    ran = run_in(tmp_path, "run", *arguments, "--effort", "check", LD_LIBRARY_PATH=str(tmp_path))
    assert ran.status == 1, ran.stderr  # nothing was measured
    asked = [one for one in ran.records.values() if one.status is not Status.UNSUPPORTED]
    for record in asked:
        assert (record.status, record.cause.kind) == (Status.SKIPPED, "LibraryAbsentError")
        assert "apt-get install" in record.cause.message
    assert sorted(record.cell.scenario for record in asked) == ["AU-1", "CV-1", "CV-5"]


def test_a_library_that_does_not_install_by_itself_is_skipped_with_the_command(tmp_path):
    by_hand = [slug for slug, cls in adapters().items() if cls.install_hint]
    assert by_hand
    arguments = ("--effort", "check", "--timeout", "300", "--adapters", *by_hand)
    ran = run_in(tmp_path, "run", "--scenarios", "CV-1", *arguments)
    assert ran.status == 1, ran.stderr  # nothing was measured
    for record in ran.records.values():
        assert record.status in {Status.SKIPPED, Status.UNSUPPORTED}
        if record.status is Status.SKIPPED:
            assert record.cause.action.startswith(adapters()[record.cell.adapter].install_hint)
