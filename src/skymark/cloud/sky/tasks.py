"""SkyPilot tasks of runs, made of a machine's YAML and a request."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skymark.cloud.machine_script import (
    INTERPRETERS,
    LIMIT_VARIABLE,
    SPLIT_VARIABLE,
    START_S,
    arming,
    beside_others,
    machine_variables,
    script,
    settings,
    taking_part,
    within,
)
from skymark.cloud.rented_run import RentedRun, machine_file
from skymark.cloud.sky.catalogue import accelerators_text, gpu_bytes
from skymark.cloud.sky.client import sdk, short
from skymark.cloud.sky.internals import (
    image_of,
    is_api_server_here,
    local_handle,
    run_on_nodes,
    yaml_of,
)
from skymark.cloud.sky.providers import cloud_of
from skymark.cloud.source import (
    SentSource,
    checked_copy,
    source_directory,
    source_of_job,
    source_with,
)
from skymark.execute.slots import Cards, SlotJob
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Machine

NOTHING = "echo set up, and nothing to run"
"""The run of a machine that is to stay idle."""
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def machine_task(
    path: Path,
    machine: Machine,
    split: str = "balanced",
    variables: Mapping[str, str] = NO_VARIABLES,
) -> Any:
    """Return the SkyPilot task of machines, as their YAML and the request describe them.

    Args:
        path: the YAML, of `machine_file`.
        machine: the request.
        split: the way the machines share a plan.
        variables: of the job's environment.

    Raises:
        UsageError: the YAML is wrong, or its machine is not to be had as requested.
    """
    if machine.infra is not None and cloud_of(machine.infra) == "slurm" and machine.nodes > 1:
        raise UsageError(
            "the nodes of a Slurm cluster share one home, where each would write the same run; "
            "leave out --num-nodes"
        )
    task = _task_of_yaml(path, split, variables)
    task.num_nodes = machine.nodes
    eligible = _eligible(list(task.resources), machine.infra, path.name)
    task.set_resources({_requested(resources, machine) for resources in eligible})
    return task


def make_task(run: RentedRun) -> Any:
    """Return the SkyPilot task of a run on new machines: its set-up and its run as one job.

    Raises:
        UsageError: the YAML is wrong, or its machine is not to be had as requested.
    """
    split = run.job.split or "balanced"
    path = machine_file(run.profile, run.machine.file, run.machine.image)
    task = machine_task(path, run.machine, split, run.job.variables)
    task.name = run.job.name or run.name
    script_of_run = NOTHING if run.machine.idle else task.run
    if run.job.all_gpus:
        part = run.job.gpu_fraction
        script_of_run = ON_ALL_GPUS + ("" if part is None else f' --gpu-fraction "{part:g}"')
    if run.parts > 1:
        script_of_run = taking_part(script_of_run, run.part, run.parts)
    task.run = arm_timer(run.idle_minutes, keep=run.machine.stays) + script(
        task.setup, script_of_run
    )
    task.setup = None
    source = _source_for(task, run.source)
    task.workdir = None if source is None else os.fspath(source)
    _send_checked_mounts(task)
    task.update_envs(machine_variables(run))
    return task


def make_run_task(run: RentedRun, name: str, launched: Any) -> Any:
    """Return the task of another run on a live machine: no set-up, and no machine is chosen.

    Args:
        run: the source of its submission is there already.
        name: the job's.
        launched: SkyPilot's resources of the machine.

    Raises:
        UsageError: the machine has not what the job takes of it.
    """
    task = _task_of_run(run)
    task.name = name
    script_of_run = task.run if run.job.gpus is None else beside_others(task.run)
    if run.submission is not None and _source_for(task, run.source) is not None:
        script_of_run = within(run.submission, script_of_run)
    timer = arm_timer(run.idle_minutes, keep=run.machine.stays)
    task.run = timer + script(None, script_of_run)
    task.setup = task.workdir = None
    task.num_nodes = run.job.nodes or run.machine.nodes
    accelerators = launched.accelerators if run.job.gpus is None else run.job.gpus
    task.set_resources(part_of(launched, accelerators))
    task.update_envs(machine_variables(run))
    return task


def source_of(run: RentedRun) -> Path | None:
    """Return the directory that a machine gets with a run; None where it needs none."""
    return _source_for(_task_of_run(run), run.source)


def part_of(launched: Any, accelerators: Any) -> Any:
    """Return a job's share of an existing machine's resources.

    Args:
        launched: SkyPilot's resources of the machine.
        accelerators: such as ``H100:0.5``; None without accelerators.

    Raises:
        UsageError: the machine has fewer or other accelerators.
    """
    with refused(f"--gpus {accelerators}"):
        part = sdk().Resources(accelerators=accelerators)
    there = {name.casefold(): count for name, count in (launched.accelerators or {}).items()}
    for name, count in (part.accelerators or {}).items():
        if count > there.get(name.casefold(), 0):
            has = accelerators_text(launched.accelerators) or "none"
            raise UsageError(f"--gpus {name}:{count:g}: the machine has {has}")
    return part


def arm_timer(idle_minutes: int, *, keep: bool, start_s: int = START_S) -> str:
    """Return the script that arms a node's own timer, unless it has one.

    Args:
        idle_minutes: without a job, after which the machine ends itself.
        keep: whether it is to stay for more runs.
        start_s: that the run may take to begin.
    """
    end_program = Path(__file__).with_name("end_here.py").read_text("utf-8")
    return arming(settings(idle_minutes, keep=keep, start_s=start_s), end_program)


def send_files(task: Any, files: Mapping[str, Path]) -> None:
    """Let SkyPilot copy files to a task's machines, by their place below the machine's home."""
    task.update_file_mounts({f"~/{there}": os.fspath(here) for there, here in files.items()})


def set_limits(task: Any, limit_s: int | None, highest_hourly_price_usd: float | None) -> None:
    """Limit a task in time and in price.

    Args:
        task: of `make_task` or `make_run_task`.
        limit_s: seconds that set-up and run may take together, kept by the machine itself.
        highest_hourly_price_usd: of one machine; SkyPilot takes none that is dearer.
    """
    task.update_envs({LIMIT_VARIABLE: str(limit_s or 0)})
    if highest_hourly_price_usd is not None:
        cap = {"max_hourly_cost": highest_hourly_price_usd}
        task.set_resources({one.copy(**cap) for one in task.resources})


def read_task(
    path: Path,
    variables: Mapping[str, str] = NO_VARIABLES,
    secrets: Mapping[str, str] = NO_VARIABLES,
) -> Any:
    """Return the task of a YAML.

    A variable in the YAML's secrets is passed as a secret. In SkyPilot secrets override variables,
    even if declared empty.

    Args:
        path: the YAML.
        variables: replace the YAML's values.
        secrets: replace the YAML's values, and are hidden.

    Raises:
        UsageError: it is wrong.
    """
    sky = sdk()  # where there is none, that is what is said
    with refused(f"{path}"):
        text = path.read_text("utf-8")
        config = yaml_of(text) or {}
        if not isinstance(config, dict):
            raise TypeError(f"it is {type(config).__name__}, and no mapping")
        declared = config.get("secrets")
        names = set(declared) if isinstance(declared, dict) else set()
        hidden = {name: value for name, value in variables.items() if name in names}
        shown = {name: value for name, value in variables.items() if name not in names}
        return sky.Task.from_yaml_config(
            {**config, "_user_specified_yaml": text},
            list(shown.items()),
            list({**hidden, **secrets}.items()),
        )


@contextmanager
def refused(subject: str) -> Iterator[None]:
    """Turn an error of SkyPilot's about a YAML or a place into bad usage: nothing was started.

    It reads them with several libraries, and their errors have no kind in common.
    """
    try:
        yield
    except Exception as error:
        raise UsageError(f"{subject}: {short(error)}") from error


def _task_of_run(run: RentedRun) -> Any:
    path = machine_file(run.profile, run.machine.file, run.machine.image)
    return _task_of_yaml(path, run.sharing.kind, run.job.variables)


def _task_of_yaml(path: Path, split: str, variables: Mapping[str, str]) -> Any:
    """Return the task that a machine's YAML describes."""
    task = read_task(path, variables)
    with refused(f"{path}"):
        task.expand_and_validate_file_mounts()
    if not isinstance(task.run, str):
        raise UsageError(f"{path} has no `run`; add the commands that the machine should execute")
    if not split.startswith("balanced") and SPLIT_VARIABLE not in task.run:
        raise UsageError(
            f"the run of {path} does not read {SPLIT_VARIABLE}, so its machines would not share "
            f'the plan by --split {split}; give --split "${SPLIT_VARIABLE}" to skymark run '
            "there, as the YAMLs of benchmarks/sky do"
        )
    return task


