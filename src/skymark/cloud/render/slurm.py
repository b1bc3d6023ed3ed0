"""Batch scripts for Slurm: a job, or an array with a task for each worker."""

from __future__ import annotations

import math
import re
import shlex
import subprocess

from skymark.cloud.render.workload import Workload, comment
from skymark.cloud.rented_run import cluster_name
from skymark.execute.partition.shard import ResourceRequest
from skymark.execute.rank import WHOLE
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

TEMPLATE = """\
#!/bin/bash
@DIRECTIVES@

@BODY@
"""
"""Required parts of a site's own template, with its modules and accounts in between."""

GRACE_S = 120
"""Time before the limit at which a task gets the signal to store its results and requeue."""
GRACE_SHARE = 4
"""Of a shorter limit it is this part."""

MIB_PER_GB = 1e9 / 2**20

PLAIN_READS = "3.78"
SHARED_READS = "1.00"
"""How often 16 jobs read their tar shards, staggered and shared (docs/reference/caches.md,
made by ``nox -s cache_table``)."""

LONGEST_NAME = 63
"""Name of a job, the first part of its log's name."""

USUAL_ARRAY = 1001
"""Slurm's MaxArraySize unless a site sets another: numbers of tasks are below it."""

BODY = r"""set -euo pipefail
say() { echo "skymark job: $*" >&2; }
@CHECK@command -v skymark >/dev/null || {
  say "no skymark on PATH; activate its venv before sbatch, or in your --template"
  exit 2
}

# What is measured lies on the node's own disk, and goes to the directory of all nodes cell by cell:
# a task that begins again, on any node, goes on from there.
job=${SLURM_JOB_ID:-$$}  # without sbatch it runs here
run=@RUN@
results=@RESULTS@
case $results in /*) ;; *) results=${SLURM_SUBMIT_DIR:-$PWD}/$results ;; esac
mkdir -p "$results"
store=${results//%/%25} store=${store// /%20} store=${store//\?/%3F}
store=file://${store//\#/%23}
most_restarts=${SKYMARK_MOST_RESTARTS:-20}  # a limit shorter than one round would go on for ever
@CACHES@scratch=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/skymark-$job.XXXXXX")
@OWN@worker=""
told=""
again=""

# shellcheck disable=SC2317,SC2329  # traps call these
clean_up() { rm -rf @REMOVED@; }
trap clean_up EXIT
# shellcheck disable=SC2317,SC2329
end_worker() {
  told=yes
  [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null || true
}
trap 'again=yes; end_worker' USR1  # the time limit is near
trap end_worker TERM INT           # cancelled, preempted, or the node is shut down

@COMMAND@ &
worker=$!
[ -z "$told" ] || end_worker  # told before it was known whom to tell
while kill -0 "$worker" 2>/dev/null; do wait "$worker" || true; done
status=0
wait "$worker" || status=$?

restarts=${SLURM_RESTART_COUNT:-0}
if [ -n "$again" ] && [ "$status" -ne 0 ] && [ "$restarts" -lt "$most_restarts" ]; then
  task=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
  say "the time limit is near; what is measured is in $results/$run, and the task queues up again"
  clean_up
  scontrol requeue "${task:-$job}"
elif [ -n "$told" ] && [ "$status" -ne 0 ]; then
  say "told to end; what is measured is in $results/$run, and the same script goes on from there"
fi
exit "$status"
"""
"""Between ``@``, the parts of one job."""

CHECK = """\
[ -n "${{SLURM_ARRAY_TASK_ID:-}}" ] || {{
  say "this script is an array of {workers} tasks; submit it with sbatch as its comments say,"
  say "or run one task here: SLURM_ARRAY_TASK_ID=0 bash $0"
  exit 2
}}
"""
"""Of a script with several tasks."""

CACHES = """\
caches=@ROOT@/hf-datasets-$job
mkdir -p @ROOT@
rm -rf "$caches"  # left where a node failed, and the job began again
mkdir -m 700 "$caches"
"""
"""Of a script whose job has caches of its own below a directory that its site names."""

