"""Rendered manifests fit their schema, and their pods measure every cell exactly once."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from jsonschema import ValidationError, validate

from benchmarks.runners import full_runner
from skymark.cli.main import app, main
from skymark.cli.run import wanted_plan
from skymark.cli.splitting import part_asked_for
from skymark.execute.partition.shard import span_of
from skymark.model.plan import Plan
from tests.unit.cloud.render.jobset_schema import AICHOR, JOBSET, refusals
from tests.unit.cloud.render.pods import Pod, pods_of_aichor, pods_of_jobset

STORE = ("--store", "s3://bucket/prefix")
MANY = ("--scenarios", "all", "--adapters", "numpy", "grain")
TOTAL = ("--total-cpus", "200", "--total-memory", "400")
WIDE = ("--total-cpus", "90000", "--total-memory", "1")
SPLITS = {
    1: "even:10",
    2: "weighted:worker-heavy=1x60,worker=7x20",
    3: "two-level:5x10",
    4: "waves:5x10/4",
}
ROOT = Path(__file__).parents[4]


@pytest.fixture
def rendered(capsys):
    """Render a manifest and read it."""

    def render(*words):
        assert main(["render", *words]) == 0
        return yaml.safe_load(capsys.readouterr().out)

    return render


@cache
def asked_by(*options: str) -> tuple[Plan, str]:
    """Return the plan and the split that options of `run` ask for; a manifest's pods share them."""
    _, bound, _ = app.parse_args(["run", *options], exit_on_error=False, print_error=False)
    return wanted_plan(bound.arguments["options"], None), bound.arguments["how"].split


