"""SkyPilot tasks of jobs in the queue of a machine that is there: slot workers, and users' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skymark.cloud.machine_script import machine_variables, script, within
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.catalogue import gpu_bytes
from skymark.cloud.sky.client import sdk
from skymark.cloud.sky.tasks import arm_timer, part_of, read_task, refused
from skymark.cloud.slots import Cards, SlotJob
from skymark.cloud.source import Source, source_of_job, source_with
from skymark.model.errors import UsageError
from skymark.model.requests import Job

SLOTS = """\
set -- --plan "$SKYMARK_PLAN" --share --output ~/results/"$SKYMARK_RUN_ID"
while read -r store; do set -- "$@" ${store:+--store "$store"}; done <<< "$SKYMARK_STORES"
while read -r group; do set -- "$@" ${group:+--group "$group"}; done <<< "$SKYMARK_GROUPS"
ln -sfn "$SKYMARK_RUN_ID" ~/results/latest
workers=()
trap 'kill -TERM "${workers[@]}"' TERM
for slot in $(seq "$SKYMARK_SLOTS"); do
  skymark run "$@" > >(sed --unbuffered "s/^/slot $slot: /") 2>&1 &
  workers+=("$!")
done
status=0
for worker in "${workers[@]}"; do
  while kill -0 "$worker" 2>/dev/null; do wait "$worker" || status=$?; done
done
exit "$status"
"""
"""Script that starts the workers and waits for all; a failed worker stops no other."""


def make_slot_task(run: RentedRun, job: SlotJob, name: str, launched: Any) -> Any:
    """Return the task of a job that starts slot workers of a run.

    Args:
        run: the source of its submission is there already.
        job: how many workers, and what of the cards they have.
        name: the job's, which no other job of the run has.
        launched: SkyPilot's resources of the machine.

    Raises:
        UsageError: the machine has not what the job takes of it.
    """
    assert run.submission is not None, "slot workers run the source that is sent with them"
    workers = script(None, within(run.submission, SLOTS))
    timer = arm_timer(run.idle_minutes, keep=run.machine.stays)
    task = sdk().Task(name=name, run=timer + workers, num_nodes=1)
    kind = next(iter(launched.accelerators or {}), None)
    task.set_resources(part_of(launched, None if kind is None else {kind: job.cards}))
    task.update_envs(
        {
            **run.job.variables,
            **machine_variables(run),
            "SKYMARK_PART": name,
            "SKYMARK_SLOTS": str(job.slots),
            "SKYMARK_GROUPS": "\n".join(job.groups),
            "SKYMARK_GPU_FRACTION": f"{job.fraction:g}",
        }
    )
    return task


def cards_of(launched: Any) -> Cards | None:
    """Return the accelerators of each machine of a cluster; None without accelerators.

    Their memory comes from the cloud's catalogue; a user's own cluster has no catalogue.
    """
    there = launched.accelerators or {}
    kind = next(iter(there), None)
    if kind is None:
        return None
    cloud = str(launched.cloud).casefold()
    return Cards(kind=kind, count=int(there[kind]), bytes_each=gpu_bytes(kind, cloud))


def make_user_task(job: Job, launched: Any, submission: str) -> tuple[Any, Source | None]:
    """Return the task of a user's job, and the directory to send with it.

    By default a command runs in skymark's own source, and a YAML in the files of its ``workdir``,
    each with the job's named files. They go into the directory of a submission. As with ``sky
    exec``, set-up and file mounts are not repeated.

    Args:
        job: the command or YAML, with its resources.
        launched: SkyPilot's resources of the machine.
        submission: of `skymark.cloud.submissions`.

    Raises:
        UsageError: the YAML is wrong, a file may not be sent, or the machine lacks resources for
            the job.
    """
    yaml = job.is_yaml
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
    if job.nodes is not None:
        task.num_nodes = job.nodes
    if job.gpus is not None:
        part_of(launched, job.gpus)
        with refused(f"--gpus {job.gpus}"):
            task.set_resources({one.copy(accelerators=job.gpus) for one in task.resources})
    return task, source


def _of_command(job: Job) -> Any:
    task = sdk().Task(name=job.name, run=" ".join(job.words))  # as `sky exec` joins them
    task.update_envs(dict(job.variables))
    task.update_secrets(dict(job.secrets))
    return task


def _of_yaml(job: Job) -> Any:
    path = Path(job.words[0])
    if not path.is_file():
        raise UsageError(f"{path} is no file; give a SkyPilot YAML, or a command after --")
    return read_task(path, job.variables, job.secrets)
