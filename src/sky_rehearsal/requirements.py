"""Requirements of a simulated cloud (Linux, root, SkyPilot, programs), and its errors."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec

PROGRAMS = {
    "ip": "iproute2",
    "iptables": "iptables",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "rsync": "rsync",
    "sudo": "sudo",
    "nc": "netcat-openbsd",
}
"""Programs of every simulated cloud, with the Debian package of each."""

SLURM_PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
}
"""Programs of a Slurm cluster."""


def check_requirements(programs: Mapping[str, str] = PROGRAMS) -> None:
    """Check that this is Linux, that this user is root, and that SkyPilot and programs are there.

    Args:
        programs: names of programs with the Debian package of each.

    Raises:
        UnfitError: something is missing; the message says how to get it.
    """
    if sys.platform != "linux":
        raise UnfitError(f"a rehearsal needs Linux; this is {sys.platform}")
    if os.geteuid() != 0:
        raise UnfitError(
            "a rehearsal makes network namespaces and needs root; this is user "
            f"{os.geteuid()}. Run the same command with sudo"
        )
    if absent := missing_packages(programs):
        raise UnfitError(
            f"a rehearsal needs programs that are not here: apt-get install {' '.join(absent)}"
        )
    sky = find_spec("sky")
    if sky is None or sky.origin is None:  # a folder named sky is not SkyPilot
        raise UnfitError("a rehearsal needs SkyPilot: in a checkout, pip install '.[rehearsal]'")


def missing_packages(programs: Mapping[str, str]) -> list[str]:
    """Return the Debian packages of the programs that are not on this machine."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return sorted(
        {name for program, name in programs.items() if not shutil.which(program, path=path)}
    )


class RehearsalError(Exception):
    """The simulated cloud, a machine in it or its SkyPilot did not come up or did not end."""


class UnfitError(RehearsalError):
    """This machine cannot hold a simulated cloud, or a request to the cloud is impossible."""


class PortTakenError(RehearsalError):
    """Another process took a port first."""
