"""Requirements of a rehearsal: Linux, root, and the programs that it runs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from skymark.cloud.own_venv import has_skypilot, how_to_make_it
from skymark.cloud.rehearsal.errors import RehearsalUnfitError

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
"""Programs that a rehearsal runs, with the Debian package of each."""

SLURM_PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
}


def check_requirements(programs: dict[str, str] | None = None) -> None:
    """Check that this is Linux, that this user is root, and that every program is there.

    Args:
        programs: programs with the Debian package of each; `PROGRAMS` by default.

    Raises:
        RehearsalUnfitError: something is missing; the message says what to do.
    """
    if sys.platform != "linux":
        raise RehearsalUnfitError(f"a rehearsal needs Linux; this is {sys.platform}")
    if os.geteuid() != 0:
        raise RehearsalUnfitError(
            f"a rehearsal makes network namespaces and needs root; this is user {os.geteuid()}. "
            f"Run: sudo {same_command()}"
        )
    absent = missing_packages(PROGRAMS if programs is None else programs)
    if absent:
        raise RehearsalUnfitError(
            f"a rehearsal needs programs that are not here: apt-get install {' '.join(absent)}"
        )
    if not has_skypilot():
        raise RehearsalUnfitError(f"a rehearsal needs SkyPilot; {how_to_make_it()}")


def same_command() -> str:
    """Return this program's command line as a shell takes it, by its whole path."""
    program = Path(sys.argv[0]).absolute()
    own = [sys.executable, "-m", "skymark"] if program.name == "__main__.py" else [str(program)]
    return shlex.join([*own, *sys.argv[1:]])


def missing_packages(programs: dict[str, str]) -> list[str]:
    """Return the Debian packages of the programs that are not on this machine."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return sorted(
        {name for program, name in programs.items() if not shutil.which(program, path=path)}
    )
