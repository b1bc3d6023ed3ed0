"""Batch scripts for Slurm: a job, or an array with a task for each worker."""

from __future__ import annotations

import math
import re
import shlex

from skymark.cloud.render.slurm_body import BODY, CACHES, CHECK
from skymark.cloud.render.staggered import chained_starts, why_not
from skymark.cloud.render.workload import Workload
from skymark.execute.partition.totals import Request
from skymark.execute.ranks.slurm import WHOLE
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

TEMPLATE = """\
#!/bin/bash
@DIRECTIVES@

@BODY@
"""
"""What a site's own template has at least, with its modules and accounts between."""

GRACE_S = 120
"""Before the time limit, at which a task is told to store what it has and to queue up again."""
GRACE_SHARE = 4
"""Of a shorter limit it is this part."""

MIB_PER_GB = 1e9 / 2**20


class SlurmJob(Frozen):
    """The figures of a job that no workload has."""

    limit_s: int | None = None
    """Of each task; None for the partition's own."""
    gpus: str | None = None
    """Of each task, such as ``1`` or ``H100:1``."""
    results: str = "results"
    """Directory of runs that all nodes see, from where sbatch is called."""
    stagger_minutes: int | None = None
    """Between the starts of two tasks; None for all at once."""


def slurm_script(workload: Workload, job: SlurmJob, template: str | None = None) -> str:
    """Return the batch script of a workload.

    Args:
        workload: what the tasks share.
        job: time limit, GPUs, and where results go.
        template: a site's own, with ``@DIRECTIVES@`` and ``@BODY@`` on lines of their own.

    Raises:
        UsageError: the template lacks one of them, or has another; a worker would ask for a part of
            a CPU; or the profile needs GPUs and none are given.
    """
    if workload.platform == "tpu":
        raise UsageError(f"the profile {workload.profile} is for a TPU; use `skymark render sky`")
    if workload.platform == "gpu" and job.gpus is None:
        raise UsageError(
            f"the profile {workload.profile} is for a GPU; give --gpus, such as 1 or H100:1"
        )
    fields = {"DIRECTIVES": "\n".join(_directives(workload, job)), "BODY": _body(workload, job)}
    text = TEMPLATE if template is None else template
    found = re.findall(r"^@([A-Z]+)@$", text, re.MULTILINE)
    if sorted(found) != sorted(fields):
        raise UsageError(
            "--template must have the lines @DIRECTIVES@ and @BODY@, each once and alone, and no "
            f"other of the kind; it has {', '.join(f'@{one}@' for one in found) or 'none'}"
        )
    return re.sub(r"^@([A-Z]+)@$", lambda match: fields[match[1]], text, flags=re.MULTILINE)


def array_of(workload: Workload) -> str | None:
    """Return the array of a workload as ``sbatch --array`` takes it; None for a single job."""
    if workload.workers == 1:
        return None
    running = sum(one.running for one in workload.split.types)
    limit = f"%{running}" if running < workload.workers else ""
    return f"0-{workload.workers - 1}{limit}"


def submissions(workload: Workload) -> list[str]:
    """Return the arguments of sbatch for each type of workers, where several types differ."""
    lines, first = [], 0
    for one in workload.requests:
        last = first + one.type.count - 1
        array = f"{first}" if first == last else f"{first}-{last}"
        lines.append(" ".join((f"--array={array}", *_asked(one))))
        first = last + 1
    return lines


def _directives(workload: Workload, job: SlurmJob) -> list[str]:
    array = array_of(workload)
    several = len(workload.requests) > 1
    options = [
        f"--job-name=skymark-{re.sub(r'[^A-Za-z0-9_-]+', '-', workload.profile)}",
        "--output=%x-%A_%a.log" if array else "--output=%x-%j.log",
        "--open-mode=append",  # a task that queues up again goes on in its log
        "--requeue",
        f"--signal=B:USR1@{_grace_s(job.limit_s)}",
        "--ntasks=1",
    ]
    if array and not several:
        options.append(f"--array={array}")
    if job.limit_s is not None:
        options.append(f"--time={math.ceil(job.limit_s / 60)}")
    if not several:
        options += _asked(workload.requests[0])
    if workload.alone and workload.requests[0].cpus is None:
        options.append("--exclusive")  # else figures would tell of another job's load
    if job.gpus is not None:
        if not re.fullmatch(r"(?:[A-Za-z][\w-]*:)?[1-9][0-9]{0,2}", job.gpus, re.ASCII):
            raise UsageError(f"--gpus {job.gpus} are no GPUs of a task; give 1, or H100:1")
        options.append(f"--gres=gpu:{job.gpus}")
    return [f"#SBATCH {option}" for option in options]


