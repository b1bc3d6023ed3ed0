"""Job files for twelve sites: their own fields are there, and every cell is measured once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from jsonschema import validate

from benchmarks.runners import full_runner
from skymark.cli.main import main
from skymark.cloud.render.kubernetes import SCENARIOS
from skymark.execute.partition.shard import shard_of
from skymark.execute.rank import rank_here
from skymark.store.directory import open_directory
from tests.unit.cloud.render.jobset_schema import JOBSET, aichor_schema, refusals
from tests.unit.cloud.render.pods import pods_of_aichor, pods_of_jobset

STORE = ("--store", "s3://bucket/prefix")
JOBSET_WORDS = ("jobset", "--image", "registry/skymark:1", "--total-cpus", "8", *STORE)
AICHOR_WORDS = ("aichor", "--total-cpus", "80", *STORE)


@dataclass(frozen=True)
class Site:
    """A site: its words for `render`, its template, and the fields that it wants by path."""

    words: tuple[str, ...]
    template: str = ""
    wanted: tuple[tuple[str, object], ...] = ()


POD = "spec.replicatedJobs.0.template.spec.template.spec"
KUEUE = """
metadata:
  namespace: team-a
  labels: {kueue.x-k8s.io/queue-name: research}
  annotations: {team: "a"}
spec:
  replicatedJobs:
  - template: {spec: {template: {spec: {serviceAccountName: runner, priorityClassName: low}}}}
"""
TAINTED = """
spec:
  replicatedJobs:
  - template:
      spec:
        template:
          metadata: {annotations: {sidecar.istio.io/inject: "false"}}
          spec:
            nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
            tolerations:
            - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
"""
PRIVATE = """
spec:
  ttlSecondsAfterFinished: 3600
  replicatedJobs:
  - template:
      spec:
        template:
          spec:
            imagePullSecrets: [{name: registry}]
            containers:
            - imagePullPolicy: Always
              volumeMounts: [{name: caches, mountPath: /mnt/caches}]
            volumes:
            - {name: caches, persistentVolumeClaim: {claimName: caches}}
"""
ONE_TYPE = """
spec:
  replicatedJobs:
  - name: heavy
    template: {spec: {template: {spec: {nodeSelector: {size: large}}}}}
"""
SPOT = """
spec:
  tensorboard: {enabled: false}
  types:
    "*":
      resources:
        extraSelectors: {cloud.google.com/gke-spot: "true"}
        extraTolerations:
        - {key: cloud.google.com/gke-spot, operator: Equal, value: "true", effect: NoSchedule}