OWN_CACHES = """\
if [ -z "${SKYMARK_CACHE_POLICY:-}" ]; then  # jobs do not write each other's caches
  export SKYMARK_CACHE_POLICY=per-job SKYMARK_CACHE_ROOT="${SKYMARK_CACHE_ROOT:-$scratch}"
fi
"""
"""Of a script that was rendered without a cache policy."""


class SlurmJob(Frozen):
    """The figures of a job that no workload has."""

    limit_s: int | None = None
    """Of each task; None for the partition's own."""
    gpus: str | None = None
    """GPUs of each task, such as ``1`` or ``H100:1``."""
    results: str = "results"
    """Directory of runs that all nodes see, from where sbatch is called."""
    stagger_minutes: int | None = None
    """Between the starts of two tasks; None for all at once."""
    largest_array: int | None = None
    """Slurm's MaxArraySize; None where it is not known."""


def slurm_script(workload: Workload, job: SlurmJob, template: str | None = None) -> str:
    """Return the batch script of a workload.

    Args:
        workload: the plan that the tasks share.
        job: time limit, GPUs, and stores of results.
        template: a site's own, with ``@DIRECTIVES@`` and ``@BODY@`` on lines of their own.

    Raises:
        UsageError: the template lacks a marker or has an unknown one, a worker would need part of a
            CPU, the profile needs GPUs and none are given, or a name has a line break.
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


def largest_array() -> int | None:
    """Return the MaxArraySize of the Slurm of this machine; None where none answers."""
    try:
        asked = subprocess.run(
            ["scontrol", "show", "config"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)$", asked.stdout, re.MULTILINE)
    return int(found[1]) if found else None


def array_need(tasks: int, largest: int | None) -> list[str]:
    """Return the sentence on an array that not every Slurm takes; none for others.

    Raises:
        UsageError: the Slurm of this machine does not take it.
    """
    if largest is not None and tasks > largest:
        raise UsageError(
            f"the array would have {tasks:,} tasks, and Slurm takes {largest:,} here (MaxArraySize "
            f"of scontrol show config); give a --split of {largest:,} workers at most"
        )
    if largest is not None or tasks <= USUAL_ARRAY:
        return []
    return [f"{tasks:,} tasks need a MaxArraySize of {tasks:,}; Slurm's own is {USUAL_ARRAY:,}"]


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
        f"--job-name={cluster_name(workload.profile)[:LONGEST_NAME]}",
        "--output=%x-%A_%a.log" if array else "--output=%x-%j.log",
        "--open-mode=append",  # a task that queues up again goes on in its log
        "--requeue",
        f"--signal=B:USR1@{_grace_s(job.limit_s)}",
        "--ntasks=1",
    ]
    if array and not several:
        options.append(f"--array={array}")
    if job.limit_s is not None:
        options.append(f"--time={slurm_time(job.limit_s)}")
    if not several:
        options += _asked(workload.requests[0])
    if workload.alone and workload.requests[0].cpus is None:
        options.append("--exclusive")  # else figures would tell of another job's load
    if job.gpus is not None:
        if not re.fullmatch(r"(?:[A-Za-z][\w-]*:)?[1-9][0-9]{0,2}", job.gpus, re.ASCII):
            raise UsageError(f"--gpus {job.gpus} are no GPUs of a task; give 1, or H100:1")
        options.append(f"--gres=gpu:{job.gpus}")
    return [f"#SBATCH {option}" for option in options]


def _asked(request: ResourceRequest) -> list[str]:
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
    where = job.results if job.results.startswith(("/", "$", "~")) else f"./{job.results}"
    how = [
        *workload.summary,
        f"When all have ended: skymark report {where}/{workload.run_id}",
        "Nodes without a network: make the venvs where there is one, into a SKYMARK_CACHE that",
        f"all nodes see: {workload.build_venvs}",
    ]
    if several:
        how += [
            "Types of workers differ; submit each with its own options:",
            *(f"  sbatch {line} THIS-FILE" for line in submissions(workload)),
        ]
    if job.stagger_minutes is not None:
        if several:
            raise UsageError(
                "--stagger chains tasks that ask for the same; of several types each is submitted "
                "as the comments of the script say"
            )
        how += chained_starts(workload.workers, job.stagger_minutes)
    variables = [] if array is None else [f"export {WHOLE}={array.partition('%')[0]}"]
    if array is not None:
        how.append("A task that is submitted again, alone, takes its own part: --array=NUMBER.")
    how += array_need(workload.workers, job.largest_array)
    caches = _caches(workload)
    fields = {
        "CHECK": "" if array is None else CHECK.format(workers=workload.workers),
        "RUN": shlex.quote(workload.run_id),
        "RESULTS": shell_text(job.results, "--results"),
        "CACHES": caches,
        "OWN": OWN_CACHES if workload.cache_policy is None else "",
        "REMOVED": '"$scratch" "$caches"' if caches else '"$scratch"',
        "COMMAND": _command(workload),
    }
    script = re.sub(r"@([A-Z]+)@", lambda found: fields[found[1]], BODY)
    return "\n".join([comment(how), *variables, script]).rstrip("\n")


def slurm_time(seconds: int) -> str:
    """Return a time limit as Slurm writes it, such as ``1-12:00:00``."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


