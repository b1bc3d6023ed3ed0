"""`skymark rehearse`: refusals, warnings and the account at the end."""

from __future__ import annotations

import re
import shutil
import sys
from types import SimpleNamespace

import pytest

from sky_rehearsal.changes import Change
from sky_rehearsal.lambda_cloud import BillLine
from skymark.cli.main import main
from skymark.cli.rehearse import REFUSED
from skymark.cli.rented_options import CostOptions
from skymark.cloud import rehearsal
from skymark.cloud.rehearsal import Rehearsal, lack_of_room, same_command
from skymark.machine.facts import capture
from skymark.machine.fitness import fitness_warnings
from skymark.model.errors import UsageError
from skymark.model.machine import SIMULATED


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--managed", REFUSED["managed"]),
        ("--keep", REFUSED["keep"]),
        ("--image=x/y", REFUSED["image"]),
        ("--spot", REFUSED["spot"]),
        ("--scenarios=XX-1", "unknown scenario"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_before_this_machine_is_looked_at(
    capsys, option, reason
):
    assert main(["rehearse", "cpu", option]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "Linux" not in told


@pytest.mark.parametrize("options", [("--yes",), ("-y",), ("--yes", "--scenarios", "TAB-1")])
def test_a_yes_to_the_price_changes_nothing(options, capsys, monkeypatch):
    asked = []

    def unfit():
        asked.append(options)
        raise UsageError("not here")

    monkeypatch.setattr(rehearsal, "require_fitness", unfit)
    assert main(["rehearse", "cpu", *options]) == 2
    assert asked == [options]
    assert "not here" in capsys.readouterr().err


def test_another_provider_than_the_simulated_one_is_refused(capsys):
    assert main(["rehearse", "cpu", "--infra", "gcp"]) == 2
    assert "leave out --infra" in capsys.readouterr().err


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
        assert "100 MB" in words
        assert "--adapters" in words


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (
            ["/home/me/skymark/.venv/bin/skymark", "rehearse", "ci_cpu", "--machine", "a b.yaml"],
            "/home/me/skymark/.venv/bin/skymark rehearse ci_cpu --machine 'a b.yaml'",
        ),
        (
            ["/home/me/skymark/src/skymark/__main__.py", "rehearse", "ci_cpu"],
            f"{sys.executable} -m skymark rehearse ci_cpu",
        ),
    ],
)
def test_the_command_that_needs_root_is_said_whole(monkeypatch, argv, command):
    monkeypatch.setattr(sys, "argv", argv)
    assert same_command() == command


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
    price, *billed, undone, bridge, file = Rehearsal(0, [line, line], changes).lines()
    assert price.endswith(" $0.0400")
    for row in billed:
        assert re.fullmatch(r"  gpu_1x_a6000 .*us-east-1: 90 s .*\$0\.80/h, \$0\.0200", row)
    assert len(billed) == 2
    assert re.findall(r": (\d+)", undone) == ["2", "1"]
    assert (bridge, file) == ("  a bridge: undone", "  a file: busy")


def test_a_run_on_a_simulated_machine_is_warned_of(tmp_path):
    real = capture(tmp_path)
    limits = real.limits.model_copy(update={"container": SIMULATED})
    simulated = real.model_copy(update={"limits": limits})
    kinds = [warning.kind for warning in fitness_warnings(simulated)]
    assert kinds[0] == "rehearsal"
    assert "rehearsal" not in [warning.kind for warning in fitness_warnings(real)]
