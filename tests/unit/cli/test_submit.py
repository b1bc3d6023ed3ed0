"""What `skymark submit` refuses before SkyPilot is asked for anything."""

from __future__ import annotations

import re

import pytest

import skymark
from skymark.cli.main import main
from skymark.cli.options import given_options
from skymark.cli.submit import ManagedOptions
from skymark.cloud.submitting import measurable, plan_to_submit, split_of_jobs
from skymark.execute.partition.shard import Item, worker_parts
from skymark.model.errors import NothingToMeasureError, UsageError
from skymark.model.requests import Work
from tests.scripted_suite import cell_of, plan_of

BUCKET = ("--store", "s3://bucket/runs")


@pytest.fixture
def refused(capsys):
    def refused(*arguments):
        assert main(["submit", *arguments]) == 2
        return " ".join(capsys.readouterr().err.split())

    return refused


@pytest.mark.parametrize(
    "option", [("--cluster", "shared"), ("--gpu-fraction", "0.125"), ("--slots", "4"),
               ("--one-job-per-group",)]
)  # fmt: skip
def test_options_of_a_shared_machine_are_refused_by_name_with_managed(refused, option):
    said = refused("--managed", *BUCKET, *option)
    assert re.search(f"{option[0]} .*--managed", said)


@pytest.mark.parametrize(
    "option", [("--jobs", "2"), ("--infra", "lambda"), ("--spot",), ("--gpus", "A100:1"),
               ("--machine", "my.yaml"), ("--boot-timeout", "5m"), ("-y",)]
)  # fmt: skip
def test_options_of_rented_machines_are_refused_by_name_without_it(refused, option):
    name = "--yes" if option == ("-y",) else option[0]
    said = refused("--cluster", "shared", *option)
    assert re.search(f"{name} .*--managed.*; add --managed", said)


def test_a_split_is_refused_where_workers_take_what_is_next(refused):
    said = refused("--cluster", "shared", "--split", "longest")
    assert re.search("--split longest .*--managed", said)


ITEMS = [Item(key=f"model {size}", cells=2, expected_s=size) for size in (9.0, 1.0, 1.0)]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, ["1", "2", "3"]),
        ({"jobs": 2}, ["1", "2–3"]),
        ({"jobs": 2, "split": "balanced"}, ["1 3", "2"]),
        ({"split": "even:2"}, ["1", "2–3"]),
        ({"jobs": 2, "split": "weighted:big=1x2,small=1x1"}, ["1–2", "3"]),
    ],
)
def test_the_split_says_which_groups_each_managed_job_takes(given, taken):
    parts = worker_parts(split_of_jobs(given.get("split"), given.get("jobs"), ITEMS), ITEMS)
    assert [one.span for one in parts] == taken


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"split": "evn"}, "unknown split"),
        ({"split": "even:2", "jobs": 3}, "--split even:2 .*--jobs 3"),
        ({"split": "even:4"}, "--split even:4 .*job 1 of 4"),
        ({"split": "weighted:small=1x1,big=1x9"}, "--split weighted:.*job 1 of 2"),
    ],
)
def test_a_split_that_leaves_a_job_without_groups_rents_nothing(given, said):
    with pytest.raises(UsageError, match=said):
        split_of_jobs(given.get("split"), given.get("jobs"), ITEMS)


def test_without_names_a_suite_that_shares_its_machine_takes_all_it_has():
    said = []
    everything = Work(profile="clip_gpu", scenarios=("all",), adapters=("all",))
    plan, profile = plan_to_submit(Work(profile="clip_gpu"), None, said.append)
    assert (plan, profile) == (skymark.plan(everything), "clip_gpu")
    assert " clip " in said.pop()
    for kept in (Work(profile="clip_gpu", scenarios=("wds/vtab/cifar10",)), Work(profile="cpu")):
        assert plan_to_submit(kept, None, said.append)[0] == skymark.plan(kept)
    assert said == []


def test_only_the_first_groups_are_submitted_where_a_number_is_given():
    work = Work(scenarios=("CV-1", "TAB-1"), adapters=("numpy",))
    plan, _ = plan_to_submit(work, 1, print)
    assert {one.group for one in plan.cells} == {skymark.plan(work).cells[0].group}


def test_every_option_of_rented_machines_is_known_as_given():
    assert given_options(ManagedOptions()) == []
    assert given_options(ManagedOptions(jobs=4, spot=True)) == ["--spot", "--jobs"]


def test_one_of_the_two_ways_must_be_named(refused):
    assert re.search("--cluster NAME.*--managed", refused())


@pytest.mark.parametrize("store", [(), ("--store", "wandb"), ("--store", "file:///tmp/runs")])
def test_a_store_that_outlives_the_machines_is_needed(refused, store):
    said = refused("--managed", *store)
    assert re.search("--managed .*--store s3://BUCKET/PREFIX", said)


def test_no_machine_is_rented_for_what_cannot_be_measured():
    told = []
    plan = plan_of(cell_of("a"), refused=[cell_of("b", "S-2"), cell_of("b")])
    left = measurable(plan, told.append)
    kept = [one.cell.id for one in left.cells]
    assert kept == [one.cell.id for one in plan.cells if one.cell.scenario == "S-1"]
    assert len(told) == 1
    assert told[0].endswith(": S-2:small")
    assert measurable(left, told.append) is left
    with pytest.raises(NothingToMeasureError):
        measurable(plan_of(refused=[cell_of("b")]), told.append)
