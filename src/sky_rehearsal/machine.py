"""A simulated machine, seen from outside: started, reached by SSH, cut off, ended."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sky_rehearsal.image import Image
from sky_rehearsal.namespaces import Namespaced
from sky_rehearsal.network import Network, check_ip, delete_link, link_exists
from sky_rehearsal.requirements import RehearsalError

PROGRAM = Path(__file__).with_name("machine_start.py")
KINDS = ("--net", "--uts", "--ipc")
BOOT_TIMEOUT_S = 60.0
FORWARDING = "3"
"""A bridge port that passes packets on (BR_STATE_FORWARDING of the kernel)."""
LOGIN_USER = "ubuntu"


@dataclass
class Machine:
    """One machine. Its namespaces, disk and network end together."""

    name: str
    address: str
    directory: Path
    interface: str
    _process: Namespaced

    @property
    def alive(self) -> bool:
        """Whether the machine runs."""
        return self._process.alive

    def disconnect(self) -> None:
        """Pull its network cable; what runs on it goes on."""
        check_ip("link", "set", self.interface, "down")

    def connect(self) -> None:
        """Put its network cable back; return when packets pass again."""
        check_ip("link", "set", self.interface, "up")
        state = Path(f"/sys/class/net/{self.interface}/brport/state")
        while state.read_text().strip() != FORWARDING:
            time.sleep(0.01)
        # The kernel remembers for a while that the address could not be reached.
        check_ip("neighbour", "flush", "to", self.address)

    def run(self, command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a shell command as the machine's root, past its network: to cause a fault or look."""
        holder = ["nsenter", "--target", str(self._first_process()), "--all", "--wd"]
        return subprocess.run(
            [*holder, "bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    @property
    def home(self) -> Path:
        """The login user's home, seen from outside while the machine runs."""
        return Path(f"/proc/{self._first_process()}/root/home/{LOGIN_USER}")

    def kill(self) -> None:
        """End the machine and remove its disk; safe to call again.

        Raises:
            RehearsalError: some of it is still there.
        """
        self._process.kill()
        # It would go with its namespace, whose end the kernel may put off for minutes.
        delete_link(self.interface)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while link_exists(self.interface):
            if time.monotonic() > deadline:
                raise RehearsalError(f"network interface {self.interface} cannot be removed")
            time.sleep(0.02)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _first_process(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return int(children.split()[0])


def start_machine(
    name: str,
    public_keys: Sequence[str],
    image: Image,
    network: Network,
    directory: Path,
    disk_gib: float,
    cpus: int | None = None,
) -> Machine:
    """Start a machine and wait until it accepts SSH connections.

    Args:
        name: its host name.
        public_keys: SSH keys that may log in as `LOGIN_USER`.
        image: contents of the machine.
        network: gives it its address.
        directory: for its disk; removed with it.
        disk_gib: size of its disk, taken from this machine's disk as it fills.
        cpus: cores that Ray believes in; None for those that there are.

    Raises:
        RehearsalError: it did not come up; the message ends with its log.
    """
    address = network.next_address()
    inner = f"{network.bridge}n{address.rpartition('.')[2]}"
    outer = f"{network.bridge}m{address.rpartition('.')[2]}"
    directory.mkdir(parents=True)
    spec = directory / "spec.json"
    spec.write_text(
        json.dumps(
            image.spec(name, address, LOGIN_USER, public_keys, cpus)
            | _make_disk(directory, disk_gib)
            | {
                "hostname": name,
                "user": LOGIN_USER,
                "interface": inner,
                "address": f"{address}/24",
                "gateway": network.gateway,
            }
        )
    )
    log = directory.with_suffix(".log")
    process = Namespaced(KINDS, PROGRAM, spec, log)
    machine = Machine(name, address, directory, outer, process)
    try:
        process.expect("made")
        check_ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        check_ip("link", "set", inner, "netns", str(process.pid))
        check_ip("link", "set", outer, "master", network.bridge, "up")
        process.tell()
        process.expect("up")
        _await_ssh(machine, log)
    except BaseException:
        machine.kill()
        raise
    return machine


def _make_disk(directory: Path, disk_gib: float) -> dict[str, str]:
    image, disk, root = directory / "disk.img", directory / "disk", directory / "root"
    disk.mkdir()
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(int(disk_gib * 2**30))
    # No journal and late inode tables: the disk is thrown away, and a machine is to start quickly.
    features = ["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", "-m", "0"]
    subprocess.run(["mkfs.ext4", "-q", "-F", *features, str(image)], check=True)
    return {"disk_image": str(image), "disk": str(disk), "root": str(root)}


def _await_ssh(machine: Machine, log: Path) -> None:
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while True:
        try:
            with socket.create_connection((machine.address, 22), timeout=1.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)
        if not machine.alive or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:].strip()
            raise RehearsalError(f"{machine.name} serves no SSH at {machine.address}: {tail}")
