"""A real Slurm on a simulated machine, used directly and by SkyPilot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sky_rehearsal.changes import Changes
from sky_rehearsal.image import Image, host_certificates
from sky_rehearsal.network import make_network
from sky_rehearsal.requirements import PROGRAMS, SLURM_PROGRAMS, missing_packages
from sky_rehearsal.slurm import SlurmCluster, start_slurm
from skymark.rundir.directory import RunDirectory
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import Client
from tests.cloud.launches import PLAN, ROUNDS, SMALL, bucket_of, skymark

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def slurm(fit: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if absent := missing_packages({**PROGRAMS, **SLURM_PROGRAMS}):
        pytest.skip(f"apt-get install {' '.join(absent)}")
    home: Path = tmp_path_factory.mktemp("home")
    certificates = host_certificates()
    assert certificates is not None
    image = Image(certificates, {}, None, None, None)
    changes = Changes()
    try:
        cluster = start_slurm(home, image, make_network(changes), home / "machine")
        yield cluster
        cluster.stop()
    finally:
        changes.undo_all()


def test_a_job_gets_the_gpus_it_asks_for(slurm: SlurmCluster) -> None:
    asked = slurm.run("srun --gres=gpu:H100:2 bash -c 'echo $CUDA_VISIBLE_DEVICES on $(hostname)'")
    assert asked.stdout == "0,1 on slurm\n", asked.stderr


def test_an_array_of_jobs_may_have_gaps(slurm: SlurmCluster) -> None:
    submit = "sbatch --quiet --wait --array=3,7 --output=task-%a --wrap 'echo $SLURM_ARRAY_TASK_ID'"
    assert slurm.run(f"{submit} && cat task-*").stdout == "3\n7\n"


def test_more_gpus_than_there_are_is_refused(slurm: SlurmCluster) -> None:
    refused = slurm.run("srun --gres=gpu:H100:9 true")
    assert refused.returncode == 1
    assert "Requested node configuration is not available" in refused.stderr


def test_a_launch_on_it_brings_results_home_and_gives_the_job_back(
    fit: None, client: Client, tmp_path: Path
) -> None:
    cluster = client.world.start_slurm()
    machine, results = tmp_path / "machine.yaml", tmp_path / "results"
    task = yaml.safe_load(SMALL.read_text())
    seen = (
        'echo "gpu $CUDA_VISIBLE_DEVICES of rank $SKYPILOT_NODE_RANK"\n'
        'echo "a secret of ${#AWS_SESSION_TOKEN} characters"'
    )
    given = {"resources": {"accelerators": "H100:1"}, "run": f"{seen}\n{task['run']}"}
    machine.write_text(yaml.safe_dump({**task, **given}))
    there = ("--infra", "slurm/slurm", "--machine", str(machine), "--output", str(results))
    with bucket_of(client) as bucket:
        secrets = bucket.variables | {"AWS_SESSION_TOKEN": "k" * 40}
        stored = ("--store", "s3://results")
        launched = skymark(
            client, "launch", "cpu", *there, "--yes", *PLAN, *ROUNDS, *stored, **secrets
        )
    assert launched.status == 0, launched.output
    assert "gpu 0 of rank 0" in launched.output
    assert "a secret of 40 characters" in launched.output
    (run,) = runs_in(results)
    manifest = RunDirectory(run).manifest()
    assert (manifest.finished, manifest.counts, manifest.price_usd) == (True, {"ok": 1}, None)
    assert not cluster.run("squeue --noheader --states R").stdout.strip()
    client.world.stop_slurm()


def test_several_nodes_of_it_are_refused(client: Client) -> None:
    refused = skymark(client, "launch", "cpu", "--infra", "slurm/slurm", "--num-nodes", "2")
    assert refused.status == 2
    assert "share one home" in refused.output
