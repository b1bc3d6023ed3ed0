"""The rendered SkyPilot YAML is the task that `launch` would hand over, and SkyPilot reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from sky_rehearsal.world import CATALOGS
from skymark.cli.main import main
from skymark.cloud.machine_script import LIMIT_VARIABLE, plan_file
from skymark.cloud.sky.tasks import make_task, read_task
from skymark.execute.planner import read_plan
from tests.rented_runs import run_of

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.filterwarnings("ignore"),  # SkyPilot's own, as it is imported
]

WORDS = ("--scenarios", "TAB-1", "--adapters", "numpy", "--infra", "lambda", "--num-nodes", "2")


@pytest.fixture(scope="module", autouse=True)
def catalogues(other_home: Path) -> None:
    """SkyPilot's lists of machines, which it would else fetch into the other home."""
    shutil.copytree(CATALOGS, other_home / ".sky" / "catalogs" / "v8")


def test_skypilot_reads_the_task_that_launch_would_hand_over(tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    store = ("--store", "s3://bucket/prefix")
    words = (*WORDS, *store, "--deadline", "30m", "--run-id", "r1", "--output", str(file))
    assert main(["render", "sky", "ci_cpu", *words]) == 0
    run = run_of(
        name="skymark-ci-cpu",
        profile="ci_cpu",
        run_id="r1",
        stores=("s3://bucket/prefix",),
        infra="lambda",
        nodes=2,
    )
    asked, rendered = make_task(run), read_task(file)
    assert rendered.run == asked.run
    assert rendered.num_nodes == 2
    assert rendered.envs == asked.envs | {LIMIT_VARIABLE: str(30 * 60)}
    assert str(rendered.resources) == str(asked.resources)
    plan = tmp_path / "task.plan.json"
    assert rendered.file_mounts == {f"~/{plan_file('r1')}": str(plan)}
    assert {one.cell.scenario for one in read_plan(plan).cells} == {"TAB-1"}


def test_no_key_of_the_caller_s_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "k" * 40)
    file = tmp_path / "task.yaml"
    words = (*WORDS, "--store", "s3://bucket/prefix", "--output", str(file))
    assert main(["render", "sky", "ci_cpu", *words]) == 0
    assert "k" * 40 not in file.read_text()
    assert "secrets" not in yaml.safe_load(file.read_text())
