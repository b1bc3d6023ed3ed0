"""`skymark rehearse`: what it refuses, what it tells the machine, and what it says at the end."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from skymark.cli.main import main
from skymark.cli.rehearse import summary
from skymark.cli.rented_options import CostOptions
from skymark.cloud.rehearsal.changes import Change
from skymark.cloud.rehearsal.disk import lack_of_room
from skymark.cloud.rehearsal.lambda_cloud import BillLine
from skymark.cloud.rehearsal.rehearse import Rehearsal, for_rehearsal
from skymark.machine.facts import capture
from skymark.machine.fitness import fitness_warnings
from skymark.machine.rehearsal import REHEARSAL
from skymark.resources import resource_directory

LINE = '  SKYMARK_REHEARSAL: "1"'


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--managed", "runs no controllers of managed jobs"),
        ("--keep", "the machine ends with the rehearsal"),
        ("--image=x/y", "runs no containers"),
        ("--spot", "has no spot machines"),
        ("--scenarios=XX-1", "unknown scenario"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_before_this_machine_is_looked_at(
    capsys, option, reason
):
    assert main(["rehearse", "cpu", option]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "needs Linux and root" not in told


def test_a_profile_for_a_tpu_is_refused(capsys):
    assert main(["rehearse", "tpu_v5e"]) == 2
    assert "Lambda, has none" in capsys.readouterr().err


@pytest.mark.parametrize(("free", "warned"), [(2 * 10**9, False), (10**8, True)])
def test_a_disk_that_the_machines_would_fill_is_warned_of(monkeypatch, free, warned):
    plan = CostOptions(profile="ci_cpu", adapters=("numpy", "grain"), scenarios=("TAB-1",)).plan()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    words = lack_of_room(plan)
    assert (words is not None) is warned
    if warned:
        assert "100 MB are free" in words
        assert "--adapters" in words


@pytest.mark.parametrize(
    "path", sorted(resource_directory("sky").glob("*.yaml")), ids=lambda path: path.name
)
def test_every_kind_of_machine_is_told_that_it_is_rehearsed(path):
    before = path.read_text().splitlines()
    after = for_rehearsal(path.read_text()).splitlines()
    assert after.index(LINE) == before.index("envs:") + 1
    assert [line for line in after if line != LINE] == before


def test_a_machine_without_variables_gets_the_one_of_the_rehearsal():
    assert for_rehearsal("run: true\n") == f"run: true\n\nenvs:\n{LINE}\n"


def test_the_end_tells_the_price_and_what_was_not_undone():
    line = BillLine(
        id="i",
        name="n",
        type="gpu_1x_a6000",
        region="us-east-1",
        hourly_price_usd=0.8,
        began_s=0.0,
        ended_s=90.0,
        seconds=90.0,
        cost_usd=0.02,
        preempted=False,
    )
    changes = [Change("a bridge", undone=True), Change("a file", undone=False, problem="busy")]
    assert summary(Rehearsal(exit_code=0, bill=[line, line], changes=changes)) == [
        "it cost nothing; Lambda would have asked for $0.0400",
        *["  gpu_1x_a6000 in us-east-1: 90 s at $0.80/h, $0.0200"] * 2,
        "changed on this machine: 2, undone: 1",
        "  a bridge: undone",
        "  a file: busy",
    ]


def test_a_run_on_a_simulated_machine_is_warned_of(tmp_path):
    real = capture(tmp_path)
    limits = real.limits.model_copy(update={"container": REHEARSAL})
    simulated = real.model_copy(update={"limits": limits})
    kinds = [warning.kind for warning in fitness_warnings(simulated)]
    assert kinds[0] == "rehearsal"
    assert "rehearsal" not in [warning.kind for warning in fitness_warnings(real)]