"""
H100 = {"count": 2, "product": "NVIDIA-H100-80GB-HBM3", "type": "gpu"}
LONG = "a-very-long-name-of-a-type-32-ab"

PODS = {
    "queue": Site(
        ("ci_cpu", *JOBSET_WORDS, "--split", "even:4"),
        KUEUE,
        (
            ("metadata.labels", {"app.kubernetes.io/name": "skymark"} | {
                "kueue.x-k8s.io/queue-name": "research"}),
            ("metadata.namespace", "team-a"),
            (f"{POD}.serviceAccountName", "runner"),
            (f"{POD}.priorityClassName", "low"),
        ),
    ),
    "GPUs": Site(
        ("gpu_h100", *JOBSET_WORDS, "--gpus", "8", "--deadline", "1-12:00:00"),
        TAINTED,
        (
            (f"{POD}.tolerations.0.key", "nvidia.com/gpu"),
            (f"{POD}.nodeSelector", {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}),
            ("spec.replicatedJobs.0.template.spec.activeDeadlineSeconds", 129600),
            (f"{POD}.containers.0.resources.limits", {
                "cpu": "8", "memory": "16G", "nvidia.com/gpu": "8"}),
        ),
    ),
    "private registry": Site(
        ("ci_cpu", *JOBSET_WORDS, "--split", "two-level:2x3", "--env-secret", "keys"),
        PRIVATE,
        (
            (f"{POD}.imagePullSecrets", [{"name": "registry"}]),
            (f"{POD}.containers.0.imagePullPolicy", "Always"),
            (f"{POD}.containers.0.envFrom", [{"secretRef": {"name": "keys"}}]),
            (f"{POD}.volumes.1.persistentVolumeClaim", {"claimName": "caches"}),
        ),
    ),
    "small pods": Site(
        ("ci_cpu", *JOBSET_WORDS, "--split", "even:4", "--total-memory", "16"),
        "",
        ((f"{POD}.volumes.0.emptyDir.sizeLimit", "2G"),),
    ),
    "two types": Site(
        ("ci_cpu", *JOBSET_WORDS, "--split", "weighted:heavy=1x6,light=2x1"),
        ONE_TYPE,
        ((f"{POD}.nodeSelector", {"size": "large"}),),
    ),
    "short names": Site(
        ("ci_cpu", *JOBSET_WORDS, "--split", f"weighted:{LONG}=1x4,light=2x2"),
        "",
        (("metadata.name", "skymark-ci-cpu"[: 63 - len(f"-{LONG}-0-0-abcde")].rstrip("-")),),
    ),
    "AIchor's GPUs": Site(
        ("gpu_h100", *AICHOR_WORDS, "--split", "even:2", "--gpus", "NVIDIA-H100-80GB-HBM3:2"),
        "",
        (
            ("spec.types.worker.resources.accelerators.gpu", H100),
            ("builder.dockerfile", "./benchmarks/docker/Dockerfile.gpu"),
        ),
    ),
    "AIchor's older manifests": Site(
        ("ci_cpu", *AICHOR_WORDS, "--scenario", "1", "--api-version", "0.2.1"),
        "",
        (("spec.types.worker.resources", {"cpus": 8, "ramRatio": 2, "shmSizeGB": 8}),),
    ),
    "AIchor's spot nodes": Site(
        ("ci_cpu", *AICHOR_WORDS, "--scenario", "2", "--deadline", "90m"),
        SPOT,
        (
            ("spec.types.worker.resources.extraSelectors", {"cloud.google.com/gke-spot": "true"}),
            ("spec.types.worker-heavy.resources.extraTolerations.0.effect", "NoSchedule"),
            ("spec.timeout", "90m"),
        ),
    ),
}  # fmt: skip


def field(manifest: object, path: str) -> object:
    """Return a field by its path; numbers are places in lists."""
    for key in path.split("."):
        manifest = manifest[int(key)] if isinstance(manifest, list) else manifest[key]
    return manifest


@pytest.fixture
def rendered(capsys, tmp_path) -> Callable[[Site], tuple[str, str]]:
    """Render a site's file; return it and the notes."""

    def render(site: Site) -> tuple[str, str]:
        profile, kind, *words = site.words
        if site.template:
            (tmp_path / "site.yaml").write_text(site.template)
            words += ["--template", str(tmp_path / "site.yaml")]
        assert main(["render", kind, profile, *words]) == 0
        shown = capsys.readouterr()
        return shown.out, " ".join(shown.err.split())

    return render


@pytest.mark.parametrize("name", PODS)
def test_a_cluster_gets_its_fields_and_every_item_is_measured_once(name, rendered):
    text, said = rendered(PODS[name])
    manifest = yaml.safe_load(text)
    if manifest["kind"] == "JobSet":
        validate(manifest, JOBSET)
        assert refusals(manifest) == []
        pods = [pod for wave in pods_of_jobset(manifest) for pod in wave]
    else:
        validate(manifest, aichor_schema(manifest["apiVersion"]))
        pods = [pod for wave in pods_of_aichor(manifest) for pod in wave]
    for path, value in PODS[name].wanted:
        assert field(manifest, path) == value
    items = []
    for pod in pods:
        words = full_runner.read(pod.words).passed_on
        shard = shard_of(words[words.index("--split") + 1], rank_here(pod.variables))
        items += shard.split.parts([1.0] * 30)[shard.number].items
    assert sorted(items) == list(range(1, 31))
    assert "longest part" in said
    assert said.count("take nothing") == text.count("take nothing")


@pytest.mark.parametrize(
    ("kind", "template", "said"),
    [
        ("jobset", "spec: {replicatedJobs: [{replicas: 3}]}", "worker.replicas to 3"),
        ("jobset", "metadata: {name: mine}", "metadata.name"),
        ("jobset", "spec: {replicatedJobs: [{name: other}]}", "type other"),
        ("jobset", "spec: {replicatedJobs: {a: 1}}", "same kind"),
        ("jobset", "spec: {replicatedJobs: [a]}", "'a' is no entry"),
        ("jobset", "kind: Job", "kind"),
        ("jobset", "- a", "holds no fields"),
        ("jobset", "a: [", "in YAML"),
        ("aichor", "spec: {types: {other: {count: 1}}}", "type other"),
        ("aichor", "spec: {command: ls}", "spec.command"),
        ("aichor", "spec: {types: {worker: {count: 3}}}", "worker.count to 3"),
    ],
)
def test_a_template_that_would_change_who_does_what_is_refused(
    kind, template, said, tmp_path, capsys
):
    file = tmp_path / "site.yaml"
    file.write_text(template)
    words = {"jobset": JOBSET_WORDS, "aichor": AICHOR_WORDS}[kind]
    given = ["render", words[0], "ci_cpu", *words[1:], "--split", "even:2"]
    assert main([*given, "--template", str(file)]) == 2
    shown = capsys.readouterr()
    assert said in " ".join(shown.err.split())
    assert shown.out == ""


