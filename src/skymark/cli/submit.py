"""`skymark submit`: a plan for slot workers on a shared machine, or for managed jobs."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from skymark import cloud
from skymark.cli.caller import INTERRUPTED, note, print_json, say
from skymark.cli.cost import as_json, print_quote
from skymark.cli.help import RARE
from skymark.cli.options import DEFAULT_OPTIONS, PlanOptions, given_options
from skymark.cli.parameters import COUNT, FILE, JOB, NAME, PART, WHAT, WHERE, Cluster
from skymark.cli.rented_options import (
    DEFAULT_LIMITS,
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    BootTimeout,
    LimitOptions,
    PlaceOptions,
    Stores,
    Sync,
    VariableOptions,
    Yes,
)
from skymark.cli.run import wanted_plan
from skymark.cli.splitting import print_part_rows
from skymark.cli.tables import Json, print_rows
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Machine, Results
from skymark.model.sizes import count_of

if TYPE_CHECKING:
    from skymark.cloud import Quoted, QuotedParts, QuotedSlots, Submitted, SubmittedParts


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ManagedOptions(PlaceOptions):
    """Options of the new machines of managed jobs; they need --managed."""

    jobs: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="With --managed: number of jobs, each on a machine of its own; at most one per "
            "group. [default: 4]",
        ),
    ] = None
    split: Annotated[
        str | None,
        Parameter(
            group=(MACHINE, RARE),
            metavar="SPLIT",
            help="With --managed: division of the groups between the jobs, as in `skymark run "
            "--split`: longest, balanced or even. [default: longest]",
        ),
    ] = None
    boot_timeout: Annotated[
        BootTimeout, Parameter(help="With --managed: longest time until a job's machine is up.")
    ] = "20m"
    yes: Annotated[
        Yes,
        Parameter(group=LIMITS, help="With --managed: accept the price without a question."),
    ] = False

    def request(self, **more: Any) -> Machine:
        """Return the machine of each job."""
        return super().request(
            boot_timeout_s=seconds_of(self.boot_timeout, "--boot-timeout"), managed=True, **more
        )


DEFAULT_RENTING = ManagedOptions()


def submit(  # noqa: PLR0913  # its parameters are the options of a command
    options: PlanOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    *,
    cluster: Annotated[Cluster | None, NAME, Parameter(group=MACHINE)] = None,
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="In place of --cluster: divide the groups between SkyPilot's managed jobs, each "
            "on a new machine. Needs --store s3://….",
        ),
    ] = False,
    renting: ManagedOptions = DEFAULT_RENTING,
    limits: LimitOptions = DEFAULT_LIMITS,
    plan: Annotated[
        Path | None,
        FILE,
        Parameter(
            group=WHAT, help="A file of `skymark plan --output`, in place of the options here."
        ),
    ] = None,
    gpu_fraction: Annotated[
        float | None,
        PART,
        Parameter(
            group=MACHINE,
            help="Part of a GPU for each worker; groups that need more memory get more. "
            "[default: 0.125, or more if there are few groups]",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="Number of workers. [default: as many as fit on the GPUs; without GPUs 1]",
        ),
    ] = None,
    max_jobs: Annotated[
        int | None, COUNT, Parameter(group=(WHAT, RARE), help="Only the first N groups.")
    ] = None,
    one_job_per_group: Annotated[
        bool,
        Parameter(
            group=(JOB, RARE),
            help="One job per group, in place of workers that take many groups.",
        ),
    ] = False,
    store: Stores = (),
    sync: Sync = (),
    dry_run: Annotated[
        bool,
        Parameter(
            group=WHERE,
            help="Show the jobs and their price, and submit none. Without a machine: for the "
            "cheapest machine of --profile.",
        ),
    ] = False,
    json: Annotated[Json, Parameter(group=WHERE)] = False,
) -> int:
    """Share a plan between workers on a machine, or between managed jobs.

    With --cluster, workers on that machine take the plan's groups until all are measured; cells of
    a group share a costly load, such as a model. Each group has one worker, also across
    submissions. If a worker dies, another takes its group. Groups with results on the machine are
    not measured again. With --managed, some jobs divide the groups, each on a new machine, which
    ends with the job; the price is for all jobs. If some jobs cannot start, the same command
    submits the rest. Without names of scenarios and adapters, the plan is all of the suite.

    Examples:
      skymark submit --cluster NAME --profile clip_8xh100 --store s3://BUCKET
      skymark submit --managed --profile clip_gpu --store s3://BUCKET/PREFIX

    Exit status: 0 the jobs are in the queue; 1 some jobs were not accepted; 2 nothing was queued;
    3 too dear, or you said no.
    """
    from skymark.cli.terminal import Terminal

    of_cluster = {
        "--cluster": cluster is not None,
        "--gpu-fraction": gpu_fraction is not None,
        "--slots": slots is not None,
        "--one-job-per-group": one_job_per_group,
    }
    _require_one_way(of_cluster, renting, managed=managed, dry_run=dry_run)
    usual = type(options)().profile  # a suite's own command has another
    if plan is None and cluster is not None and options.profile == usual:
        made_for = cloud.profile_of_machine(cluster, of_suite_of=usual)
        if made_for not in (None, usual):
            say(f"using --profile {made_for}, because {cluster} was rented for it")
            options = dataclasses.replace(options, profile=made_for)
    wanted = options.work() if plan is None else wanted_plan(options, plan)
    most, results = limits.limits(), Results(stores=store)
    job = Job(
        split=renting.split,
        variables=variables.variables(),
        secrets=variables.secrets(),
        files=sync,
    )
    if managed:
        parts = cloud.submit_managed(
            wanted,
            renting.request(),
            most,
            results,
            job,
            Terminal(show=show_parts, json=json, yes=renting.yes),
            groups=max_jobs,
            jobs=renting.jobs,
            dry_run=dry_run,
        )
        if json:
            print_json(_parts_json(parts))
        return _say_what_is_on_its_way(parts)
    submitted = cloud.submit(
        wanted,
        cluster,
        most,
        results,
        job,
        Terminal(show=show_slots, json=json),
        groups=max_jobs,
        gpu_fraction=gpu_fraction,
        slots=slots,
        one_job_per_group=one_job_per_group,
        dry_run=dry_run,
    )
    if json:
        print_json(_slots_json(submitted))
    if not isinstance(submitted, cloud.Quoted):
        _say_what_is_queued(submitted)
    return 0


def _slots_json(submitted: Submitted | Quoted) -> dict[str, object]:
    """Return the jobs in a machine's queue, or their price, for JSON."""
    run = submitted.run
    told: dict[str, object] = {"run_id": run.run_id, "machine": run.name, "stores": run.stores}
    if isinstance(submitted, cloud.Quoted):
        return {**told, "quote": as_json(submitted.quote)}
    return {**told, "jobs": [job.number for job in submitted.jobs]}


