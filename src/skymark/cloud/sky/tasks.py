"""SkyPilot tasks: of an order, of slot workers and of a user's own, from their YAML."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skymark.cloud.machine_script import (
    LIMIT_VARIABLE,
    SPLIT_VARIABLE,
    START_S,
    arming,
    machine_variables,
    script,
    settings,
    taking_part,
)
from skymark.cloud.order import Order, UserJob, machine_file
from skymark.cloud.shared_jobs import Cards, SlotJob
from skymark.cloud.sky.catalogue import gpu_bytes
from skymark.cloud.sky.client import sdk, short
from skymark.cloud.sky.internals import yaml_of
from skymark.cloud.sky.providers import cloud_of
from skymark.cloud.source import (
    Source,
    beside_others,
    checked_copy,
    source_directory,
    source_of_job,
    source_with,
    within,
)
from skymark.execute.partition.split import Balanced
from skymark.model.errors import UsageError

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def read_task(
    path: Path,
    variables: Mapping[str, str] = NO_VARIABLES,
    secrets: Mapping[str, str] = NO_VARIABLES,
) -> Any:
    """Return the task that a YAML describes.

    A variable that the YAML declares among its secrets is given as a secret: SkyPilot lets those
    win, one that is declared empty too, and the variable would not arrive.

    Args:
        path: the YAML.
        variables: in place of the values that it has for them.
        secrets: the same, for what nobody is to read.

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


NOTHING = "echo set up, and nothing to run"
"""The run of a machine that is to stay idle."""


def make_task(order: Order) -> Any:
    """Return the SkyPilot task of an order: its set-up and its run as one job.

    Raises:
        UsageError: the YAML is wrong, or its machine is not to be had as ordered.
    """
    if order.infra is not None and cloud_of(order.infra) == "slurm" and order.num_nodes > 1:
        raise UsageError(
            "the nodes of a Slurm cluster share one home, where each would write the same run; "
            "leave out --num-nodes"
        )
    task = _machine_task(order)
    task.name = order.job or order.cluster
    run = NOTHING if order.idle else task.run
    if order.parts > 1:
        run = taking_part(run, order.part, order.parts)
    task.run = arm_timer(order) + script(task.setup, run)
    task.setup = None
    source = _source_for(task, order)
    task.workdir = None if source is None else os.fspath(source)
    _send_checked_mounts(task)
    task.num_nodes = order.num_nodes
    task.set_resources({_ordered(one, order) for one in _eligible(task.resources, order)})
    task.update_envs(machine_variables(order))
    return task


def make_run_task(order: Order, name: str, launched: Any) -> Any:
    """Return the task of another run on a live machine: no set-up, and no machine is chosen.

    Args:
        order: the run; the source of its submission is there already.
        name: the job's.
        launched: SkyPilot's resources of the machine.

    Raises:
        UsageError: the machine has not what the order's job takes of it.
    """
    task = _machine_task(order)
    task.name = name
    run = task.run if order.gpus is None else beside_others(task.run)
    if order.submission is not None and _needs_source(task, order):
        run = within(order.submission, run)
    task.run = arm_timer(order) + script(None, run)
    task.setup = task.workdir = None
    task.num_nodes = order.job_nodes or order.num_nodes
    accelerators = launched.accelerators if order.gpus is None else order.gpus
    task.set_resources(part_of(launched, accelerators))
    task.update_envs(machine_variables(order))
    return task


def source_of(order: Order) -> Path | None:
    """Return the directory that a machine gets with its jobs; None where it needs none."""
    return _source_for(_machine_task(order), order)


def part_of(launched: Any, accelerators: Any) -> Any:
    """Return resources of a job, which it takes of a machine that is there.

    Args:
        launched: SkyPilot's resources of the machine.
        accelerators: such as ``H100:0.5``; None for none.

    Raises:
        UsageError: the machine has not so many, or others.
    """
    with refused(f"--gpus {accelerators}"):
        part = sdk().Resources(accelerators=accelerators)
    there = {name.casefold(): count for name, count in (launched.accelerators or {}).items()}
    for name, count in (part.accelerators or {}).items():
        if count > there.get(name.casefold(), 0):
            has = ", ".join(f"{one}:{n:g}" for one, n in (launched.accelerators or {}).items())
            raise UsageError(f"--gpus {name}:{count:g}: the machine has {has or 'none'}")
    return part


def arm_timer(order: Order, start_s: int = START_S) -> str:
    """Return the script that arms a node's own timer, unless it has one."""
    end_program = Path(__file__).with_name("end_here.py").read_text("utf-8")
    return arming(settings(order.idle_minutes, keep=order.keep, start_s=start_s), end_program)


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


