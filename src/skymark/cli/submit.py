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

from skymark.cli.caller import INTERRUPTED, note, say
from skymark.cli.cost import print_quote
from skymark.cli.options import PlanOptions
from skymark.cli.parameters import COUNT, JOB, PART, WHAT, WHERE
from skymark.cli.rented_options import (
    DEFAULT_LIMITS,
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    LimitOptions,
    PlaceOptions,
    Stores,
    Sync,
    VariableOptions,
    boot_timeout_s,
)
from skymark.cli.run import DEFAULT_OPTIONS, wanted_plan
from skymark.cli.splitting import print_part_rows
from skymark.cli.tables import print_rows
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Machine, Results

if TYPE_CHECKING:
    from skymark.cloud import Quoted, QuotedParts, QuotedSlots, Submitted, SubmittedParts


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ManagedOptions(PlaceOptions):
    """Options of machines that are hired for managed jobs; they mean nothing without --managed."""

    jobs: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="With --managed: jobs that divide the groups, each on a machine of its own; no "
            "more than there are groups. [default: 4]",
        ),
    ] = None
    split: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="With --managed: how the jobs share the groups, as `skymark run --split` has it: "
            "longest, balanced, even … [default: longest]",
        ),
    ] = None
    boot_timeout: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="With --managed: longest time until a job's machine is up. [default: 20m]",
        ),
    ] = None
    yes: Annotated[
        bool,
        Parameter(
            name=("--yes", "-y"), group=LIMITS, help="With --managed: do not ask about the price."
        ),
    ] = False

    def request(self, **more: Any) -> Machine:
        """Return the machine of each job."""
        return super().request(
            boot_timeout_s=boot_timeout_s(self.boot_timeout), managed=True, **more
        )

    def given(self) -> list[str]:
        """Return the names of those that were given."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]


DEFAULT_HIRING = ManagedOptions()


def submit(  # noqa: PLR0913  # its parameters are the options of a command
    options: PlanOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    *,
    cluster: Annotated[
        str | None,
        Parameter(group=MACHINE, help="The machine's name, as `skymark status` shows it."),
    ] = None,
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="In place of --cluster: groups are divided between SkyPilot's managed jobs, each "
            "on a machine that is hired for it. Needs --store s3://….",
        ),
    ] = False,
    hiring: ManagedOptions = DEFAULT_HIRING,
    limits: LimitOptions = DEFAULT_LIMITS,
    plan: Annotated[
        Path | None,
        Parameter(
            group=WHAT, help="A file that `skymark plan --output` wrote, in place of options."
        ),
    ] = None,
    gpu_fraction: Annotated[
        float | None,
        PART,
        Parameter(
            group=MACHINE,
            help="The part of a card that each worker has; groups that need more memory get more. "
            "[default: an eighth, or more where there are few groups]",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="Workers in all. [default: as many as fit on the cards; 1 where there are none]",
        ),
    ] = None,
    max_jobs: Annotated[
        int | None, COUNT, Parameter(group=WHAT, help="Only the first so many groups.")
    ] = None,
    one_job_per_group: Annotated[
        bool,
        Parameter(
            group=JOB,
            help="A job for each group in place of workers that take many; again for the rest.",
        ),
    ] = False,
    store: Stores = (),
    sync: Sync = (),
    dry_run: Annotated[
        bool,
        Parameter(
            group=WHERE,
            help="Show the jobs and their price, and submit none. Without a machine: on the "
            "cheapest of --profile.",
        ),
    ] = False,
) -> int:
    """Submit a plan to a machine that is there, or to several that are hired for it.

    Without names of scenarios and adapters it is all that the profile's suite has. With --cluster,
    workers on that machine take its groups until none is left. Cells of a group
    share what they load, such as a model. Each worker has a part of a card and takes one group
    after another; no two have the same one, also of several submissions. When one is killed,
    another takes over what it held. What others have measured on the machine already is taken from
    there. Results go to the stores cell by cell, and stay on the machine until it ends.

    Where the machine does not take a job, those of slot workers are taken back; jobs of one group
    stay, and the same command submits the rest.

    With --managed, each of a few managed jobs takes some groups on a machine of its own, which ends
    with it. The price is of all of them together. Where not all can begin, the others go on, and
    the same command submits those that are missing.

    Exit status: 0 the jobs are in the queue, 2 bad usage or nothing fits, nothing was queued, 1
    the machine, or SkyPilot, did not take them all, 3 too dear, or not agreed to.
    """
    from skymark import cloud
    from skymark.cli.terminal import Terminal

    of_cluster = {
        "--cluster": cluster is not None,
        "--gpu-fraction": gpu_fraction is not None,
        "--slots": slots is not None,
        "--one-job-per-group": one_job_per_group,
    }
    _require_one_way(of_cluster, hiring, managed=managed, dry_run=dry_run)
    usual = type(options)().profile  # a suite's own command has another
    if plan is None and cluster is not None and options.profile == usual:
        made_for = cloud.profile_of_machine(cluster, of_suite_of=usual)
        if made_for not in (None, usual):
            say(f"--profile {made_for}, for which {cluster} was hired")
            options = dataclasses.replace(options, profile=made_for)
    wanted = options.work() if plan is None else wanted_plan(options, plan)
    most, results = limits.limits(), Results(stores=store)
    job = Job(
        split=hiring.split,
        variables=variables.variables(),
        secrets=variables.secrets(),
        files=sync,
    )
    if managed:
        parts = cloud.submit_managed(
            wanted,
            hiring.request(),
            most,
            results,
            job,
            Terminal(show=show_parts, yes=hiring.yes),
            groups=max_jobs,
            jobs=hiring.jobs,
            dry_run=dry_run,
        )
        return _say_what_is_on_its_way(parts)
    submitted = cloud.submit(
        wanted,
        cluster,
        most,
        results,
        job,
        Terminal(show=show_slots),
        groups=max_jobs,
        gpu_fraction=gpu_fraction,
        slots=slots,
        one_job_per_group=one_job_per_group,
        dry_run=dry_run,
    )
    if not isinstance(submitted, cloud.Quoted):
        _say_what_is_queued(submitted)
    return 0


def _require_one_way(
    of_cluster: Mapping[str, bool], hiring: ManagedOptions, *, managed: bool, dry_run: bool
) -> None:
    """Refuse options of the other way to submit, and neither way.

    Args:
        of_cluster: whether each option of a machine that is there was given.
        hiring: options of machines that are hired.
        managed: whether they are hired.
        dry_run: whether nothing is submitted, so that no machine need be there.

    Raises:
        UsageError: it is so.
    """
    given = [option for option, is_given in of_cluster.items() if is_given]
    if managed and given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given beside --managed, which hires a machine for "
            "each of its jobs; leave one of them out"
        )
    if not managed and hiring.split is not None:
        raise UsageError(
            f"--split {hiring.split}: workers on one machine take the next group whenever they are "
            "free, so nothing is divided beforehand; leave it out, or add --managed, whose jobs "
            "have machines of their own"
        )
    if not managed and (alone := hiring.given()):
        raise UsageError(
            f"{' and '.join(alone)} cannot be given without --managed, which hires machines; add "
            "that, or leave it out"
        )
    if not managed and not dry_run and not of_cluster["--cluster"]:
        raise UsageError(
            "nothing says where: give --cluster NAME (`skymark status` shows names), or --managed "
            "with --store s3://BUCKET/PREFIX"
        )


def show_slots(quoted: QuotedSlots) -> None:
    """Print the jobs of slot workers, those that are alike in one line, and their price."""
    from skymark.cloud.cost.quote import as_given

    run, cards = quoted.run, quoted.cards
    if cards is not None and cards.bytes_each is None:
        say(f"the memory of an {cards.kind} is not known here: nothing was compared with it")
    if cards is not None and quoted.plan.platform == "cpu":
        say(
            f"none of {cards.count} {cards.kind} works: the profile {quoted.plan.profile} is for a "
            "CPU; give --profile NAME for a GPU"
        )
    rows = []
    for job, count in Counter(quoted.jobs).items():
        of_card = "-" if cards is None else f"{cards.kind}:{job.cards:g}"
        part = "-" if cards is None else f"{job.fraction:g}"
        groups = str(len(job.groups) or quoted.groups)
        rows.append((str(count), of_card, str(job.slots), part, groups))
    print_rows(("jobs", "of the cards", "workers each", "card each", "groups to take from"), rows)
    workers = sum(job.slots for job in quoted.jobs)
    note(f"{quoted.groups} groups for {workers} workers in {len(quoted.jobs)} jobs on {run.name}")
    if quoted.quote is None:
        say(f"the price of {run.name} is not known: no cost is counted, and none is limited")
        return
    most_usd = run.limits.max_cost_usd
    limit = "No ceiling: --max-cost USD ends the jobs on the machine itself when it is used up."
    if most_usd is not None:
        limit = (
            f"The machine itself ends these jobs when {as_given(most_usd)} USD are used up, "
            "whatever becomes of this terminal."
        )
    print_quote(quoted.quote, [limit])


def show_parts(quoted: QuotedParts) -> None:
    """Print the parts of managed jobs, and their price together."""
    print_part_rows("job", quoted.parts, quoted.jobs)
    note(
        f"{sum(len(part.keys) for part in quoted.parts)} groups for {len(quoted.parts)} managed "
        "jobs, a machine for each"
    )
    assert quoted.quote is not None
    print_quote(quoted.quote)


def _say_what_is_queued(submitted: Submitted) -> None:
    """Name the jobs in a cluster's queue, with the commands that follow and end them."""
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
    """Name managed jobs and their prices, with the commands that follow and end them."""
    from skymark.cloud import Quoted

    if parts is None:
        say("no job was submitted")
        return 0
    if isinstance(parts, Quoted):
        return 0
    for problem in parts.problems:
        say(problem)
    run, going = parts.run, parts.going
    if len(going) < parts.wanted:
        say(
            f"{parts.wanted - len(going)} of {parts.wanted} jobs are not on their way; the same "
            "command again submits them"
        )
    if going:
        names = [quoted.name for quoted in going]
        stored = shlex.quote(f"{run.lasting_store}/{run.run_id}")
        lines = [
            f"{run.run_id}: on their way, each until its part is done",
            *(f"  {one.name}: {one.in_words}" for one in parts.machines),
            f"  watch:   skymark status; skymark logs {names[0]}",
            f"  fetch:   skymark fetch {stored} {shlex.quote(f'results/{run.run_id}')}",
            f"  end:     skymark down {' '.join(names)}",
        ]
        say("\n".join(lines))
    if parts.interrupted:
        return INTERRUPTED
    return 1 if parts.problems else 0