def _parts_json(parts: SubmittedParts | Quoted | None) -> dict[str, object]:
    """Return managed jobs, or their price, for JSON."""
    if parts is None:
        return {"jobs": []}
    if isinstance(parts, cloud.Quoted):
        return {"run_id": parts.run.run_id, "quote": as_json(parts.quote)}
    return {
        "run_id": parts.run.run_id,
        "jobs": [one.name for one in parts.going],
        "wanted": parts.wanted,
        "stores": parts.run.stores,
        "problems": list(parts.problems),
        "interrupted": parts.interrupted,
    }


def _require_one_way(
    of_cluster: Mapping[str, bool], renting: ManagedOptions, *, managed: bool, dry_run: bool
) -> None:
    """Require options for a running machine or for managed jobs, and not for both.

    Args:
        of_cluster: whether each option for a running machine is given, by name.
        renting: options for managed jobs.
        managed: whether to use managed jobs.
        dry_run: whether to submit nothing, which needs no machine.

    Raises:
        UsageError: options of both ways are given, or of neither.
    """
    given = [option for option, is_given in of_cluster.items() if is_given]
    if managed and given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given beside --managed, which rents a machine for "
            "each job; leave out either"
        )
    if not managed and renting.split is not None:
        raise UsageError(
            f"--split {renting.split} is for --managed, whose jobs have machines of their own; add "
            "--managed, or leave it out: workers on one machine take the next group when free"
        )
    if not managed and (alone := given_options(renting)):
        raise UsageError(
            f"{' and '.join(alone)} cannot be given without --managed, which rents machines; add "
            "--managed, or leave it out"
        )
    if not managed and not dry_run and not of_cluster["--cluster"]:
        raise UsageError(
            "give a machine: --cluster NAME (`skymark status` shows names), or --managed with "
            "--store s3://BUCKET/PREFIX"
        )