def _source_for(task: Any, source: Path | None) -> Path | None:
    if task.workdir is None and source is None:
        return None
    return source or source_directory()


def _send_checked_mounts(task: Any) -> None:
    """Send copies of the files that a YAML mounts; what goes to a bucket is checked alone.

    Raises:
        UsageError: one holds a secret.
    """
    for storage in (task.storage_mounts or {}).values():
        sources = storage.source if isinstance(storage.source, list) else [storage.source]
        for one in sources:
            if one is not None and "://" not in one:
                checked_copy(Path(one).expanduser().absolute())
    for there, here in (task.file_mounts or {}).items():
        if "://" not in here:
            task.file_mounts[there] = os.fspath(checked_copy(Path(here).expanduser().absolute()))


def _eligible(listed: list[Any], infra: str | None, yaml: str) -> list[Any]:
    """Return the alternatives of a machine that the requested provider can be asked for."""
    if infra is None:
        return listed
    wanted = cloud_of(infra)
    eligible = [
        resources
        for resources in listed
        if resources.cloud is None or str(resources.cloud).casefold() == wanted
    ]
    if not eligible:
        places = ", ".join(sorted({str(resources.cloud).casefold() for resources in listed}))
        raise UsageError(
            f"--infra {infra}: {yaml} describes a machine of {places}; give that, or another "
            "profile"
        )
    return eligible


