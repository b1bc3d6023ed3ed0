"""A plan that was made before is what runs, and what its venvs are built for."""

from __future__ import annotations

from pathlib import Path

from skymark.execute.planner import read_plan


def test_a_plans_file_is_what_runs_and_what_is_gone_on_with(tmp_path, skymark):
    path = tmp_path / "plan.json"
    chosen = ("--scenarios", "TAB-1", "NLP-1", "--adapters", "numpy", "--effort", "check")
    planned = skymark("plan", *chosen, "--workers", "0", "--output", str(path))
    assert planned.status == 0, planned.stderr
    plan = read_plan(path)

    ran = skymark("run", "--plan", str(path))
    assert ran.status == 0, ran.stderr
    assert set(ran.records) == {one.cell.id for one in plan.cells}
    assert (ran.manifest.plan, ran.manifest.plan_hash) == (plan, plan.hash)

    other = skymark("plan", *chosen, "--workers", "1", "--output", str(path))
    assert other.status == 0, other.stderr
    refused = skymark("run", "--plan", str(path), "--resume")
    assert refused.status == 2
    assert "another plan" in refused.stderr


def test_the_venvs_of_a_plan_and_of_a_profile_are_built(tmp_path, skymark):
    path = tmp_path / "plan.json"
    chosen = ("--scenarios", "TAB-1", "--adapters", "numpy", "ffcv")
    assert skymark("plan", *chosen, "--output", str(path)).status == 0
    built = skymark("env", "build", "--plan", str(path))
    assert built.status == 0, built.stderr
    name, _, directory = built.stdout.strip().partition(": ")
    assert (name, (Path(directory) / "bin" / "python").exists()) == ("numpy", True)

    profile = tmp_path / "mine.toml"
    profile.write_text(
        'description = "mine"\nsuite = "loading"\nplatform = "cpu"\nscenarios = ["TAB-1"]\n'
        'adapters = ["numpy"]\n'
    )
    assert skymark("env", "build", "--profile", str(profile)).stdout == built.stdout
