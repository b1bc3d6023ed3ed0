"""Send the source of a submission to the machines of a cluster."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skymark.cloud.sky.ssh import host, rsync
from skymark.cloud.submission import SOURCES, source_place

SKY_IGNORE = ".skyignore"
GIT_IGNORE = ".gitignore"
GIT_EXCLUDE = Path(".git/info/exclude")


def send_source(cluster: str, nodes: int, directory: Path, submission: str) -> None:
    """Copy a directory to every node of a cluster, without the files that SkyPilot leaves out.

    Args:
        cluster: its name.
        nodes: how many it has.
        directory: on this machine.
        submission: of `skymark.cloud.submission`; its directory is made.

    Raises:
        CloudError: a node could not be reached.
    """
    there = source_place(submission)
    options = (
        *without_ignored(directory),
        "--rsync-path",
        f"mkdir -p {SOURCES} && rsync",
    )

    def send_to(node: int) -> None:
        rsync(cluster, *options, f"{os.fspath(directory)}/", f"{host(cluster, node)}:{there}/")

    with ThreadPoolExecutor(max_workers=nodes) as threads:
        for done in [threads.submit(send_to, node) for node in range(nodes)]:
            done.result()


def without_ignored(directory: Path) -> tuple[str, ...]:
    """Return options of rsync that leave out what SkyPilot would: ``.skyignore``, else git's."""
    if (directory / SKY_IGNORE).exists():
        return (f"--filter=dir-merge,- {SKY_IGNORE}",)
    found = [f"--filter=dir-merge,- {GIT_IGNORE}"]
    if (directory / GIT_EXCLUDE).exists():
        found.append(f"--exclude-from={directory / GIT_EXCLUDE}")
    return tuple(found)
