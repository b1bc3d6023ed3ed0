"""What can be seen on this machine of a rehearsal, to compare before and after."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Footprint:
    """Everything that one rehearsal could leave behind; others may run beside it."""

    links: frozenset[str]
    rules: frozenset[str]
    mounts: frozenset[str]
    loop_devices: frozenset[str]
    processes: frozenset[str]
    files: frozenset[str]


NOTHING = Footprint(*(frozenset() for _ in range(6)))


def footprint(directory: Path, bridge: str) -> Footprint:
    """Look for a rehearsal that lies in a directory and has a network bridge."""
    tables = [_lines("iptables", "-w", "-t", table, "-S") for table in ("nat", "filter")]
    named = re.compile(f"{bridge}([mn][0-9]+)?")
    backing = _lines("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
    net = Path("/sys/class/net")
    return Footprint(
        links=frozenset(filter(named.fullmatch, (path.name for path in net.iterdir()))),
        rules=frozenset(line for table in tables for line in table if f'l {bridge}"' in line),
        mounts=frozenset(line for line in _lines("mount") if str(directory) in line),
        loop_devices=frozenset(line for line in backing if str(directory) in line),
        processes=frozenset(_processes(directory)),
        files=frozenset(str(path) for path in directory.glob("*")),
    )


def users_files() -> frozenset[str]:
    """Return the user's own files that SkyPilot would write to outside a rehearsal."""
    places = ("~/.sky", "~/.ssh", "~/.lambda_cloud", "~/.slurm", "~/sky_logs", "~/sky_workdir")
    homes = [Path(place).expanduser() for place in places]
    return frozenset(
        f"{path} {path.stat().st_mtime_ns}" for home in homes for path in home.rglob("*")
    )


def _processes(directory: Path) -> list[str]:
    seen = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in text:
            seen.append(f"{entry.name}: {text[:200]!r}")
    return seen


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