def show_slots(quoted: QuotedSlots) -> None:
    """Print the jobs of slot workers, one line for equal jobs, and their price."""
    from skymark.cloud.cost.quote import as_given

    run, gpus = quoted.run, quoted.cards
    if gpus is not None and gpus.bytes_each is None:
        say(f"the memory of an {gpus.kind} is unknown, so skymark did not check that groups fit")
    if gpus is not None and quoted.plan.platform == "cpu":
        say(
            f"the profile {quoted.plan.profile} is for a CPU, so the {gpus.count} {gpus.kind} "
            "stay idle; give --profile NAME for a GPU"
        )
    rows = []
    for job, count in Counter(quoted.jobs).items():
        of_each = "-" if gpus is None else f"{gpus.kind}:{job.cards:g}"
        part = "-" if gpus is None else f"{job.fraction:g}"
        groups = str(len(job.groups) or quoted.groups)
        rows.append((str(count), of_each, str(job.slots), part, groups))
    print_rows(("jobs", "GPUs each", "workers each", "GPU per worker", "groups"), rows)
    workers = sum(job.slots for job in quoted.jobs)
    shared = f"{count_of(quoted.groups, 'group')} for {count_of(workers, 'worker')}"
    note(f"{shared} in {count_of(len(quoted.jobs), 'job')} on {run.name}")
    if quoted.quote is None:
        say(f"the price of {run.name} is unknown, so skymark neither counts nor limits the cost")
        return
    most_usd = run.limits.max_cost_usd
    limit = "No ceiling: with --max-cost USD the machine ends the jobs at that cost."
    if most_usd is not None:
        limit = (
            f"The machine itself ends these jobs at {as_given(most_usd)} USD, even if this "
            "terminal is closed."
        )
    print_quote(quoted.quote, [limit])


def show_parts(quoted: QuotedParts) -> None:
    """Print the parts of managed jobs, and their price together."""
    print_part_rows("job", quoted.parts, quoted.jobs)
    note(
        f"{count_of(sum(len(part.keys) for part in quoted.parts), 'group')} for "
        f"{count_of(len(quoted.parts), 'managed job')}, a machine for each"
    )
    assert quoted.quote is not None
    print_quote(quoted.quote)


def _say_what_is_queued(submitted: Submitted) -> None:
    """Print the jobs in a machine's queue, with the commands that follow and end them."""
    if not submitted.jobs:
        say("no job was submitted")
        return
    cluster, run_id = submitted.run.name, submitted.run.run_id
    numbers = [job.number for job in submitted.jobs]
    jobs = " ".join(map(str, numbers))
    say(
        f"{run_id}: job{'s' * (len(numbers) > 1)} {jobs} of {cluster}\n"
        f"  watch:   skymark queue {cluster} --watch; skymark logs {cluster} {numbers[0]}\n"
        f"  fetch:   skymark collect {cluster} {run_id}\n"
        f"  end:     skymark cancel {cluster} {jobs}"
    )
    for address in submitted.run.stores:
        note(f"  stored:  {shlex.quote(f'{address}/{run_id}')}")


def _say_what_is_on_its_way(parts: SubmittedParts | Quoted | None) -> int:
    """Print managed jobs and their prices, with the commands that follow and end them."""
    if parts is None:
        say("no job was submitted")
        return 0
    if isinstance(parts, cloud.Quoted):
        return 0
    for problem in parts.problems:
        say(problem)
    run, going = parts.run, parts.going
    if len(going) < parts.wanted:
        say(
            f"{parts.wanted - len(going)} of {parts.wanted} jobs were not submitted; the same "
            "command again submits them"
        )
    if going:
        names = [quoted.name for quoted in going]
        stored = shlex.quote(f"{run.lasting_store}/{run.run_id}")
        lines = [
            f"{run.run_id}: submitted, each until its part is done",
            *(f"  {one.name}: {one.in_words}" for one in parts.machines),
            f"  watch:   skymark status; skymark logs {names[0]}",
            f"  fetch:   skymark fetch {stored} {shlex.quote(f'results/{run.run_id}')}",
            f"  end:     skymark down {' '.join(names)}",
        ]
        say("\n".join(lines))
    if parts.interrupted:
        return INTERRUPTED
    return 1 if parts.problems else 0