def test_a_template_that_is_not_there_is_refused(capsys):
    assert main(["render", "jobset", "ci_cpu", *JOBSET_WORDS[1:], "--template", "no.yaml"]) == 2
    assert "no.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("scenario", ["1", "2", "3", "4"])
def test_a_program_of_one_s_own_runs_in_each_scenario_with_its_own_dockerfile(scenario, capsys):
    own = ("--command", "python -u src/main.py", "--total-cpus", "200", "--total-memory", "400")
    assert main(["render", "aichor", "--scenario", scenario, *own]) == 0
    manifest = yaml.safe_load(capsys.readouterr().out)
    validate(manifest, aichor_schema("0.2.3"))
    assert manifest["spec"]["command"] == "python -u src/main.py"
    assert manifest["builder"]["dockerfile"] == "./Dockerfile"
    items = []
    for wave in pods_of_aichor(manifest):
        for pod in wave:
            shard = shard_of(SCENARIOS[int(scenario)], rank_here(pod.variables))
            items += shard.split.parts([1.0] * 1000)[shard.number].items
    assert sorted(items) == list(range(1, 1001))


@pytest.mark.parametrize(
    ("version", "file", "said"),
    [
        ("0.2.3", "aichor_manifests/cpu/a.yaml", "git commit -m 'aichor[cpu/a.yaml]: start'"),
        ("0.2.3", "a.yaml", "below aichor_manifests/"),
        ("0.2.1", "a.yaml", "as manifest.yaml"),
    ],
)
def test_the_next_step_is_the_one_that_starts_an_experiment(
    version, file, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    words = ("render", "aichor", "ci_cpu", "--scenario", "2", *STORE, "--api-version", version)
    assert main([*words, "--output", file]) == 0
    assert said in " ".join(capsys.readouterr().err.split())


SBATCH_TEMPLATE = """\
#!/bin/bash
@DIRECTIVES@
#SBATCH --account=physics --partition=gpu --qos=long
module() { :; }
module load python
@BODY@
"""
RUN = """\
#!/bin/bash
printf '%s\\0' "$@" > "$TASKS/$SLURM_ARRAY_TASK_ID"
"""
"""In place of skymark: notes the words of each task."""

BATCHES = {
    "account and GPUs": ("gpu_h100", "--split", "even:3", "--gpus", "H100:2"),
    "results with spaces": (
        "ci_cpu", "--split", "longest:4", "--results", "$HOME/my ${LAB} 100% #1?/it's",
    ),
    "days": ("ci_cpu", "--split", "waves:2x4/2", "--deadline", "2-00:30:00"),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_every_task_of_a_site_s_script_takes_its_items_once(name, tmp_path, capsys):
    """The script runs as Slurm runs it; tests/cloud has a real one."""
    profile, *words = BATCHES[name]
    site = tmp_path / "site.sh"
    site.write_text(SBATCH_TEMPLATE)
    assert main(["render", "slurm", profile, *words, "--template", str(site)]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("take nothing") == shown.out.count("take nothing")
    (tmp_path / "skymark").write_text(RUN)
    (tmp_path / "skymark").chmod(0o755)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "job.sh").write_text(shown.out)
    there = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TASKS": str(tmp_path / "tasks")}
    there |= {"HOME": str(tmp_path), "LAB": "lab", "SLURM_SUBMIT_DIR": str(tmp_path)}
    items = []
    for task in range(int(shown.out.partition("SKYMARK_ARRAY=0-")[2].split()[0]) + 1):
        variables = {"SLURM_JOB_ID": str(20 + task), "SLURM_ARRAY_TASK_ID": str(task)}
        variables |= {"SLURM_ARRAY_JOB_ID": "20"}
        subprocess.run(
            ["bash", tmp_path / "job.sh"], env=there | variables, check=True, cwd=tmp_path
        )
        said = (tmp_path / "tasks" / str(task)).read_text().split("\0")
        array = f"0-{shown.out.partition('SKYMARK_ARRAY=0-')[2].split()[0]}"
        rank = rank_here(variables | {"SKYMARK_ARRAY": array})
        shard = shard_of(said[said.index("--split") + 1], rank)
        items += shard.split.parts([1.0] * 30)[shard.number].items
        (store,) = (one for one in said if one.startswith("file://"))
    assert sorted(items) == list(range(1, 31))
    if "--results" in words:
        root = open_directory(store, "run").root
        assert root == tmp_path / "my lab 100% #1?" / "it's" / "run"
        assert root.parent.is_dir()
    assert "--account=physics" in shown.out
