"""Orders that SkyPilot cannot carry out are bad usage, said before a machine is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skymark.cloud.sky.tasks import make_task
from skymark.model.errors import UsageError
from skymark.model.requests import Machine
from tests.rented_runs import run_of

pytestmark = [
    pytest.mark.usefixtures("other_home"),
    pytest.mark.filterwarnings("ignore"),  # SkyPilot's own, as it is imported
]


@pytest.mark.parametrize(
    "infra", ["nonsense", "lambda/a/b/c/d", "/", "//", "", "*", " ", "x" * 1000, "a b"]
)
def test_a_provider_that_does_not_exist_is_bad_usage(infra: str) -> None:
    with pytest.raises(UsageError, match=r"--infra|names no"):
        make_task(run_of(infra=infra))


def test_machines_get_their_split_and_a_yaml_that_does_not_read_it_is_bad_usage(
    tmp_path: Path,
) -> None:
    two = run_of(nodes=2, split="longest")
    assert make_task(two).envs["SKYMARK_SPLIT"] == "longest"
    own = tmp_path / "own.yaml"
    own.write_text("run: skymark run --shard $SKYPILOT_NODE_RANK/$SKYPILOT_NUM_NODES")
    make_task(run_of(nodes=2, file=own))
    with pytest.raises(UsageError, match=r"own\.yaml .*\bSKYMARK_SPLIT\b"):
        make_task(two.changed(machine=Machine(nodes=2, file=own)))


def test_the_disk_has_the_size_that_was_asked_for() -> None:
    (usual,) = {one.disk_size for one in make_task(run_of()).resources}
    assert {one.disk_size for one in make_task(run_of(disk_gb=usual + 50)).resources} == {
        usual + 50
    }


@pytest.mark.parametrize("image", ["", " ", "a b", "a\nb"])
def test_an_image_that_is_none_is_bad_usage(image: str) -> None:
    with pytest.raises(UsageError, match="--image"):
        make_task(run_of(image=image))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"5",
        b"a: [",
        b"run: 5",
        b"name: no-run",
        b"resources: 5\nrun: x",
        b"resources: {cpus: many}\nrun: x",
        b"run: x\nnum_nodes: -1",
        b"run: x\nbogus: 1",
        b"run: x\nenvs: {A: null}",
        b"run: x\nfile_mounts: {/a: /nowhere}",
        b"name: a\n---\nrun: x",
        b"\xff\xfe\x00",
    ],
)
def test_a_machine_that_skypilot_cannot_read_is_bad_usage(tmp_path: Path, text: bytes) -> None:
    machine = tmp_path / "odd.yaml"
    machine.write_bytes(text)
    with pytest.raises(UsageError, match=r"odd\.yaml"):
        make_task(run_of(file=machine))


def test_a_launch_s_profile_and_ceiling_pass_few_functions() -> None:
    command = [sys.executable, "-m", "tests.following"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
