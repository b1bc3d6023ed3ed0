"""SkyPilot tasks of a user's own: a YAML, or a command, as a job on a machine that is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skymark.cloud.sky.client import sdk
from skymark.cloud.sky.task_files import read_task, refused
from skymark.cloud.sky.tasks import part_of
from skymark.cloud.source import Source, source_of_job, source_with
from skymark.cloud.submission import within
from skymark.cloud.user_job import UserJob
from skymark.model.errors import UsageError

YAML_ENDINGS = (".yaml", ".yml")


def make_user_task(job: UserJob, launched: Any, submission: str) -> tuple[Any, Source | None]:
    """Return the task of a user's job, and the directory that is sent with it.

    A command runs in skymark's own source, a YAML in the files of its ``workdir``, unless the job
    has another one, and with the job's named files. They come into the directory of a submission;
    as with ``sky exec``, neither set-up nor file mounts are done again.

    Args:
        job: the command or YAML, and what is asked for it.
        launched: SkyPilot's resources of the machine.
        submission: of `skymark.cloud.submission`.

    Raises:
        UsageError: the YAML is wrong, a file may not be sent, or the machine has not what the job
            takes of it.
    """
    yaml = is_yaml(job.words)
    task = _of_yaml(job) if yaml else _of_command(job)
    directory: str | Path | None = job.workdir or task.workdir
    source: Source | None = None
    if isinstance(directory, str | Path):  # else from git, which SkyPilot fetches itself
        task.workdir, place = None, Path(directory).expanduser().absolute()
        if not place.is_dir():
            raise UsageError(f"the workdir {place} is no directory")
        source = source_of_job(place, job.files)
    elif not yaml:
        source = source_with(job.files)
    elif job.files:
        source = source_of_job(None, job.files)
    if source is not None:
        task.run = within(submission, task.run or "")
    if job.name is not None:
        task.name = job.name
    if job.num_nodes is not None:
        task.num_nodes = job.num_nodes
    if job.gpus is not None:
        part_of(launched, job.gpus)
        with refused(f"--gpus {job.gpus}"):
            task.set_resources({one.copy(accelerators=job.gpus) for one in task.resources})
    return task, source


def is_yaml(words: Sequence[str]) -> bool:
    """Whether a job is given by a YAML, and not by a command."""
    return len(words) == 1 and words[0].endswith(YAML_ENDINGS)


def _of_command(job: UserJob) -> Any:
    task = sdk().Task(name=job.name, run=" ".join(job.words))  # as `sky exec` joins them
    task.update_envs(dict(job.variables))
    task.update_secrets(dict(job.secrets))
    return task


def _of_yaml(job: UserJob) -> Any:
    path = Path(job.words[0])
    if not path.is_file():
        raise UsageError(f"{path} is no file; give a SkyPilot YAML, or a command after --")
    return read_task(path, job.variables, job.secrets)
