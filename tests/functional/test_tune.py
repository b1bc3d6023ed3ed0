"""`skymark tune` on a folder of tiny photographs: choice, records, and the command for again."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest

from skymark.cli.main import app
from skymark.model.record import Status
from skymark.rundir.reader import open_run

pytestmark = pytest.mark.libraries


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of tiny photographs, one folder per class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (20, 24, 3), np.uint8)).save(path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("photos")
def test_a_tune_names_a_library_with_settings_the_ceilings_and_a_command(tmp_path, skymark):
    done = skymark(
        *("tune", "./photos", "--step-ms", "2", "--batch", "8", "--effort", "check"),
        *("--scenarios", "CV-1:small", "--adapters", "numpy", "--grid", "workers=0,1"),
        *("--output", "tune", "--target", "0.01", "--env", "current", "--json"),
    )
    assert done.status == 0, done.stderr
    assert "making the venv" not in done.stderr
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "tune" / "tune.json").read_text())
    assert told["reached"]
    assert {one["name"] for one in told["ceilings"]} == {"decode", "work", "disk", "memory"}
    assert all(one["rate"] > 0 for one in told["ceilings"])
    run = open_run(tmp_path / "tune" / "rung-1")
    assert {one.status for one in run.records} == {Status.OK}
    assert all(one.verification.passed for one in run.records)
    costs = {one["id"]: one["metrics"][told["metrics"]["cost"]] for one in told["candidates"]}
    assert told["chosen"]["id"] == min(costs, key=costs.__getitem__)
    assert told["needed_rate"] > 0
    words = shlex.split(told["command"])
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False)
    assert bound.arguments["how"].env == "current"
    (cell,) = [one.cell for one in bound.arguments["options"].plan().cells]
    assert cell.settings == told["settings"]


@pytest.mark.usefixtures("photos")
def test_a_named_step_is_measured_first_and_its_time_is_tuned_for(tmp_path, skymark):
    done = skymark(
        *("tune", "./photos", "--step", "mlp:2", "--batch", "8", "--effort", "check"),
        *("--scenarios", "CV-1:small", "--adapters", "pytorch", "--grid", "workers=1"),
        *("--output", "tune", "--target", "0.01"),
    )
    assert done.status == 0, done.stderr
    assert re.search("tune/step: .*mlp:2", done.stderr)
    (step,) = open_run(tmp_path / "tune" / "step").records
    (record,) = open_run(tmp_path / "tune" / "rung-1").records
    measured_ms = step.metrics["step_ns"].value / 1e6
    assert record.cell.settings["think_time_ms"] == pytest.approx(measured_ms, rel=0.01)
    assert "step" not in record.cell.settings
    assert "\n  torch.utils.data.DataLoader(..., num_workers=1" in done.stdout


@pytest.mark.usefixtures("photos")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "--step-ms 120"),
        (("--step", "resnet50", "--step-ms", "2"), "--step names"),
        (("--data", "elsewhere", "--step-ms", "2"), "./photos and --data"),
    ],
)
def test_a_tune_without_a_step_or_with_two_says_what_to_give(words, advice, skymark):
    done = skymark("tune", "./photos", *words)
    assert (done.status, advice in done.stderr) == (2, True), done.stderr
