"""`skymark rehearse` and `skymark doctor --cloud`, as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.model.machine import SIMULATED
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import COMMAND_TIMEOUT_S
from tests.cloud.footprint import NOTHING, footprint, users_files

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).parents[2]
SMALL = Path(__file__).with_name("machines") / "small.yaml"
SKYMARK = (sys.executable, "-m", "skymark")
PLAN = ("--scenarios", "TAB-1:small", "--adapters", "numpy", "--rounds", "1")


def skymark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SKYMARK, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def gpu_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small machine whose set-up asks for a GPU, as the GPU profiles' do."""
    text = SMALL.read_text()
    asked = "  ~/skymark-venv/bin/skymark doctor --platform gpu\n"
    text = text.replace("--editable .\n", f"--editable .\n{asked}")
    path = tmp_path_factory.mktemp("machine") / "gpu.yaml"
    path.write_text(text)
    assert asked in path.read_text()
    return path


@pytest.fixture(scope="module")
def rehearsed(
    fit: None, tmp_path_factory: pytest.TempPathFactory, gpu_machine: Path
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A rehearsed run of a GPU profile, with the directory that its results are in."""
    results = tmp_path_factory.mktemp("results")
    options = ("--machine", str(gpu_machine), "--output", str(results))
    before = users_files()
    done = skymark("rehearse", "gpu_a100", *PLAN, *options)
    assert users_files() == before
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs_in(results)
    return done, run


def test_a_rehearsal_brings_verified_results_home_and_ends_the_machine(
    rehearsed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, run = rehearsed
    assert [json.loads(path.read_text())["status"] for path in run.glob("records/*.json")] == ["ok"]
    assert " is gone" in done.stderr


def test_a_rehearsal_says_what_it_would_have_cost_and_what_it_undid(
    rehearsed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, _ = rehearsed
    assert "costs nothing" in done.stderr.splitlines()[0]
    said = done.stdout.splitlines()
    (price,) = [line for line in said if line.startswith("it cost nothing; Lambda would")]
    assert 0 < float(price.rpartition("$")[2]) < 1
    assert any(line.startswith("  gpu_1x_a6000 in ") for line in said)
    (count,) = [line for line in said if line.startswith("changed on this machine: ")]
    changed, undone = (int(part.rpartition(" ")[2]) for part in count.split(","))
    assert changed == undone >= 5


def test_nothing_of_a_rehearsal_is_left_on_this_machine(
    rehearsed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, _ = rehearsed
    directory = re.search(r"  directory (/\S+/rehearsal-\w+): undone", done.stdout)
    bridge = re.search(r"  network bridge (\w+) with \S+: undone", done.stdout)
    assert directory is not None
    assert bridge is not None
    assert footprint(Path(directory[1]), bridge[1]) == NOTHING


def test_a_rehearsed_run_cannot_be_taken_for_a_real_one(
    rehearsed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, run = rehearsed
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["machine"]["limits"]["container"] == SIMULATED
    assert "machine was simulated" in (run / "report.html").read_text()
    assert re.search(r"\bsimulated\b.*\bno GPU\b", done.stderr)
    assert re.search(r"\bno GPU\b.*\brehearsal\b", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("tpu_v5e",), "Lambda, has none"),
        (("cpu", "--keep"), "the machine ends with the rehearsal"),
        (("cpu", "--scenarios", "XX-1"), "unknown scenario"),
        (("cpu", "--nonsense"), ""),
    ],
    ids=" ".join,
)
def test_what_cannot_be_rehearsed_is_refused_before_anything_is_changed(
    arguments: tuple[str, ...], reason: str
) -> None:
    done = skymark("rehearse", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "making a cloud" not in done.stderr


def test_prices_that_are_not_there_end_a_rehearsal_before_anything_is_rented(
    fit: None, tmp_path: Path
) -> None:
    options = ("--machine", str(SMALL), "--catalogs", str(tmp_path))
    done = skymark("rehearse", "cpu", *PLAN, *options)
    assert done.returncode == 2
    assert f"{tmp_path}/lambda/vms.csv" in done.stderr