def _requested(resources: Any, machine: Machine) -> Any:
    changes: dict[str, Any] = {}
    if machine.infra is not None:  # also where the YAML names the cloud already
        changes |= {"infra": machine.infra, "cloud": None, "region": None, "zone": None}
    if machine.spot:
        changes["use_spot"] = True
    if machine.gpus is not None:
        changes["accelerators"] = machine.gpus
    if machine.disk_gb is not None:
        changes["disk_size"] = machine.disk_gb
    if machine.image is not None:
        changes["image_id"] = f"docker:{machine.image.removeprefix('docker:')}"
    where = "the requested machine" if machine.infra is None else f"--infra {machine.infra}"
    with refused(where):
        requested = resources.copy(**changes)
    if machine.infra is not None and requested.cloud is None:
        raise UsageError(f"--infra {machine.infra!r} names no provider; give one such as lambda")
    return requested


POLL_S = 3.0


@contextmanager
def early_timers(cluster: str, idle_minutes: int, machine: Machine) -> Iterator[None]:
    """Arm each node's timer as soon as it answers over SSH, in a thread, within the context.

    It needs SkyPilot's API server on this machine for the addresses. For a container, only the job
    arms the timer: the host's timer would not see the run.

    Args:
        cluster: its name with SkyPilot.
        idle_minutes: minutes without a job after which it ends itself.
        machine: its boot time is the time limit for the run's start.
    """
    over = threading.Event()
    if is_api_server_here():
        script = arm_timer(idle_minutes, keep=machine.stays, start_s=machine.boot_timeout_s)
        threading.Thread(target=_arm, args=(cluster, script, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _arm(cluster: str, script: str, over: threading.Event) -> None:
    armed: set[str] = set()
    while not over.wait(POLL_S):
        try:
            handle = local_handle(cluster)
            if handle is None:
                continue
            if image_of(handle) or run_on_nodes(handle, script, armed):
                return
        except Exception:  # noqa: S112  # no launch fails because a timer comes later
            continue


ON_ALL_GPUS = f"""\
export PATH="{":".join(INTERPRETERS)}:$PATH"
ln -sfn "$SKYMARK_RUN_ID" ~/results/latest
set -- --plan "$SKYMARK_PLAN" --slots all --output ~/results/"$SKYMARK_RUN_ID"
while read -r store; do set -- "$@" ${{store:+--store "$store"}}; done <<< "$SKYMARK_STORES"
exec skymark run "$@"\
"""
"""Run of a machine whose GPUs all work for one plan; further options may follow."""

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


def make_user_task(job: Job, launched: Any, submission: str) -> tuple[Any, SentSource | None]:
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
    source: SentSource | None = None
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
