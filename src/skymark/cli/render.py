"""`skymark render`: job files for Slurm, JobSet, AIchor and SkyPilot."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from skymark.cli.caller import note, print_plain
from skymark.cli.help import RARE
from skymark.cli.options import plan_of_file
from skymark.cli.parameters import COUNT, NAME, ProfileName
from skymark.cli.render_options import (
    FILE,
    Deadline,
    Image,
    OutputFile,
    RemoteStores,
    RunId,
    SharedMemory,
    SharingOptions,
    Template,
    shared_work,
)
from skymark.cli.rented_options import (
    DEFAULT_CLUSTER,
    DEFAULT_OPTIONS,
    ClusterOptions,
    CostOptions,
    Sync,
)
from skymark.execute.planner import load_profile, write_plan
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skymark.cloud.render.workload import Workload

render = App(name="render", help="""Write job files for Slurm, JobSet, AIchor or SkyPilot.""")

DEFAULT_SHARING = SharingOptions()


@render.command
def slurm(
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    sharing: SharingOptions = DEFAULT_SHARING,
    *,
    results: Annotated[
        str,
        Parameter(
            group=FILE,
            metavar="DIRECTORY",
            help="Directory of runs that all nodes see; the script expands variables such as "
            "'$USER'.",
        ),
    ] = "results",
    gpus: Annotated[
        str | None,
        Parameter(group=FILE, metavar="GPU:N", help="GPUs of each task, such as 1 or H100:1."),
    ] = None,
    deadline: Deadline = None,
    template: Annotated[
        Path | None,
        Parameter(
            group=(FILE, RARE),
            metavar="FILE",
            help="Your site's script with its modules and accounts, and lines with only "
            "@DIRECTIVES@ and @BODY@.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        Parameter(
            group=FILE,
            metavar="FILE",
            help="A file of `skymark plan --output` that all nodes see, in place of the options "
            "for the work.",
        ),
    ] = None,
    stagger: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=(FILE, RARE),
            metavar="MINUTES",
            help="Minutes between the starts of two tasks. The script's comments have the commands "
            "for it, and the reason why --cache-policy shared is better.",
        ),
    ] = None,
    output: OutputFile = None,
) -> int:
    """Write a batch script for Slurm: one job, or with --split an array of tasks.

    Near the time limit or after a node's failure, a task queues up again and continues. Submit
    the script with sbatch, from a shell that finds `skymark`.

    Examples:
      skymark render slurm cpu --output job.sh
      skymark render slurm clip_8xh100 --gpus H100:1 --split balanced:8
    """
    from skymark.cloud.render.slurm import SlurmJob, array_need, largest_array, slurm_script
    from skymark.cloud.rented_run import require_time_before

    chosen = dataclasses.replace(options, profile=profile)
    if plan is None:
        made, words = chosen.plan(), chosen.words()
    else:
        made, words = plan_of_file(plan, options.given()), ("--plan", str(plan.absolute()))
    work = sharing.workload(profile, made, words)
    limit_s = _deadline_s(profile, deadline)
    require_time_before(made, limit_s)
    largest = largest_array()
    job = SlurmJob(
        limit_s=limit_s,
        gpus=gpus,
        results=results,
        stagger_minutes=stagger,
        largest_array=largest,
    )
    text = slurm_script(work, job, _template(template))
    notes = [*work.notes, *array_need(work.workers, largest), *_idle_gpus(gpus)]
    _write(text, output, "sbatch FILE", notes)
    return 0


@render.command
def jobset(  # noqa: PLR0913  # its parameters are the options of a command
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    sharing: SharingOptions = DEFAULT_SHARING,
    *,
    image: Image,
    name: Annotated[
        str | None,
        NAME,
        Parameter(group=FILE, help="The JobSet's name. [default: skymark-PROFILE]"),
    ] = None,
    gpus: Annotated[
        int,
        Parameter(
            group=FILE, metavar="N", validator=Number(gte=0, lte=64), help="GPUs of each pod."
        ),
    ] = 0,
    shared_memory: SharedMemory = None,
    deadline: Deadline = None,
    env_secret: Annotated[
        str | None,
        Parameter(
            group=FILE,
            metavar="NAME",
            help="Secret of the namespace, whose keys become variables, such as a store's keys.",
        ),
    ] = None,
    share_nodes: Annotated[
        bool,
        Parameter(
            group=(FILE, RARE),
            help="Let pods share a node, even if the suite's cells need a machine alone.",
        ),
    ] = False,
    template: Template = None,
    output: OutputFile = None,
) -> int:
    """Write a JobSet for Kubernetes (jobset.x-k8s.io/v1alpha2) whose pods share the plan.

    Examples:
      skymark render jobset cpu --image IMAGE --split even:4 --output job.yaml
      skymark render jobset clip_8xh100 --image IMAGE --gpus 1 --split balanced:8
    """
    from skymark.cloud.render.kubernetes import JobSetFields, jobset_manifest, name_of_set
    from skymark.cloud.render.workload import read_template, shared_memory_gb, yaml_text

    work, limit_s, processes = _of_pods(profile, options, sharing, deadline)
    if work.platform == "gpu" and not gpus:
        raise UsageError(f"the profile {profile} is for a GPU; give --gpus 1")
    fields = JobSetFields(
        name=name_of_set(name, profile, work.split),
        image=image,
        shared_memory_gb=shared_memory_gb(work.requests, shared_memory, processes),
        limit_s=limit_s,
        gpus=gpus,
        secret=env_secret,
        spread=work.alone and not share_nodes,
    )
    manifest = jobset_manifest(work, fields, read_template(template) if template else {})
    text = yaml_text(manifest, work.summary_of_pods)
    _write(text, output, "kubectl create -f FILE", [*work.notes, *_idle_gpus(str(gpus))])
    return 0


@render.command
def aichor(  # noqa: PLR0913  # its parameters are the options of a command
    profile: ProfileName | None = None,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    sharing: SharingOptions = DEFAULT_SHARING,
    *,
    scenario: Annotated[
        Literal[1, 2, 3, 4] | None,
        Parameter(
            group=FILE,
            help="1: equal workers, 2: types of workers, 3: workers with parts, 4: with parts in "
            "waves. --split replaces their usual even:10, "
            "weighted:worker-heavy=1x60,worker=7x20, two-level:5x10 and waves:5x10/4.",
        ),
    ] = None,
    image: Annotated[
        str, Parameter(group=FILE, metavar="NAME", help="Name of the image that AIchor builds.")
    ] = ("skymark"),
    dockerfile: Annotated[
        str | None,
        Parameter(
            group=(FILE, RARE),
            metavar="FILE",
            help="Dockerfile of the image. [default: skymark's; with --command: ./Dockerfile]",
        ),
    ] = None,
    command: Annotated[
        str | None,
        Parameter(
            group=FILE,
            metavar="COMMAND",
            help="Program of yours that all workers run, in place of a profile; "
            "docs/splitting.md shows how it learns its part.",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        Parameter(group=FILE, metavar="GPU:N", help="GPUs of each pod: NVIDIA-H100-80GB-HBM3:1."),
    ] = None,
    shared_memory: SharedMemory = None,
    deadline: Deadline = None,
    api_version: Annotated[
        Literal["0.2.3", "0.2.1"],
        Parameter(
            group=(FILE, RARE),
            help="Version of the manifest; 0.2.1 has ramRatio for memory, and no timeout.",
        ),
    ] = "0.2.3",
    template: Template = None,
    output: OutputFile = None,
) -> int:
    """Write a manifest for AIchor whose workers share the plan, or run a program of yours.

    Examples:
      skymark render aichor cpu --split even:4 --output manifest.yaml
      skymark render aichor --scenario 2 --command "python -u main.py"
    """
    from skymark.cloud.render.kubernetes import (
        AichorFields,
        aichor_manifest,
        command_of,
        next_step,
        split_of_scenario,
    )
    from skymark.cloud.render.workload import (
        read_template,
        require_cpus,
        shared_memory_gb,
        yaml_text,
    )
    from skymark.execute.partition.shard import requests_of

    split = split_of_scenario(scenario, sharing.split)
    requests = requests_of(split, sharing.total_cpus, sharing.total_memory)
    if profile is not None and command is None:
        sharing = dataclasses.replace(sharing, split=split.text)
        work, limit_s, processes = _of_pods(profile, options, sharing, deadline)
        if work.platform == "gpu" and gpus is None:
            raise UsageError(
                f"the profile {profile} is for a GPU; give --gpus, such as NVIDIA-H100-80GB-HBM3:1"
            )
        command, comments = command_of(work), work.summary_of_pods
        notes = [*work.notes, *_idle_gpus(gpus)]
        dockerfile = dockerfile or f"./benchmarks/docker/Dockerfile.{work.platform}"
    elif profile is None and command is not None:
        sharing.require_split_alone(options)
        require_cpus(requests)
        limit_s, processes = None if deadline is None else seconds_of(deadline), False
        comments, notes = [f"{len(split.places)} workers: {split.text}"], []
    else:
        raise UsageError("give a PROFILE, or a --command of your own in place of it")
    fields = AichorFields(
        image=image,
        dockerfile=dockerfile or "./Dockerfile",
        command=command,
        shared_memory_gb=shared_memory_gb(requests, shared_memory, processes),
        api_version=api_version,
        limit_s=limit_s,
        gpus=gpus,
    )
    site = read_template(template) if template else {}
    text = yaml_text(aichor_manifest(split, requests, fields, site), comments)
    _write(text, output, "" if output is None else next_step(api_version, output), notes)
    return 0


@render.command
def sky(  # its parameters are the options of a command
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    *,
    where: ClusterOptions = DEFAULT_CLUSTER,
    store: RemoteStores = (),
    deadline: Deadline = None,
    run_id: RunId = None,
    sync: Sync = (),
    output: Annotated[
        Path,
        Parameter(
            group=FILE, metavar="FILE", help="File of the YAML; the plan's file lies beside it."
        ),
    ],
) -> int:
    """Write the SkyPilot YAML that `launch` would use, with the plan beside it.

    Needs SkyPilot: make cloud, or skymark env cloud.

    Examples:
      skymark render sky cpu --output job.yaml
      skymark render sky clip_8xh100 --num-nodes 2 --output job.yaml
    """
    from skymark.cli.terminal import Terminal
    from skymark.cloud.render.workload import run_named, sky_text
    from skymark.cloud.rented_run import (
        RentedRun,
        cluster_name,
        require_time_before,
        split_of_machines,
    )
    from skymark.cloud.source import source_for

    plan = dataclasses.replace(options, profile=profile).plan()
    limits = Limits(deadline_s=_deadline_s(profile, deadline))
    require_time_before(plan, limits.deadline_s)
    notes = shared_work(plan, split_of_machines(where.split, where.num_nodes))
    source = source_for([plan], sync)
    Terminal().sends(source)
    run = RentedRun(
        name=cluster_name(profile),
        run_id=run_named(run_id, profile),
        profile=profile,
        plan_hash=plan.hash,
        machine=where.request(),
        limits=limits,
        job=Job(split=where.split),
        stores=store,
        source=source.directory,
    )
    beside = output.with_suffix(".plan.json")
    write_plan(plan, beside)  # SkyPilot refuses a file that is not there
    _write(sky_text(run, plan, beside), output, "sky launch FILE --down", notes)
    return 0


def _of_pods(
    profile: str, options: CostOptions, sharing: SharingOptions, deadline: str | None
) -> tuple[Workload, int | None, bool]:
    """Return the work of pods, their time limit, and whether loaders have worker processes.

    Raises:
        UsageError: an option is wrong, or containers of skymark's images could not do the work.
    """
    from skymark.cloud.render.workload import require_fit_for_containers
    from skymark.cloud.rented_run import require_time_before

    chosen = dataclasses.replace(options, profile=profile)
    plan = chosen.plan()
    if plan.platform == "tpu":
        raise UsageError(f"the profile {profile} is for a TPU; use `skymark render sky`")
    limit_s = _deadline_s(profile, deadline)
    require_time_before(plan, limit_s)
    work = sharing.workload(profile, plan, chosen.words(), limit_s)
    require_fit_for_containers(work, plan)
    return work, limit_s, bool(plan.settings.get("workers", 0))


def _deadline_s(profile: str, deadline: str | None) -> int | None:
    """Return the longest time of a job: the one given, else the profile's."""
    from skymark.cloud.rented_run import limits_of

    given = Limits(deadline_s=None if deadline is None else seconds_of(deadline))
    return limits_of(load_profile(profile), given).deadline_s


def _idle_gpus(gpus: str | None) -> list[str]:
    """Return the sentence on a worker's GPUs that no cell uses; none where it has one or none."""
    count = int((gpus or "0").rpartition(":")[2])
    use = "a cell uses one unless its scenario has several ranks"
    more = f"{count} times as many workers with one GPU each leave none idle"
    return [f"each worker has {count} GPUs, and {use}; {more}"] if count > 1 else []


def _template(path: Path | None) -> str | None:
    if path is None:
        return None
    from skymark.plain_files import read_named

    data = read_named(path, "name your site's script with --template")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--template {path}: {error}; name a file that can be read") from error


def _write(text: str, output: Path | None, next_step: str, notes: Sequence[str]) -> None:
    from skymark.plain_files import named_by_user, write_whole

    for sentence in notes:
        note(sentence)
    if output is None:
        print_plain(text.rstrip("\n"))
        return
    with named_by_user(output):
        write_whole(output, text.encode())
    note(f"written to {output}; next: {next_step.replace('FILE', str(output))}")
