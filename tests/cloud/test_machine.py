"""A simulated machine: its own processes, disk and network, and nothing left of it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sky_rehearsal import namespace_keeper
from sky_rehearsal.changes import Changes
from sky_rehearsal.image import Image, find_python, host_certificates
from sky_rehearsal.machine import Machine, start_machine
from sky_rehearsal.namespaces import Namespaced
from sky_rehearsal.network import Network, make_network
from tests.cloud.footprint import footprint

pytestmark = pytest.mark.cloud


class Lab:
    """A network to put machines in, and a key to reach them."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.directory = directory
        self.network = network
        self.key = directory / "key"
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", self.key], check=True)
        certificates = host_certificates()
        assert certificates is not None
        self.image = Image(certificates, {"cloud.test": network.gateway}, None, find_python(), None)

    def start(self, name: str, disk_gib: float = 1.0) -> Machine:
        keys = [self.key.with_suffix(".pub").read_text()]
        return start_machine(name, keys, self.image, self.network, self.directory / name, disk_gib)

    def ssh(
        self, machine: Machine, command: str, lost_after_s: int = 60
    ) -> subprocess.CompletedProcess[str]:
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        options += [f"ConnectTimeout={lost_after_s}", f"ServerAliveInterval={lost_after_s // 3}"]
        options += ["ServerAliveCountMax=3"]
        arguments = [part for option in options for part in ("-o", option)]
        return subprocess.run(
            ["ssh", "-F", "none", "-i", self.key, *arguments, f"ubuntu@{machine.address}", command],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def lab(fit: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    changes = Changes()
    try:
        yield Lab(tmp_path_factory.mktemp("lab"), make_network(changes))
    finally:
        changes.undo_all()


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Iterator[Machine]:
    machine = lab.start("box")
    yield machine
    machine.kill()


def test_the_user_logs_in_with_the_registered_key_and_may_do_everything(
    lab: Lab, machine: Machine
) -> None:
    told = lab.ssh(machine, "whoami; hostname; sudo -n id -u; getent hosts cloud.test")
    assert told.stdout.split() == ["ubuntu", "box", "0", lab.network.gateway, "cloud.test"]


def test_it_sees_its_own_processes_only(lab: Lab, machine: Machine) -> None:
    told = lab.ssh(machine, "ls -d /proc/[0-9]* | wc -l; cat /proc/1/cmdline | tr '\\0' ' '")
    count, _, first = told.stdout.partition("\n")
    assert int(count) < 20
    assert "machine_start" in first


def test_what_it_changes_in_system_directories_stays_in_it(lab: Lab, machine: Machine) -> None:
    told = lab.ssh(machine, "sudo touch /etc/only-here /usr/only-here /tmp/only-here && echo done")
    assert told.stdout == "done\n"
    assert not any(Path(place, "only-here").exists() for place in ("/etc", "/usr", "/tmp"))


def test_this_machines_homes_and_files_are_hidden_from_it(lab: Lab, machine: Machine) -> None:
    told = lab.ssh(machine, f"sudo ls -A /root /mnt; ls {lab.directory}; ls /dev/vda /dev/sda")
    assert told.stdout.split() == ["/mnt:", "/root:"]


def test_a_full_disk_is_its_own(lab: Lab, machine: Machine) -> None:
    told = lab.ssh(machine, "head -c 2G /dev/zero > big; rm big")
    assert "No space left on device" in told.stderr


def test_the_kernel_of_this_machine_is_out_of_reach(lab: Lab, machine: Machine) -> None:
    told = lab.ssh(machine, "sudo sh -c 'echo 1 > /proc/sys/vm/drop_caches'; sudo mknod x b 7 0")
    assert "Read-only file system" in told.stderr
    assert "Operation not permitted" in told.stderr


def test_machines_reach_each_other_and_end_apart(lab: Lab, machine: Machine) -> None:
    other = lab.start("other")
    try:
        told = lab.ssh(machine, f"nc -z -w 5 {other.address} 22 && echo open")
        assert told.stdout == "open\n"
    finally:
        other.kill()
    assert lab.ssh(machine, "echo here").stdout == "here\n"


def test_a_pulled_cable_cuts_it_off_and_what_runs_on_it_goes_on(lab: Lab, machine: Machine) -> None:
    machine.disconnect()
    try:
        assert lab.ssh(machine, "true", lost_after_s=3).returncode == 255
        assert machine.run("pgrep -c sshd").returncode == 0
    finally:
        machine.connect()
    assert lab.ssh(machine, "echo back").stdout == "back\n"


def test_nothing_is_left_of_a_killed_machine(lab: Lab) -> None:
    before = footprint(lab.directory, lab.network.bridge)
    machine = lab.start("brief")
    lab.ssh(machine, "nohup sleep 1000 >/dev/null 2>&1 & sudo touch /etc/x")
    during = footprint(lab.directory, lab.network.bridge)
    assert during.links > before.links
    assert during.loop_devices > before.loop_devices
    machine.kill()
    machine.kill()
    (lab.directory / "brief.log").unlink()
    assert footprint(lab.directory, lab.network.bridge) == before


def test_the_network_of_a_killed_machine_goes_though_its_namespace_stays(lab: Lab) -> None:
    before = footprint(lab.directory, lab.network.bridge)
    machine = lab.start("held")
    _, _, process, *_ = machine.home.parts
    with Path("/proc", process, "ns", "net").open():
        machine.kill()
        (lab.directory / "held.log").unlink()
        assert footprint(lab.directory, lab.network.bridge) == before


def number_of(one: Namespaced) -> int:
    """Return the kernel's number of a namespace of processes, which a later one may get."""
    child, *_ = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
    return Path(f"/proc/{child}/ns/pid").stat().st_ino


def test_a_killed_namespace_is_not_taken_for_a_later_one_of_its_number(
    fit: None, tmp_path: Path
) -> None:
    program, spec = tmp_path / "program.py", tmp_path / "spec.json"
    program.write_text("print('up', flush=True); input()")
    killed: dict[int, Namespaced] = {}
    deadline = time.monotonic() + 120
    # Each kind of namespace takes a number: with one more, that of processes is another.
    for kinds in itertools.cycle([(), ("--uts",)]):
        one = Namespaced(kinds, program, spec, tmp_path / "log")
        try:
            one.expect("up")
            number = number_of(one)
            if number in killed:
                killed[number].kill()
                assert one.alive
                return
        finally:
            one.kill()
        killed[number] = one
        assert time.monotonic() < deadline, "no number was given out again"


HOLD = """
import sys
from pathlib import Path
from sky_rehearsal.namespaces import Namespaced
import sky_rehearsal.namespace_keeper as keeper
one = Namespaced((), Path(keeper.__file__), Path(sys.argv[1]), Path(sys.argv[2]))
print(one.pid, flush=True)
sys.stdin.read()
"""


def sleepers(directory: Path) -> list[str]:
    """Return the processes that sleep and have a directory in their variables."""
    seen = footprint(directory, "none").processes
    return [name for name in seen if r"sleep\x004321" in name]


def test_a_namespace_ends_with_whoever_started_it_even_if_that_is_killed(
    fit: None, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    spec = tmp_path / "spec.json"
    variables = {"HERE": str(tmp_path)}
    sleeps = {"binds": {}, "command": ["sleep", "4321"], "variables": variables}
    spec.write_text(json.dumps(sleeps))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, spec, tmp_path / "log"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        eventually(lambda: sleepers(tmp_path), timeout_s=60)
        assert Path(f"/proc/{pid}").exists()
        holder.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), timeout_s=60)
    assert sleepers(tmp_path) == []


def test_a_program_in_a_namespace_may_say_as_much_as_it_likes(fit: None, tmp_path: Path) -> None:
    end, spec, log = tmp_path / "end", tmp_path / "spec.json", tmp_path / "log"
    talks = ["bash", "-c", f"head -c 1000000 /dev/zero; touch {end}"]
    spec.write_text(json.dumps({"binds": {}, "command": talks, "variables": {}}))
    one = Namespaced((), Path(namespace_keeper.__file__), spec, log)
    try:
        deadline = time.monotonic() + 120
        while not end.exists():
            assert time.monotonic() < deadline, "it stands still"
            time.sleep(0.01)
    finally:
        one.kill()
    assert log.stat().st_size == 1_000_000
