"""Real training programs, unmodified, under watch: the same losses and status, and a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skymark.watching.program import watch_program
from tests.clip.watched_programs import PROGRAMS, STATUS


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "ranks"])
def test_a_training_program_has_the_same_losses_and_status_and_a_verdict(name, capfd):
    command = [sys.executable, "-W", "ignore", "-m", "tests.clip.watched_programs", name]
    plain = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    outcome = []
    watched = watch_program(command, tell=outcome.append)
    losses = capfd.readouterr().out
    assert watched.status == plain.returncode == STATUS, plain.stderr
    assert losses == plain.stdout
    facts = outcome[0].verdict.facts
    assert facts.library == "torch"
    assert (facts.batches, facts.epochs, facts.workers) == (16, 2, 2)
    assert "decode" in facts.stages


def test_ranks_of_torchrun_have_one_verdict_that_names_the_slowest(capfd):
    torchrun = (sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone")
    places = ("--local-addr", "127.0.0.1", "--nproc-per-node", "2")
    command = [*torchrun, *places, "-m", "tests.clip.watched_programs", "ranks"]
    plain = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    outcome = []
    watched = watch_program(command, tell=outcome.append)
    losses = capfd.readouterr().out
    assert watched.status == plain.returncode == 0, plain.stderr
    assert sorted(losses.splitlines()) == sorted(plain.stdout.splitlines()) != []
    verdict = outcome[0].verdict
    assert [facts.batches for facts in verdict.ranks] == [16, 16]
    assert verdict.facts.rank == 1
