"""`--against` of `run` and `plan`: what it asks for, and what it refuses before anything runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from skymark.cli.main import main
from skymark.execute.revision import find_revision
from skymark.model.errors import RunDirectoryError
from skymark.model.manifest import Pair
from skymark.rundir.directory import require_same_plan
from skymark.rundir.reader import open_run

ROOT = Path(__file__).parents[3]
SAVED = ROOT / "tests" / "data" / "run"
PLAN = ("--scenarios", "TAB-1", "--adapters", "numpy")

in_a_checkout = pytest.mark.skipif(
    subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="the sources are here without their history",
)


@in_a_checkout
def test_a_plan_counts_both_sides(capsys):
    assert main(["plan", *PLAN, "--against", "HEAD"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"\d pairs .* {find_revision('HEAD').short} ", shown)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gate",), "need --against REVISION"),
        (("--practical", "0.1"), "need --against REVISION"),
        (("--against", "HEAD", "--shard", "0/2"), "leave out --shard"),
        (("--against", "HEAD", "--time", "20m"), "leave out --time"),
        pytest.param(("--against", "nosuch"), "git fetch origin nosuch", marks=in_a_checkout),
        pytest.param(
            ("--against", "grain@0.2.3"), "--adapters grain grain@0.2.3", marks=in_a_checkout
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(options, words, capsys, tmp_path):
    assert main(["run", *PLAN, *options, "--output", str(tmp_path / "run")]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_figures_that_do_not_vary_are_refused(capsys):
    assert main(["plan", "--profile", "clip", "--against", "HEAD"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"--against .*\bclip\b.* skymark compare A B$", said)


def test_a_side_goes_on_in_its_comparison_only():
    alone = open_run(SAVED).manifest
    duet = Pair(side="candidate", partner="run-baseline", commit="c" * 40)
    side = alone.model_copy(update={"duet": duet})
    other = duet.model_copy(update={"commit": "d" * 40})
    require_same_plan(side, side, "run", resume=True)
    for theirs, ours, words in (
        (side, alone, "candidate .*c{12} .*run-baseline"),
        (alone, side, "holds a run by itself"),
        (side, alone.model_copy(update={"duet": other}), "candidate .*d{12} .*run-baseline"),
    ):
        with pytest.raises(RunDirectoryError, match=words):
            require_same_plan(theirs, ours, "run", resume=True)
