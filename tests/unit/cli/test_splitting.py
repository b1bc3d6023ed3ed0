"""`--split` on the command line: the table, the part of this worker, and what is refused."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields

import pytest

from skymark.cli.main import main
from skymark.cli.options import OPTIONS_OF_COMMANDS
from skymark.cli.plan import plan
from skymark.cli.render_options import shared_work
from skymark.cli.run import RunOptions, run
from skymark.cli.splitting import part_asked_for, print_parts
from skymark.cloud.rented_run import split_of_machines
from skymark.execute.partition.split import read_split
from skymark.execute.rank import ALONE, rank_here
from skymark.model.errors import UsageError
from tests.scripted_suite import cell_of, plan_of, planned_cell

PLAN = plan_of(*(planned_cell(cell_of("numpy"), shard_key=f"work {key}") for key in range(4)))
RANK_VARIABLES = (
    *("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_JOBS", "SLURM_ARRAY_TASK_ID", "SLURM_STEP_NUM_TASKS"),
    *("JOB_COMPLETION_INDEX", "JOB_INDEX", "JOB_GLOBAL_INDEX", "TPU_WORKER_ID", "WORLD_SIZE"),
)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """No rank, wherever the tests themselves run."""
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert rank_here({}).count == 1


def test_a_split_is_shown_with_what_each_worker_asks_for(capsys):
    """Of a profile with three sets of cells that stay together."""
    words = ["plan", "--split", "even:3", "--total-cpus", "200", "--total-memory", "400"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["worker", "items", "cells", "round", "CPUs", "GB", "takes"]
    assert [line.split()[0] for line in lines[1:]] == ["worker-0", "worker-1", "worker-2"]
    assert all(" 66 " in line and " 133.33 " in line for line in lines[1:])


def test_a_split_is_shown_for_programs(capsys):
    assert main(["plan", "--split", "two-level:2x2", "--json", "--explain"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"] == "two-level:2x2"
    assert [one["rank"] for one in found["workers"]] == [0, 1, 2, 3]
    items = [item for one in found["workers"] for item in one["items"]]
    assert items == [1, 2, 3]
    assert "1 of 4" in " ".join(found["reasons"])


def test_the_reasons_are_told_beside_the_table(capsys):
    assert main(["plan", "--split", "longest:2", "--explain"]) == 0
    assert "longest items first" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--explain"],
        ["plan", "--total-cpus", "8"],
        ["plan", "--split", "evn:2"],
        ["plan", "--split", "even"],
        ["plan", "--split", "even:3", "--total-cpus", "2"],
        ["plan", "--measured", "nowhere"],
        ["run", "--rank", "0/2"],
        ["run", "--shard", "0/2", "--split", "even"],
        ["run", "--split", "even:2"],
        ["run", "--split", "even:2", "--rank", "2/2"],
        ["run", "--split", "even:2", "--share", "--output", "x"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_refused_before_anything_begins(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("skymark: ")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_says_which_part_it_takes_and_who_told_it(monkeypatch, capsys):
    monkeypatch.setenv("SKYPILOT_NODE_RANK", "1")
    monkeypatch.setenv("SKYPILOT_NUM_NODES", "2")
    part = part_asked_for(PLAN, None, "even", None)
    assert (part.split.text, part.number) == ("even:2", 1)
    said = capsys.readouterr().err
    told = "rank 1 of 2 .*SKYPILOT_NODE_RANK=1 .*SKYPILOT_NUM_NODES=2: 2 of 4 "
    assert re.search(told, said)


def test_without_a_rank_the_only_worker_says_so(capsys):
    part = part_asked_for(PLAN, None, "even", None)
    assert part.take(PLAN.cells) == PLAN.cells
    said = capsys.readouterr().err
    assert f"{ALONE.source}, " in said
    assert re.search(r"\b0\D+1\D+4\D+4\b", said)


def test_a_rank_that_is_given_counts_more_than_variables(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert part_asked_for(PLAN, None, "even", "3/4").number == 3


def test_variables_alone_split_nothing(monkeypatch):
    """Whoever says nothing of a split measures the whole plan, on any machine."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert part_asked_for(PLAN, None, None, None) is None