def _asked(request: Request) -> list[str]:
    options = []
    if request.cpus is not None:
        if request.cpus != int(request.cpus):
            raise UsageError(
                f"a task of Slurm takes whole CPUs, and --split gives {request.type.name} "
                f"{request.cpus:g}; give whole numbers, or --total-cpus"
            )
        options.append(f"--cpus-per-task={int(request.cpus)}")
    if request.memory_gb is not None:
        options.append(f"--mem={math.floor(request.memory_gb * MIB_PER_GB)}M")
    return options


def _grace_s(limit_s: int | None) -> int:
    return GRACE_S if limit_s is None else max(1, min(GRACE_S, limit_s // GRACE_SHARE))


def _body(workload: Workload, job: SlurmJob) -> str:
    several = len(workload.requests) > 1
    array = array_of(workload)
    where = job.results if job.results.startswith("/") else f"./{job.results}"
    how = [
        f"# {workload.summary}",
        f"# When all have ended: skymark report {where}/{workload.run_id}",
        "# Nodes without a network: make the venvs where there is one, into a SKYMARK_CACHE that",
        f"# all nodes see: {workload.build_venvs}",
    ]
    if several:
        how += [
            "# Types of workers differ; submit each with what it asks for:",
            *(f"#   sbatch {line} THIS-FILE" for line in submissions(workload)),
        ]
    if job.stagger_minutes is not None:
        if several:
            raise UsageError(
                "--stagger chains tasks that ask for the same; of several types each is submitted "
                "as the comments of the script say"
            )
        chain = chained_starts(workload.workers, job.stagger_minutes)
        how += [f"# {line}" for line in why_not(workload.workers, job.stagger_minutes)]
        how += [f"#   {line}" for line in chain]
    variables = [] if array is None else [f"export {WHOLE}={array.partition('%')[0]}"]
    if array is not None:
        how.append("# A task that is submitted again, alone, takes its own part: --array=NUMBER.")
    return (
        "\n".join([*how, "", *variables, ""])
        + BODY.replace("@RESULTS@", shlex.quote(job.results))
        .replace("@RUN@", shlex.quote(workload.run_id))
        .replace("@CHECK@\n", f"{CHECK}\n" if several else "")
        .replace("@CACHES@\n", _caches(workload))
        .replace("@REMOVED@", '"$scratch" "$caches"' if _caches(workload) else '"$scratch"')
        .replace("@COMMAND@", _command(workload))
    ).rstrip("\n")


def _caches(workload: Workload) -> str:
    """Return the lines that make a directory for the caches of one job; none where none is named.

    Without one they lie in the job's scratch directory.
    """
    if not workload.has_job_caches or workload.cache_root is None:
        return ""
    return CACHES.replace("@ROOT@", shlex.quote(workload.cache_root))


def _command(workload: Workload) -> str:
    """Return the command of a task. The shell fills some words in; all others are quoted."""
    filled = {"@RUN@": '"$scratch/$run"', "@STORE@": '"file://$results"'}
    if workload.has_job_caches:
        named = workload.cache_root is not None
        filled["@CACHES@"] = '"$caches"' if named else '"$scratch/hf-datasets-$SLURM_JOB_ID"'
    caches = "@CACHES@" if workload.has_job_caches else None
    options = workload.options("@RUN@", [*workload.stores, "@STORE@"], caches)
    line = shlex.join(["skymark", "run", *options, "--resume"])
    for word, text in filled.items():
        line = line.replace(word, text)
    return line