def taken(pod: Pod, monkeypatch) -> list[str]:
    """Return the cells that a pod measures, by its own arguments and variables."""
    for name in ("RANK", "WORLD_SIZE", "SLURM_ARRAY_TASK_ID", "SKYPILOT_NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in pod.variables.items():
        monkeypatch.setenv(name, value)
    plan, split = asked_by(*full_runner.read(pod.words).passed_on)
    part = part_asked_for(plan, None, split, None)
    assert part is not None
    return [planned.cell.id for planned in part.take(plan.cells)]


@pytest.mark.parametrize("scenario", SPLITS)
def test_the_pods_of_aichor_measure_every_cell_exactly_once(scenario, rendered, monkeypatch):
    manifest = rendered("aichor", "ci_cpu", "--scenario", str(scenario), *MANY, *TOTAL, *STORE)
    validate(manifest, AICHOR)
    pods = [pod for wave in pods_of_aichor(manifest) for pod in wave]
    cells = [cell for pod in pods for cell in taken(pod, monkeypatch)]
    assert len(cells) == len(set(cells)) == planned_cells(monkeypatch)
    assert len(pods) == {1: 10, 2: 8, 3: 50, 4: 50}[scenario]


@pytest.mark.parametrize("split", [*SPLITS.values(), "longest:6", "even:1"])
def test_the_pods_of_a_jobset_measure_every_cell_exactly_once(split, rendered, monkeypatch):
    manifest = rendered(
        "jobset", "ci_cpu", "--image", "skymark:cpu", "--split", split, *MANY, *TOTAL, *STORE
    )
    validate(manifest, JOBSET)
    assert refusals(manifest) == []
    pods = [pod for wave in pods_of_jobset(manifest) for pod in wave]
    cells = [cell for pod in pods for cell in taken(pod, monkeypatch)]
    assert len(cells) == len(set(cells)) == planned_cells(monkeypatch)


def planned_cells(monkeypatch) -> int:
    _, bound, _ = app.parse_args(["run", *MANY], exit_on_error=False, print_error=False)
    return len(wanted_plan(bound.arguments["options"], None).cells)


@pytest.mark.parametrize("kind", ["jobset", "aichor"])
def test_pods_run_with_the_cache_policy_that_was_asked_for(kind, rendered):
    words = ("--cache-policy", "shared", "--cache-root", "/mnt/caches", "--split", "even:2")
    more = ("--image", "skymark:cpu") if kind == "jobset" else ()
    manifest = rendered(kind, "ci_cpu", *words, *more, *TOTAL, *STORE)
    validate(manifest, {"jobset": JOBSET, "aichor": AICHOR}[kind])
    (wave,) = {"jobset": pods_of_jobset, "aichor": pods_of_aichor}[kind](manifest)
    for pod in wave:
        passed_on = full_runner.read(pod.words).passed_on
        _, bound, _ = app.parse_args(["run", *passed_on], exit_on_error=False, print_error=False)
        how = bound.arguments["how"]
        assert (how.cache_policy, how.cache_root) == ("shared", Path("/mnt/caches"))


def test_words_with_a_dollar_stay_as_they_are(rendered):
    """Kubernetes fills in $(NAME), and takes $$ for one $."""
    words = ("--cache-policy", "shared", "--cache-root", "/mnt/$(JOB_INDEX)", *TOTAL, *STORE)
    manifest = rendered("jobset", "ci_cpu", "--image", "x", *words)
    (container,) = pod_of(manifest["spec"])["containers"]
    assert "/mnt/$$(JOB_INDEX)" in container["args"]


def places(manifest, pods_of) -> dict[str, str]:
    """Return which of a thousand items each pod takes."""
    from skymark.execute.partition.shard import shard_of
    from skymark.execute.rank import rank_here

    found = {}
    for wave in pods_of(manifest):
        for pod in wave:
            text = pod.words[pod.words.index("--split") + 1]
            shard = shard_of(text, rank_here(pod.variables))
            part = shard.split.parts([1.0] * 1000)[shard.number]
            found[pod.name] = span_of(part.items)
    return found


def test_a_heavy_worker_takes_the_first_three_hundred_of_a_thousand(rendered):
    manifest = rendered("aichor", "ci_cpu", "--scenario", "2", *STORE)
    found = places(manifest, pods_of_aichor)
    assert found["worker-heavy-0-0"] == "1–300"
    assert [found[f"worker-{index}-0"] for index in (0, 6)] == ["301–400", "901–1000"]


def test_completions_take_parts_of_their_worker_s_slice(rendered):
    for scenario in ("3", "4"):
        manifest = rendered("aichor", "ci_cpu", "--scenario", scenario, *TOTAL, *STORE)
        found = places(manifest, pods_of_aichor)
        assert found["worker-0-0"] == "1–20"
        assert found["worker-4-9"] == "981–1000"


def test_waves_run_so_many_completions_at_once(rendered):
    at_once = []
    for scenario in ("3", "4"):
        manifest = rendered("aichor", "ci_cpu", "--scenario", scenario, *TOTAL, *STORE)
        at_once.append([len(wave) for wave in pods_of_aichor(manifest)])
    assert at_once == [[50], [20, 20, 10]]


def test_each_type_asks_for_its_share_of_a_total(rendered):
    types = rendered("aichor", "ci_cpu", "--scenario", "2", *TOTAL, *STORE)["spec"]["types"]
    assert types["worker-heavy"]["resources"] == {"cpus": 60, "memory": 120, "shmSizeGB": 8}
    assert types["worker"]["resources"] == {"cpus": 20, "memory": 40, "shmSizeGB": 8}
    assert list(types) == ["worker-heavy", "worker"]


def test_a_manifest_names_a_dockerfile_that_there_is(rendered):
    builder = rendered("aichor", "ci_cpu", "--scenario", "2", *STORE)["builder"]
    assert (ROOT / builder["context"] / builder["dockerfile"]).is_file()


def test_pods_ask_for_their_share_and_get_the_store_s_keys(rendered):
    words = ("--split", "waves:2x4/2", *TOTAL, *STORE, "--env-secret", "keys")
    manifest = rendered("jobset", "ci_cpu", "--image", "skymark:cpu", *words, "--run-id", "r1")
    (job,) = manifest["spec"]["replicatedJobs"]
    assert (job["replicas"], job["template"]["spec"]["parallelism"]) == (2, 2)
    pod = job["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["requests"] == {"cpu": "50", "memory": "100G"}
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert "/app/results/r1" in container["args"]
    assert pod["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8G"}


def test_pods_whose_cells_need_a_machine_get_a_node_each_unless_told_otherwise(rendered):
    words = ("jobset", "ci_cpu", "--image", "skymark:cpu", "--total-cpus", "8", *STORE)
    for more, spread in (((), True), (("--share-nodes",), False)):
        (job,) = rendered(*words, *more)["spec"]["replicatedJobs"]
        assert ("affinity" in job["template"]["spec"]["template"]["spec"]) is spread


def test_a_jobset_for_gpus_asks_for_them(rendered):
    words = ("--total-cpus", "8", "--gpus", "1", *STORE)
    manifest = rendered("jobset", "gpu_h100", "--image", "skymark:gpu", *words)
    validate(manifest, JOBSET)
    assert "nvidia.com/gpu" in str(manifest)


def test_large_and_small_amounts_are_quantities_without_an_exponent(rendered):
    words = (
        "jobset",
        "ci_cpu",
        "--image",
        "x",
        *STORE,
        "--shared-memory",
        "0.0001",
        "--total-cpus",
    )
    manifest = rendered(*words, "1000000", "--total-memory", "1000000")
    validate(manifest, JOBSET)
    pod = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    asked = pod["containers"][0]["resources"]["requests"]
    assert asked == {"cpu": "1000000", "memory": "1000000G"}
    assert pod["volumes"][0]["emptyDir"]["sizeLimit"] == "0.0001G"


def test_a_name_is_as_long_as_the_webhook_takes_and_no_longer(rendered, capsys):
    """Pods are NAME-worker-9-0-abcde, of 63 characters at most."""
    words = ("jobset", "ci_cpu", "--image", "x", "--split", "even:10", *TOTAL, *STORE, "--name")
    longest = "a" * (63 - len("-worker-9-0-abcde"))
    manifest = rendered(*words, longest)
    assert refusals(manifest) == []
    manifest["metadata"]["name"] += "a"
    assert refusals(manifest) == [f"{longest}a-worker-9-0-abcde"]
    assert main(["render", *words, f"{longest}a"]) == 2
    assert " by 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(ttl=5), "'ttl' was unexpected"),
        (lambda spec: spec.update(network={"subdomain": "A_b"}), "A_b"),
        (lambda spec: spec["replicatedJobs"][0].update(replica=2), "'replica' was unexpected"),
        (lambda spec: job_of(spec).pop("completions"), "'completions' is a required"),
        (lambda spec: job_of(spec).update(completionMode="NonIndexed"), "Indexed"),
        (lambda spec: job_of(spec).update(parallelism=100_001), "100001"),
        (lambda spec: pod_of(spec).update(restartPolicy="OnFailure"), "OnFailure"),
        (lambda spec: pod_of(spec)["containers"][0].update(cmd=[]), "'cmd' was unexpected"),
        (lambda spec: job_of(spec)["podFailurePolicy"]["rules"][1].pop("onExitCodes"), "valid"),
        (lambda spec: codes_of(spec).update(values=[0, 2]), "0 is less than"),
        (
            lambda spec: pod_of(spec)["containers"][0]["resources"]["limits"].update(memory="1e3G"),
            "1e3G",
        ),
    ],
)
def test_the_schema_refuses_what_a_server_refuses(change, said, rendered):
    manifest = rendered("jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE)
    validate(manifest, JOBSET)
    change(manifest["spec"])
    with pytest.raises(ValidationError, match=said):
        validate(manifest, JOBSET)


def job_of(spec):
    return spec["replicatedJobs"][0]["template"]["spec"]


def pod_of(spec):
    return job_of(spec)["template"]["spec"]


def codes_of(spec):
    return job_of(spec)["podFailurePolicy"]["rules"][1]["onExitCodes"]


@pytest.mark.parametrize("scenario", SPLITS)
def test_all_that_runs_at_once_on_aichor_stays_within_the_total(scenario, rendered):
    """Completions run all at once in scenario 3, and only some of them in 4."""
    words = ("--scenario", str(scenario), "--total-cpus", "301", "--total-memory", "200", *STORE)
    manifest = rendered("aichor", "ci_cpu", *words)
    validate(manifest, AICHOR)
    types = manifest["spec"]["types"].values()
    cpus, memory_gb = 0.0, 0.0
    for one in types:
        at_once = one["count"] * one["parallelisms"]
        cpus += at_once * one["resources"]["cpus"]
        memory_gb += at_once * one["resources"]["memory"]
        compared = one["completions"] - one["parallelisms"]
        assert compared > 0 if scenario == 4 else compared == 0
        assert one["resources"]["shmSizeGB"] > 0
    assert cpus <= 301
    assert 0 < memory_gb <= 200


def test_the_schema_refuses_what_is_spelled_as_elsewhere(rendered):
    manifest = rendered("jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE)
    job = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["parallelisms"] = job.pop("parallelism")
    with pytest.raises(ValidationError, match="parallelisms"):
        validate(manifest, JOBSET)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aichor", "ci_cpu", *STORE], "give --scenario"),
        (["aichor", "ci_cpu", "--scenario", "3", "--split", "even:3", *STORE], "does not fit"),
        (["aichor", "ci_cpu", "--scenario", "1", *STORE], "give --total-cpus"),
        (["aichor", "ci_cpu", "--scenario", "2"], "add --store s3://"),
        (["aichor", "ci_cpu", "--scenario", "2", "--store", "wandb"], "add --store s3://"),
        (["aichor", "gpu_h100", "--scenario", "2", *STORE], "NVIDIA-H100-80GB-HBM3:1"),
        (["aichor", "gpu_h100", "--scenario", "2", *STORE, "--gpus", "1"], "no product"),
        (["aichor", "tpu_v5e", "--scenario", "2", *STORE], "render sky"),
        (["aichor", "ci_cpu", "--scenario", "2", *STORE, "--shared-memory", "0"], "--workers 0"),
        (["aichor", "ci_cpu", "--scenario", "2", *STORE, "--shared-memory", "40"], "all 40 GB"),
        (["aichor", "--scenario", "2"], "give a PROFILE"),
        (["aichor", "ci_cpu", "--scenario", "2", "--command", "x"], "give a PROFILE"),
        (
            ["aichor", "--scenario", "2", "--command", "x", *STORE],
            "--store .*--command",
        ),
        (
            ["aichor", "--scenario", "2", "--command", "x", "--rounds", "3"],
            "--rounds .*--command",
        ),
        (["aichor", "--scenario", "1", "--command", "x"], "give --total-cpus"),
        (["jobset", "ci_cpu", "--image", "x", *STORE], "give --total-cpus"),
        (["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8"], "add --store s3://"),
        (["jobset", "gpu_h100", "--image", "x", "--total-cpus", "8", *STORE], "give --gpus 1"),
        (["jobset", "tpu_v5e", "--image", "x", "--total-cpus", "8", *STORE], "render sky"),
        (
            ["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE, "--name", "A_b"],
            "--name 'A_b'",
        ),
        (
            [
                "jobset",
                "ci_cpu",
                "--image",
                "x",
                "--total-cpus",
                "8",
                *STORE,
                "--cache-policy",
                "shared",
                "--cache-root",
                "$HOME/caches",
            ],
            r"--cache-root \$HOME/caches",
        ),
        (["jobset", "ci_cpu", "--image", "a b", "--total-cpus", "8", *STORE], "is no image"),
        (
            ["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE, "--env-secret", "A_"],
            "--env-secret 'A_'",
        ),
        (
            ["aichor", "ci_cpu", "--scenario", "2", *STORE, *WIDE],
            "give a larger --total-memory",
        ),
        (
            ["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE, "--name", "a" * 60],
            "exceed 63",
        ),
        (
            ["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE, "--run-id", "../x"],
            r"--run-id '\.\./x'",
        ),
        (
            ["jobset", "ci_cpu", "--image", "x", "--total-cpus", "8", *STORE, "--data", "."],
            "",
        ),
    ],
)
def test_what_would_fail_in_a_cluster_is_refused_here(words, said, capsys):
    assert main(["render", *words]) == 2
    shown = capsys.readouterr()
    assert re.search(said, shown.err)
    assert shown.out == ""


def test_a_profile_of_one_s_own_is_in_no_image(tmp_path, capsys):
    profile = tmp_path / "mine.toml"
    profile.write_text((ROOT / "benchmarks" / "profiles" / "ci_cpu.toml").read_text())
    assert main(["render", "aichor", str(profile), "--scenario", "2", *STORE]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{profile} is" in said
    assert "`skymark list profiles`" in said


def test_all_parts_of_a_manifest_are_parts_of_one_split(rendered, monkeypatch):
    """The store has one run: every pod names the same directory and split."""
    manifest = rendered("jobset", "ci_cpu", "--image", "x", "--split", "even:4", *TOTAL, *STORE)
    words = {tuple(pod.words) for wave in pods_of_jobset(manifest) for pod in wave}
    assert len(words) == 1


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300", "9" * 30])
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("slurm", "ci_cpu"), "--total-cpus"),
        (("slurm", "ci_cpu"), "--total-memory"),
        (("jobset", "ci_cpu", "--image", "x"), "--gpus"),
        (("jobset", "ci_cpu", "--image", "x"), "--shared-memory"),
        (("aichor", "ci_cpu", "--scenario", "2"), "--shared-memory"),
        (("sky", "ci_cpu", "--output", "x.yaml"), "--num-nodes"),
    ],
)
def test_every_number_has_bounds(words, option, value, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["render", *words, option, value]) == 2
    shown = capsys.readouterr()
    assert option in shown.err
    assert (shown.out, list(tmp_path.iterdir())) == ("", [])