def _machine_task(order: Order) -> Any:
    """Return the task of an order's machine, as its YAML describes it."""
    path = machine_file(order.profile, order.machine, order.image)
    task = read_task(path, order.variables)
    with refused(f"{path}"):
        task.expand_and_validate_file_mounts()
    if not isinstance(task.run, str):
        raise UsageError(f"{path} has no run, which is what the machine is for")
    if order.sharing.kind != Balanced.kind and SPLIT_VARIABLE not in task.run:
        raise UsageError(
            f"the run of {path} does not read {SPLIT_VARIABLE}, so its machines would not share "
            f'the plan by --split {order.split}; give --split "${SPLIT_VARIABLE}" to skymark run '
            "there, as the YAMLs of benchmarks/sky do, or leave the option out"
        )
    return task


def _needs_source(task: Any, order: Order) -> bool:
    return task.workdir is not None or order.source is not None


def _source_for(task: Any, order: Order) -> Path | None:
    return (order.source or source_directory()) if _needs_source(task, order) else None


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


def _eligible(resources: Any, order: Order) -> list[Any]:
    """Return the alternatives of a machine that the ordered provider can be asked for."""
    listed = list(resources)
    if order.infra is None:
        return listed
    same = cloud_of(order.infra)
    found = [one for one in listed if one.cloud is None or str(one.cloud).casefold() == same]
    if not found:
        name = machine_file(order.profile, order.machine, order.image).name
        places = ", ".join(sorted({str(one.cloud).casefold() for one in listed}))
        raise UsageError(
            f"--infra {order.infra}: {name} describes a machine of {places}; give that, or "
            "another profile"
        )
    return found


def _ordered(resource: Any, order: Order) -> Any:
    changes: dict[str, Any] = {}
    if order.infra is not None:  # also where the YAML names the cloud already
        changes |= {"infra": order.infra, "cloud": None, "region": None, "zone": None}
    if order.spot:
        changes["use_spot"] = True
    if order.gpus is not None:
        changes["accelerators"] = order.gpus
    if order.image is not None:
        if not re.fullmatch(r"[^\s]+", order.image):
            raise UsageError(f"--image {order.image!r} is no image; give one such as skymark:cpu")
        changes["image_id"] = f"docker:{order.image.removeprefix('docker:')}"
    with refused("the ordered machine" if order.infra is None else f"--infra {order.infra}"):
        ordered = resource.copy(**changes)
    if order.infra is not None and ordered.cloud is None:
        raise UsageError(f"--infra {order.infra!r} names no provider; give one such as lambda")
    return ordered


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
"""Starts the workers and waits for all: one that ends badly stops no other."""


def make_slot_task(order: Order, job: SlotJob, name: str, launched: Any) -> Any:
    """Return the task of a job that starts slot workers of a run.

    Args:
        order: the run; the source of its submission is there already.
        job: how many workers, and what of the cards they have.
        name: the job's, which no other job of the run has.
        launched: SkyPilot's resources of the machine.

    Raises:
        UsageError: the machine has not what the job takes of it.
    """
    assert order.submission is not None, "slot workers run the source that is sent with them"
    run = within(order.submission, SLOTS)
    task = sdk().Task(name=name, run=arm_timer(order) + script(None, run), num_nodes=1)
    kind = next(iter(launched.accelerators or {}), None)
    task.set_resources(part_of(launched, None if kind is None else {kind: job.cards}))
    task.update_envs(
        {
            **order.variables,
            **machine_variables(order),
            "SKYMARK_PART": name,
            "SKYMARK_SLOTS": str(job.slots),
            "SKYMARK_GROUPS": "\n".join(job.groups),
            "SKYMARK_GPU_FRACTION": f"{job.fraction:g}",
        }
    )
    return task


def cards_of(launched: Any) -> Cards | None:
    """Return the accelerators of each machine of a cluster; None where it has none.

    Their memory is what the cloud's catalogue says; a cluster of one's own has no catalogue.
    """
    there = launched.accelerators or {}
    kind = next(iter(there), None)
    if kind is None:
        return None
    cloud = str(launched.cloud).casefold()
    return Cards(kind=kind, count=int(there[kind]), bytes_each=gpu_bytes(kind, cloud))


YAML_ENDINGS = (".yaml", ".yml")


def make_user_task(job: UserJob, launched: Any, submission: str) -> tuple[Any, Source | None]:
    """Return the task of a user's job, and the directory that is sent with it.

    A command runs in skymark's own source, a YAML in the files of its ``workdir``, unless the job
    has another one, and with the job's named files. They come into the directory of a submission;
    as with ``sky exec``, neither set-up nor file mounts are done again.

    Args:
        job: the command or YAML, and what is asked for it.
        launched: SkyPilot's resources of the machine.
        submission: of `skymark.cloud.source`.

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
