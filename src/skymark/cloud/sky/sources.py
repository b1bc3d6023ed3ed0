"""Send the source of a submission to the machines of a cluster."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skymark.cloud.sky.ssh import host, rsync
from skymark.cloud.submission import SOURCES, source_place


def send_source(cluster: str, nodes: int, directory: Path, submission: str) -> None:
    """Copy a directory of `skymark.cloud.source` to every node of a cluster.

    Args:
        cluster: its name.
        nodes: how many it has.
        directory: on this machine; all of it is copied.
        submission: of `skymark.cloud.submission`; its directory is made.

    Raises:
        CloudError: a node could not be reached.
    """
    there = source_place(submission)
    options = (
        "--rsync-path",
        f"mkdir -p {SOURCES} && rsync",
    )

    def send_to(node: int) -> None:
        rsync(cluster, *options, f"{os.fspath(directory)}/", f"{host(cluster, node)}:{there}/")

    with ThreadPoolExecutor(max_workers=nodes) as threads:
        for done in [threads.submit(send_to, node) for node in range(nodes)]:
            done.result()
