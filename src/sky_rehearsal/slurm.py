"""A real Slurm cluster on one simulated machine: controller, node and login node in one.

The daemons are this machine's Debian packages; the GPUs that Slurm counts are null devices. Jobs
are real processes of the simulated machine, so everything ends with it.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from sky_rehearsal.image import Image
from sky_rehearsal.machine import LOGIN_USER, Machine, start_machine
from sky_rehearsal.network import Network
from sky_rehearsal.requirements import PROGRAMS, SLURM_PROGRAMS, RehearsalError, check_requirements

READY_TIMEOUT_S = 120.0

SETTINGS = """\
ClusterName={name}
SlurmctldHost={name}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm-state
SlurmdSpoolDir=/var/lib/slurm-spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1024
SlurmdParameters=config_overrides
GresTypes=gpu
MessageTimeout=60
BatchStartTimeout=60
ReturnToService=2
KillWait=5
MinJobAge=3600
NodeName={name} CPUs={cpus} RealMemory={memory_mib} Gres=gpu:{gpu}:{gpus} State=UNKNOWN
PartitionName=main Nodes={name} Default=YES MaxTime=7-00:00:00 State=UP
"""

CGROUPS = "CgroupPlugin=cgroup/v1\n"
"""Named, so that slurmd does not look for the kind there is; no plugin above uses any."""

START = """\
set -e
mkdir -p /run/munge /var/log/munge /var/lib/munge /var/lib/slurm-state /var/lib/slurm-spool
mkdir -p /dev/rehearsal
for number in $(seq 0 {last}); do mknod -m 666 /dev/rehearsal/gpu$number c 1 3; done
rm -f /etc/munge/munge.key
head -c 1024 /dev/urandom > /etc/munge/munge.key
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 0755 /run/munge
chmod 0400 /etc/munge/munge.key
setpriv --reuid munge --regid munge --clear-groups munged
slurmctld
slurmd
packages=/home/{user}/.cache/uv
if [ -d $packages ]; then ln -s $packages /tmp/uv_cache_$(id -u {user}); fi
"""
"""SkyPilot keeps what it installs on Slurm in a cache below ``/tmp``; here it is the machine's."""


@dataclass
class SlurmCluster:
    """A cluster that takes jobs. SkyPilot knows it as ``slurm/NAME``."""

    name: str
    machine: Machine
    key: Path

    def run(self, command: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the login node, as the user, over SSH: ``sbatch``, ``squeue``."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
        arguments = [part for option in options for part in ("-o", option)]
        target = f"{LOGIN_USER}@{self.machine.address}"
        return subprocess.run(
            ["ssh", "-F", "none", "-i", os.fspath(self.key), *arguments, target, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def stop(self) -> None:
        """End the cluster with everything that runs on it; safe to call again."""
        self.machine.kill()


def start_slurm(
    home: Path,
    image: Image,
    network: Network,
    directory: Path,
    *,
    name: str = "slurm",
    cpus: int = 64,
    memory_mib: int = 200_000,
    gpu: str = "H100",
    gpus: int = 8,
) -> SlurmCluster:
    """Start a cluster of one node and wait until it takes jobs.

    Args:
        home: a home directory, whose ``~/.slurm/config`` gets the login node.
        image: contents of the machine.
        network: gives the machine its address.
        directory: for the disk.
        name: of the cluster and of its host.
        cpus: cores that Slurm believes in; more than there are.
        memory_mib: memory that Slurm believes in.
        gpu: name of the GPUs, in Slurm's words their type.
        gpus: number of GPUs; each is a null device.

    Raises:
        UnfitError: Slurm's packages are not installed.
        RehearsalError: a daemon did not start; the message has its log.
    """
    check_requirements({**PROGRAMS, **SLURM_PROGRAMS})
    key = _make_key(home, name)
    public_key = key.with_suffix(".pub").read_text()
    machine = start_machine(name, [public_key], image, network, directory, disk_gib=32.0)
    try:
        settings = SETTINGS.format(name=name, cpus=cpus, memory_mib=memory_mib, gpu=gpu, gpus=gpus)
        resources = f"Name=gpu Type={gpu} File=/dev/rehearsal/gpu[0-{gpus - 1}]\n"
        files = {
            "slurm.conf": settings,
            "gres.conf": resources,
            "cgroup.conf": CGROUPS,
            "plugstack.conf": "",
        }
        for file, text in files.items():
            _checked(machine, f"mkdir -p /etc/slurm && cat > /etc/slurm/{file} <<'END'\n{text}END")
        start = START.format(last=gpus - 1, user=LOGIN_USER)
        _checked(machine, f"({start}) > /var/log/start.log 2>&1")
        _await_idle(machine)
        _note_login_node(home, name, machine, key)
    except BaseException:
        machine.kill()
        raise
    return SlurmCluster(name, machine, key)


def _make_key(home: Path, name: str) -> Path:
    key = home / ".ssh" / f"{name}-key"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.fspath(key)]
    subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    return key


def _note_login_node(home: Path, name: str, machine: Machine, key: Path) -> None:
    settings = home / ".slurm" / "config"
    settings.parent.mkdir(exist_ok=True)
    lines = (
        f"Host {name}",
        f"  HostName {machine.address}",
        "  Port 22",
        f"  User {LOGIN_USER}",
        f"  IdentityFile {key}",
        "  IdentitiesOnly yes",
    )
    with settings.open("a") as file:
        file.write("\n".join(lines) + "\n")


def _await_idle(machine: Machine) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while "idle" not in machine.run("sinfo --noheader --format %T").stdout.split():
        if time.monotonic() > deadline:
            seen = machine.run("sinfo; tail -n 5 /var/log/slurm*.log").stdout
            raise RehearsalError(f"Slurm's node does not become idle: {seen}")
        time.sleep(0.1)


def _checked(machine: Machine, command: str) -> None:
    done = machine.run(command)
    if done.returncode:
        log = machine.run("tail -n 8 /var/log/start.log /var/log/slurm*.log").stdout
        raise RehearsalError(f"Slurm did not start: {done.stderr.strip()} {log.strip()}")