def test_a_shard_is_a_balanced_split():
    shard = part_asked_for(PLAN, "1/2", None, None)
    assert shard == part_asked_for(PLAN, None, "balanced", "1/2")


@pytest.mark.parametrize(
    ("split", "limit_s", "said", "idle"),
    [
        ("even:1", None, "^One .* 4 cells", []),
        ("even:9", None, "--split even:4 ", ["5 of 9"]),
        ("waves:2x2/1", None, "^4 .* 4 cells; .* all parts", []),
        ("two-level:2x9", None, "--split two-level:4x1 ", ["14 of 18"]),
        ("even:2", 1, r"1\.00 s .*--deadline", []),
    ],
)
def test_the_time_of_the_longest_part_and_idle_workers_are_said(split, limit_s, said, idle):
    sentences = " ".join(shared_work(PLAN, read_split(split), limit_s))
    assert re.search(said, sentences)
    assert re.findall(r"\d+ of \d+", sentences) == idle


def test_a_plan_without_cells_has_no_parts():
    with pytest.raises(UsageError, match="no cells"):
        shared_work(PLAN.model_copy(update={"cells": ()}), read_split("even:2"))


def test_no_suite_can_take_an_option_of_a_command():
    assert {one.name for one in fields(RunOptions)} <= set(OPTIONS_OF_COMMANDS)
    for command in (run, plan):
        own = set(inspect.signature(command).parameters) - {"options", "how"}
        assert own - set(OPTIONS_OF_COMMANDS) == set()


def test_two_ways_to_say_one_thing_are_refused():
    with pytest.raises(UsageError, match="give either"):
        part_asked_for(PLAN, "0/2", None, "0/2")


@pytest.mark.parametrize(
    ("text", "machines", "split"),
    [
        (None, 1, "balanced:1"),
        (None, 3, "balanced:3"),
        ("longest", 3, "longest:3"),
        ("two-level:2x2", 4, "two-level:2x2"),
        ("weighted:big=1x60,small=2x20", 3, "weighted:big=1x60,small=2x20"),
    ],
)
def test_rented_machines_share_a_plan_as_workers_do(text, machines, split):
    assert split_of_machines(text, machines).text == split


@pytest.mark.parametrize(
    ("text", "machines", "said"),
    [
        ("evn", 2, "unknown split"),
        ("weighted", 2, "--split weighted .*such as weighted:"),
        ("even", 1, "--split even .*--num-nodes$"),
        ("even:3", 2, "--num-nodes 3, .*even:2$"),
        ("two-level:2x2", 2, "4 workers, .* 2 machines"),
    ],
)
def test_a_split_of_other_machines_is_refused_before_they_are_paid_for(text, machines, said):
    with pytest.raises(UsageError, match=said):
        split_of_machines(text, machines)


@pytest.mark.parametrize("command", ["cost", "launch"])
def test_the_commands_that_price_machines_check_their_split(command, capsys):
    assert main([command, "ci_cpu", "--num-nodes", "2", "--split", "even:3"]) == 2
    assert re.search("--split even:3 .*--num-nodes 3", capsys.readouterr().err)
    assert main(["launch", "ci_cpu", "--num-nodes", "2", "--split", "even", "--idle"]) == 2
    assert "--idle runs nothing" in capsys.readouterr().err


def test_what_each_machine_takes_is_shown_and_that_one_takes_nothing(capsys):
    print_parts(split_of_machines("even", 5), PLAN)
    shown, said = capsys.readouterr()
    taken = [line.partition("work")[2].split() for line in shown.splitlines()[1:]]
    assert taken == [[], ["0"], ["1"], ["2"], ["3"]]
    assert re.search(r"\b1\D+5\D.*--num-nodes 4 ", said)


def test_a_suite_s_own_plan_shows_splits_too(capsys):
    """The clip suite keeps a model on one machine: models are the items."""
    words = (
        "clip",
        "plan",
        "--models",
        "ViT-B-32:laion2b_s34b_b79k",
        "ViT-B-16:laion2b_s34b_b88k",
        "--json",
    )
    assert main([*words, "--datasets", "wds/cars", "wds/vtab/cifar10", "--split", "even:2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["cells"] for one in found["workers"]] == [2, 2]
    assert main([*words, "--datasets", "wds/cars", "--explain"]) == 2
