"""Directories of jobs: one each, named by the scheduler's id, removed at the job's end.

A job that crashed leaves its directory; the next one sweeps it away.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from skymark.cache.location import make_shared_folder, refusal, writable
from skymark.cache.sharing import CLAIMS
from skymark.leases import Lease, Leases, Tenant, this_machine
from skymark.model.errors import CacheError
from skymark.plain_files import write_whole

JOBS = "jobs"
"""Folder of the cache's root that the directories lie in."""
JOB_IDS = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID", "SKYPILOT_TASK_ID",
    "REPLICATED_JOB_NAME",
)  # fmt: skip
"""Variables of schedulers that hold a job's id; the first that is set counts."""
PARTS = (
    "JOB_INDEX", "JOB_COMPLETION_INDEX", "SLURM_STEP_ID", "SLURM_PROCID", "PBS_TASKNUM",
    "SGE_TASK_ID", "LSB_JOBINDEX", "SKYPILOT_NODE_RANK",
)  # fmt: skip
"""Variables that tell the processes of one job apart; all that are set count."""
COMMAND = "command.json"
"""File of a job's directory that tells its process."""
LONGEST_NAME = 100


def job_name(variables: Mapping[str, str]) -> str:
    """Return the name of a job from its scheduler's variables, such as ``4711-0``.

    Empty where no scheduler has set one.
    """
    id = next((variables[name] for name in JOB_IDS if variables.get(name)), "")
    if not id:
        return ""
    parts = [variables[name] for name in PARTS if variables.get(name)]
    return re.sub(r"[^A-Za-z0-9_-]", "_", "-".join([id, *parts]))[:LONGEST_NAME]


@contextmanager
def job_directory(
    root: Path, variables: Mapping[str, str], announce: Callable[[str], None]
) -> Iterator[Path]:
    """Make a directory for this job alone, and remove it at the end.

    Two processes of one job that nothing tells apart get one each.

    Raises:
        CacheError: it may not be made there.
    """
    folder = root / JOBS
    leases = Leases(folder / CLAIMS)
    try:
        make_shared_folder(folder)
        make_shared_folder(leases.directory)
        for name in sweep_jobs(root):
            announce(f"removed {folder / name}, which a dead job left")
        lease, directory = _claim(leases, folder, job_name(variables))
    except PermissionError as error:
        raise CacheError(refusal(folder / "job", error)) from error
    try:
        directory.mkdir()
        yield directory
    finally:
        _remove(directory)
        lease.release()


def note_command(directory: Path, pid: int) -> None:
    """Note the job's own process, which may outlive the process that made the directory."""
    with suppress(psutil.NoSuchProcess, OSError):  # it has ended already, or has all it needs
        write_whole(directory / COMMAND, Tenant.of(pid).model_dump_json().encode(), durable=False)


def sweep_jobs(root: Path) -> list[str]:
    """Remove the directories of dead jobs, and return their names."""
    folder = root / JOBS
    leases, swept = Leases(folder / CLAIMS), []
    for directory in sorted(folder.glob("[!.]*")):
        # Taken before it is removed: of two sweepers one does it, and no new job has the name.
        if not leases.is_abandoned(directory.name) or command_runs(directory):
            continue
        leases.forget(directory.name)
        if (lease := leases.take(directory.name)) is None:
            continue
        _remove(directory)
        lease.release()
        if not directory.exists():
            swept.append(directory.name)
    return swept


def command_runs(directory: Path) -> bool:
    """Whether a job's command still runs here although its waiting parent was killed."""
    tenant = Tenant.read(directory / COMMAND)
    return tenant is not None and tenant.machine == this_machine() and not tenant.is_gone


def _claim(leases: Leases, folder: Path, name: str) -> tuple[Lease, Path]:
    """Take the lease of an unused name, of which there is no directory."""
    chosen = name or f"here-{secrets.token_hex(4)}"
    while True:
        lease = leases.take(chosen)
        if lease is not None and not (folder / chosen).exists():
            return lease, folder / chosen
        if lease is not None:
            lease.release()
        chosen = f"{name or 'here'}-{secrets.token_hex(4)}"


def _remove(directory: Path) -> None:
    writable(directory)
    shutil.rmtree(directory, ignore_errors=True)
