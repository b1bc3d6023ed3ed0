"""Run commands on machines and copy files, over the SSH settings that SkyPilot writes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from skymark.cloud.machine_script import SOURCES, source_place
from skymark.cloud.sky.internals import SSH_SETTINGS
from skymark.model.errors import CloudError, NoMachineError, UnreachableError, UsageError
from skymark.plain_files import LARGEST_FILE_BYTES

ATTEMPTS = 4
PAUSE_S = 3.0
CONNECT_S = 20
UNREACHABLE = {10, 12, 30, 35, 255}
"""Exit statuses of rsync where the connection failed, or ssh itself."""
UNTRUSTED = (
    "--no-links",
    "--no-devices",
    "--no-specials",
    "--perms",
    "--chmod=D0755,F0644",
    "--timeout=120",
)
ANSWER_S = 120.0
MOST_SAID_BYTES = 1 << 16
"""Limits of a command on a machine whose output is read here."""
LEAST_LIMIT_S = 600.0
MOST_LIMIT_S = 7200.0
SLOWEST_BYTES_PER_S = 100e3
"""Limits of a copy; a slower one is broken off, for the machine is paid for meanwhile."""


def settings_of(cluster: str) -> Path:
    """Return SkyPilot's SSH settings of a cluster.

    Raises:
        NoMachineError: there is no such machine, or another client made it.
    """
    path = SSH_SETTINGS.expanduser() / cluster
    if not path.is_file():
        raise NoMachineError(cluster)
    return path


def host(cluster: str, node: int = 0) -> str:
    """Return the name under which SSH knows a node; node 0 is the head."""
    return cluster if node == 0 else f"{cluster}-worker{node}"


def rsync(
    cluster: str,
    *arguments: str,
    attempts: int = ATTEMPTS,
    largest: int | None = None,
    limit_s: float | None = None,
) -> str:
    """Run rsync with a cluster's SSH settings; repeat it if the connection breaks.

    It has a session of its own, so Ctrl-C at the terminal does not reach it. Owners, devices, FIFOs
    and setuid bits are not copied.

    Args:
        cluster: its name.
        arguments: of rsync.
        attempts: number of attempts.
        largest: bytes of the largest file to write here; None for no limit.
        limit_s: longest time of an attempt; None for no limit.

    Returns:
        Its standard output.

    Raises:
        UnreachableError: the machine did not answer in time, in every attempt.
        CloudError: it failed otherwise, in every attempt.
        UsageError: the cluster does not exist.
    """
    if shutil.which("rsync") is None:
        raise UsageError("rsync is not installed here; apt install rsync")
    shell = shlex.join([*ssh_command(settings_of(cluster)), "-o", "ServerAliveInterval=10"])
    options = ("--recursive", "--links", "--times", "--partial", "--rsh", shell)
    command = (*_writing_at_most(largest), "rsync", *options, *arguments)
    for attempt in range(1, attempts + 1):
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
            try:
                status = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=complained,
                    check=False,
                    start_new_session=True,
                    timeout=limit_s,
                ).returncode
            except subprocess.TimeoutExpired as error:
                raise UnreachableError(
                    f"rsync with {cluster} took longer than {limit_s:.0f} s"
                ) from error
            if status == 0:
                return _text_of(said)
            tail = " ".join(_text_of(complained).split())[-300:]
        if attempt < attempts:
            time.sleep(PAUSE_S)
    problem = f"rsync with {cluster} failed (status {status}): {tail}"
    raise (UnreachableError if status in UNREACHABLE else CloudError)(problem)


def take(cluster: str, *arguments: str, attempts: int = ATTEMPTS, size_bytes: int = 0) -> str:
    """Run rsync from a machine whose words and files nobody trusts.

    Only regular files come, none larger than any file of a run; they are ours, and 0644. The
    machine may be slow, and may not stop for long.

    Args:
        cluster: its name.
        arguments: of rsync.
        attempts: how often it is tried.
        size_bytes: of all files together; it sets the longest time.

    Raises:
        UnreachableError: the machine did not answer, each time, or not in time.
        CloudError: it failed otherwise, each time.
        UsageError: there is no such cluster.
    """
    return rsync(
        cluster,
        *UNTRUSTED,
        *arguments,
        attempts=attempts,
        largest=LARGEST_FILE_BYTES,
        limit_s=min(LEAST_LIMIT_S + size_bytes / SLOWEST_BYTES_PER_S, MOST_LIMIT_S),
    )


def _writing_at_most(largest: int | None) -> tuple[str, ...]:
    """Return the beginning of a command that writes no file of more bytes; None for no limit."""
    blocks = "unlimited" if largest is None else largest // 512
    return ("sh", "-c", f'ulimit -f {blocks} && exec "$@"', "sh")


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def copy(source: str, target: str) -> None:
    """Copy files from a machine or to one.

    Args:
        source: ``CLUSTER:PATH``, or a path here.
        target: the other path.

    Raises:
        UsageError: not exactly one path is on a machine, or the cluster does not exist.
        CloudError: it failed.
    """
    there = [place.partition(":")[0] for place in (source, target) if ":" in place]
    if len(there) != 1:
        raise UsageError("give CLUSTER:PATH for one path, and a local path for the other")
    # A link of a machine must not lead out of the directory that it comes to.
    rsync(there[0], *(("--safe-links",) if ":" in source else ()), source, target)


def shell(cluster: str, command: Sequence[str], node: int = 0) -> int:
    """Open a shell on a node of a cluster, or run a command there; returns its exit status.

    Raises:
        UsageError: there is no such cluster or node, or no ssh here.
    """
    return subprocess.run(_ssh(cluster, command, node), check=False).returncode


def output_of(cluster: str, command: Sequence[str], node: int = 0) -> str:
    """Run a command on a node of a cluster and return what it says; empty where it fails.

    Raises:
        UsageError: there is no such cluster or node, or no ssh here.
    """
    limited = (*_writing_at_most(MOST_SAID_BYTES), *_ssh(cluster, command, node))
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                limited, check=False, stdin=subprocess.DEVNULL, stdout=said, timeout=ANSWER_S
            )
        except subprocess.TimeoutExpired:
            return ""
        return _text_of(said).strip() if done.returncode == 0 else ""


def _ssh(cluster: str, command: Sequence[str], node: int) -> list[str]:
    if shutil.which("ssh") is None:
        raise UsageError("ssh is not installed here; apt install openssh-client")
    settings = settings_of(cluster)
    name = host(cluster, node)
    if not re.search(rf"^Host {re.escape(name)}$", settings.read_text("utf-8"), re.MULTILINE):
        raise UsageError(f"--node {node}: {cluster} has fewer machines")
    return [*ssh_command(settings), name, *command]


def ssh_command(settings: Path) -> list[str]:
    """Return the start of an ssh command with SkyPilot's settings.

    SkyPilot may write the key's path with a ``~``. For SkyPilot that is ``HOME``, for ssh the home
    of the account, which may differ.
    """
    keys = re.findall(r"^\s*IdentityFile\s+(~/.*\S)", settings.read_text("utf-8"), re.MULTILINE)
    identities = [word for key in sorted(set(keys)) for word in ("-i", str(Path(key).expanduser()))]
    options = ("-o", f"ConnectTimeout={CONNECT_S}", "-o", "LogLevel=ERROR")
    return ["ssh", "-F", os.fspath(settings), *identities, *options]


def send_directory(cluster: str, nodes: int, directory: Path) -> None:
    """Copy the files of a directory to every node, into the home that SSH logs in to.

    Raises:
        CloudError: a node could not be reached.
    """
    options = ("--omit-dir-times", "--no-implied-dirs")
    files = sorted(os.fspath(path) for path in directory.iterdir())
    for node in range(nodes):
        rsync(cluster, *options, *files, f"{host(cluster, node)}:")


def send(cluster: str, nodes: int, file: Path, there: str) -> None:
    """Copy a file to every node of a cluster.

    Args:
        cluster: its name.
        nodes: how many it has.
        file: on this machine.
        there: its place below the home that SSH logs in to.

    Raises:
        CloudError: a node could not be reached.
    """
    for node in range(nodes):
        rsync(cluster, os.fspath(file), f"{host(cluster, node)}:{there}")


def send_source(cluster: str, nodes: int, directory: Path, submission: str) -> None:
    """Copy a directory of `skymark.cloud.source` to every node of a cluster.

    Args:
        cluster: its name.
        nodes: how many it has.
        directory: on this machine; all of it is copied.
        submission: its name; its directory is made.

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