def shell_text(path: str, option: str) -> str:
    """Return a path as the shell of a node reads it: with its ``$USER``, and all else as typed.

    Raises:
        UsageError: it has a line break.
    """
    if not path.isprintable():
        raise UsageError(f"{option} {path!r} has a control character; give another directory")
    path = re.sub(r"^~(?=/|$)", "$HOME", path)
    parts = re.split(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", path, flags=re.ASCII)
    plain = [re.sub(r'([\\"`$])', r"\\\1", text) for text in parts[::3]]
    filled = [
        f"{text}${{{braced or bare}:?is not set on this node, and {option} names it}}"
        for text, braced, bare in zip(plain, parts[1::3], parts[2::3], strict=False)
    ]
    return f'"{"".join(filled)}{plain[-1]}"'


def chained_starts(workers: int, minutes: int) -> list[str]:
    """Return comments on staggered starts of tasks and their cost.

    Slurm's ``after:JOB+MINUTES`` counts from the start of a job, or from its cancellation.

    Args:
        workers: tasks of the array.
        minutes: between two starts.

    Raises:
        UsageError: there is only one task.
    """
    if workers == 1:
        raise UsageError("--stagger spreads the starts of several tasks; give --split, or leave it")
    return [
        f"Starts {minutes} min apart, in place of one sbatch. Not recommended: of {workers} tasks",
        f"the last starts {(workers - 1) * minutes} min after the first, and a build of a cache",
        "that takes longer than the delay meets the next one all the same. 16 staggered jobs",
        f"read their source {PLAIN_READS} times, under --cache-policy shared {SHARED_READS} times:",
        "export SKYMARK_CACHE_POLICY=shared before sbatch instead (docs/caches.md).",
        "  job=$(sbatch --parsable --array=0 THIS-FILE)",
        f"  for task in $(seq 1 {workers - 1}); do",
        f'    job=$(sbatch --parsable --array="$task" -d "after:$job+{minutes}" THIS-FILE)',
        "  done",
    ]


def _caches(workload: Workload) -> str:
    """Return the lines that make a directory for the caches of one job, if it is named.

    Without a name, the caches lie in the job's scratch directory.
    """
    if not workload.has_job_caches or workload.cache_root is None:
        return ""
    return CACHES.replace("@ROOT@", shell_text(workload.cache_root, "--cache-root"))


def _command(workload: Workload) -> str:
    """Return the command of a task. The shell fills some words in; all others are quoted."""
    filled = {"\0run": '"$scratch/$run"', "\0store": '"$store"'}
    if workload.has_job_caches:
        named = workload.cache_root is not None
        filled["\0root"] = '"$caches"' if named else '"$scratch/hf-datasets-$job"'
    elif workload.cache_root is not None:
        filled["\0root"] = shell_text(workload.cache_root, "--cache-root")
    caches = "\0root" if "\0root" in filled else None
    options = workload.options("\0run", [*workload.stores, "\0store"], caches)
    words = ["skymark", "run", *options, "--resume"]
    return " ".join(filled.get(word) or shlex.quote(word) for word in words)
