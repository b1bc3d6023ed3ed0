"""The timer of a machine on simulated machines with real SSH, and what it has the provider do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skymark.cloud.machine_timer import TIMER, arming
from skymark.cloud.rehearsal.machine import Machine
from skymark.cloud.sky import tasks
from tests.cloud.test_lambda_api import Provider, provider
from tests.cloud.test_machine import Lab, lab

__all__ = ["lab", "provider"]

pytestmark = pytest.mark.cloud

SOON = {"idle_s": "2", "tick_s": "0.2", "kept": "", "start_s": "60"}
END_HERE = Path(tasks.__file__).with_name("end_here.py")
HERE = """\
import runpy, sys
from sky.provision.lambda_cloud import lambda_utils
lambda_utils.API_ENDPOINT = sys.argv[1]
runpy.run_path(sys.argv[2], run_name="__main__")
"""


@pytest.fixture
def nodes(lab: Lab) -> Iterator[list[Machine]]:
    made = [lab.start(name) for name in ("head", "worker")]
    yield made
    for machine in made:
        machine.kill()


def test_nodes_wait_for_one_another_over_ssh_and_not_for_one_that_is_lost(
    lab: Lab, nodes: list[Machine], eventually: Callable[..., None]
) -> None:
    addresses = "\\n".join(machine.address for machine in nodes)
    arm = arming(SOON, "", "touch ~/ended")
    for rank, machine in enumerate(nodes):
        key = machine.home / ".ssh" / "sky-cluster-key"
        key.write_text(lab.key.read_text())
        key.chmod(0o600)
        os.chown(key, 1000, 1000)
        script = f"export SKYPILOT_NODE_IPS=$'{addresses}' SKYPILOT_NODE_RANK={rank}\n"
        told = lab.ssh(machine, script + arm)  # the timer outlives the session that arms it
        assert told.returncode == 0, told.stderr
    head, worker = nodes
    holds = "nohup flock {timer}/parts/one sleep {seconds} > /dev/null 2>&1 < /dev/null &"
    lab.ssh(worker, holds.format(timer=TIMER, seconds=100))
    lab.ssh(head, holds.format(timer=TIMER, seconds=4))
    eventually((head.home / TIMER / f"met-{worker.address}").exists, timeout_s=60)
    assert not (head.home / "ended").exists()
    lab.ssh(head, "sleep 8")
    assert not (head.home / "ended").exists(), "the other one still works"
    worker.kill()
    eventually((head.home / "ended").exists, timeout_s=120)


def test_the_program_has_the_provider_end_every_machine_of_its_cluster(
    provider: Provider, tmp_path: Path
) -> None:
    provider.launched()
    body = {"instance_type_name": "gpu_1x", "region_name": "east", "ssh_key_names": ["me"]}
    for name in ("box-worker", "other-head"):
        provider.call("/instance-operations/launch", {**body, "name": name})
    for one in provider.cloud.instances():
        assert one.booted.wait(10)
    key = tmp_path / ".lambda_cloud" / "lambda_keys"
    key.parent.mkdir()
    key.write_text("api_key = key\n")
    config = {
        "cluster_name": "box",
        "max_workers": 1,
        "provider": {"type": "external", "module": "sky.provision.lambda", "region": "east"},
    }
    (tmp_path / ".sky").mkdir()
    (tmp_path / ".sky" / "sky_ray.yml").write_text(json.dumps(config))
    address = f"http://127.0.0.1:{provider.api.server_address[1]}/api/v1"
    done = subprocess.run(
        [sys.executable, "-c", HERE, address, str(END_HERE)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    statuses = {one["name"]: one["status"] for one in provider.call("/instances")}
    assert statuses.pop("other-head") == "active"
    assert "active" not in statuses.values()
