"""A real Slurm on a simulated machine, used directly and by SkyPilot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skymark.cloud.rehearsal.changes import Changes
from skymark.cloud.rehearsal.fitness import PROGRAMS, SLURM_PROGRAMS, missing_packages
from skymark.cloud.rehearsal.image import Image, host_certificates
from skymark.cloud.rehearsal.network import make_network
from skymark.cloud.rehearsal.slurm import SlurmCluster, start_slurm
from tests.cloud.conftest import Client

pytestmark = pytest.mark.cloud


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


def test_skypilot_runs_a_job_on_it_and_gives_it_back(slurm: SlurmCluster, client: Client) -> None:
    cluster = client.world.start_slurm()
    job = "echo gpu=$CUDA_VISIBLE_DEVICES rank=$SKYPILOT_NODE_RANK"
    said = client.sky("launch", "-y", "-c", "s", "--infra", "slurm/slurm", "--gpus", "H100:1", job)
    assert "gpu=0 rank=0" in said
    assert "Job finished (status: SUCCEEDED)" in said
    assert cluster.run("squeue --noheader --states R").stdout.strip()
    client.sky("down", "-y", "s")
    assert not cluster.run("squeue --noheader --states R").stdout.strip()
    client.world.stop_slurm()
