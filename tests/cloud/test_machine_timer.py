"""The timer of a machine on simulated machines with real SSH, and what it has the provider do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sky_rehearsal.machine import Machine
from skymark.cloud.machine_script import TIMER, arming
from skymark.cloud.sky import tasks
from skymark.cloud.sky.internals import run_on_nodes
from tests.cloud.test_machine import Lab, lab
from tests.unit.sky_rehearsal.test_lambda_api import Provider, provider

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


def last_active_s(machine: Machine) -> int:
    """Return when the timer of a machine last saw work, in seconds since this machine's boot."""
    return int((machine.home / TIMER / "active").read_text().strip() or 0)


def up_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def test_nodes_wait_for_one_another_over_ssh_and_not_for_one_that_is_lost(
    lab: Lab, nodes: list[Machine], eventually: Callable[..., None]
) -> None:
    head, worker = nodes
    hold = f"flock {TIMER}/parts/one sleep {{seconds}} > /dev/null 2>&1 < /dev/null &"
    for machine, seconds in ((worker, 600), (head, 4)):
        told = lab.ssh(machine, f"mkdir -p {TIMER}/parts; nohup {hold.format(seconds=seconds)}")
        assert told.returncode == 0, told.stderr
    addresses = "\\n".join(machine.address for machine in nodes)
    # Longer than the timer waits for one answer: only a machine that is lost for good counts.
    arm = arming({**SOON, "idle_s": "45", "start_s": "0"}, "", "touch ~/ended")
    for rank, machine in enumerate(nodes):
        key = machine.home / ".ssh" / "sky-cluster-key"
        key.write_text(lab.key.read_text())
        key.chmod(0o600)
        os.chown(key, 1000, 1000)
        script = f"export SKYPILOT_NODE_IPS=$'{addresses}' SKYPILOT_NODE_RANK={rank}\n"
        told = lab.ssh(machine, script + arm)  # the timer outlives the session that arms it
        assert told.returncode == 0, told.stderr
    eventually((head.home / TIMER / f"met-{worker.address}").exists, timeout_s=180)
    told = lab.ssh(head, f"flock {TIMER}/parts/one true")  # its own work is done
    assert told.returncode == 0, told.stderr
    done_s = up_s()
    eventually(lambda: last_active_s(head) > done_s + 5, timeout_s=180)  # the other one still works
    assert not (head.home / "ended").exists()
    worker.kill()
    eventually((head.home / "ended").exists, timeout_s=300)


def test_the_program_has_the_provider_end_every_machine_of_its_cluster(
    provider: Provider, tmp_path: Path
) -> None:
    provider.launched()
    body = {"instance_type_name": "gpu_1x", "region_name": "east", "ssh_key_names": ["me"]}
    for name in ("box-worker", "other-head"):
        provider.call("/instance-operations/launch", {**body, "name": name})
    for one in provider.cloud.instances():
        assert one.booted.wait(60)
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


@dataclass
class Handle:
    """The part of SkyPilot's handle of a cluster that is there when its provider has told it."""

    cached_cluster_info: Any
    cluster_yaml: str


@pytest.mark.usefixtures("other_home")
@pytest.mark.filterwarnings("ignore")  # SkyPilot's own, as it is imported
def test_a_timer_is_armed_from_here_as_soon_as_a_machine_answers(
    lab: Lab, nodes: list[Machine], tmp_path: Path, eventually: Callable[..., None]
) -> None:
    common = pytest.importorskip("sky.provision.common")
    instances = {
        one.name: [common.InstanceInfo(one.name, one.address, one.address, {})] for one in nodes
    }
    info = common.ClusterInfo(instances, "head", "lambda", {}, ssh_user="ubuntu")
    settings = tmp_path / "cluster.yml"
    auth = {"ssh_user": "ubuntu", "ssh_private_key": str(lab.key)}
    module = {"module": "sky.provision.lambda"}
    settings.write_text(json.dumps({"cluster_name": "box", "auth": auth, "provider": module}))
    handle = Handle(info, str(settings))
    done: set[str] = set()
    arm = arming(SOON, "", "touch ~/ended")
    eventually(lambda: run_on_nodes(handle, arm, done), timeout_s=120)
    assert len(done) == len(nodes)
    assert run_on_nodes(handle, "exit 1", done), "it has run everywhere"
    for machine in nodes:
        eventually((machine.home / TIMER / "active").exists, timeout_s=120)
