"""What can be seen on this machine of a rehearsal, to compare before and after."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Footprint:
    """Everything that a rehearsal could leave behind."""

    links: frozenset[str]
    rules: frozenset[str]
    mounts: frozenset[str]
    loop_devices: frozenset[str]
    processes: frozenset[str]
    files: frozenset[str]


def footprint(directory: Path) -> Footprint:
    """Look at this machine; `directory` is where the rehearsal lies."""
    tables = [_lines("iptables", "-w", "-t", table, "-S") for table in ("nat", "filter")]
    places = ("~/.sky", "~/.ssh", "~/.lambda_cloud", "~/sky_logs", "/run/netns")
    found = [path for place in places for path in Path(place).expanduser().rglob("*")]
    temporary = [*Path("/tmp").glob("sky_ssh_*"), *Path("/tmp").glob("*ha_recovery.log")]
    return Footprint(
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        rules=frozenset(line for lines in tables for line in lines if "skymark" in line),
        mounts=frozenset(line for line in _lines("mount") if str(directory) in line),
        loop_devices=frozenset(
            line
            for line in _lines("losetup", "--list", "-O", "BACK-FILE")
            if str(directory) in line
        ),
        processes=frozenset(_processes(directory)),
        files=frozenset(str(path) for path in [*found, *temporary, *directory.glob("*")]),
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
