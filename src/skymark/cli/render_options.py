"""Options that the commands of `skymark render` share, and the work that they describe."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from skymark.cache.location import Policy, require_policy
from skymark.cli.help import RARE
from skymark.cli.options import PlanOptions, given_options
from skymark.cli.parameters import MOST, Several, Split, TotalCpus, TotalMemory
from skymark.cli.rented_options import CachePolicy
from skymark.execute.duration import time_of_split
from skymark.execute.partition.shard import idle_workers, items_of, requests_of, worker_parts
from skymark.execute.partition.split import Split as Sharing
from skymark.execute.partition.split import read_split
from skymark.execute.project_file import results_directory
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import duration

if TYPE_CHECKING:
    from skymark.cloud.render.workload import Workload


FILE = Group.create_ordered("The job file")

OutputFile = Annotated[
    Path | None,
    Parameter(group=FILE, metavar="FILE", help="File to write. [default: standard output]"),
]
RunId = Annotated[
    str | None,
    Parameter(
        group=(FILE, RARE),
        metavar="NAME",
        help="Name of the workers' common run; the same name continues it. [default: "
        "TIME-PROFILE-ID]",
    ),
]
RemoteStores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(group=FILE, metavar="ADDRESS...", help="Store for each result: s3://BUCKET/PREFIX."),
]
Image = Annotated[
    str,
    Parameter(group=FILE, metavar="IMAGE", help="Image of skymark that you built and pushed."),
]
SharedMemory = Annotated[
    float | None,
    Parameter(
        group=(FILE, RARE),
        metavar="GB",
        validator=Number(gte=0, lte=MOST),
        help="GB of /dev/shm of each pod, through which worker processes pass batches; part of its "
        "memory. [default: 8, or half of the memory if that is less]",
    ),
]
Template = Annotated[
    Path | None,
    Parameter(
        group=(FILE, RARE),
        metavar="FILE",
        help="YAML with fields of your site to add to the manifest, such as labels, tolerations "
        "and secrets (docs/splitting.md).",
    ),
]
Deadline = Annotated[
    str | None,
    Parameter(
        group=FILE,
        metavar="TIME",
        help="Longest time, such as 90m or 1-12:00:00. [default: the profile's]",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SharingOptions:
    """How workers share a plan, the one run that their parts become, and their caches."""

    split: Split = None
    total_cpus: TotalCpus = None
    total_memory: TotalMemory = None
    store: RemoteStores = ()
    run_id: RunId = None
    cache_policy: Annotated[CachePolicy, Parameter(group=(FILE, RARE))] = None
    cache_root: Annotated[
        str | None,
        Parameter(
            group=(FILE, RARE),
            metavar="DIRECTORY",
            help="With --cache-policy: directory of the caches on the job's machines, such as a "
            "shared disk; the script expands variables such as $USER. A Slurm job with per-job "
            "makes hf-datasets-JOB in it, and removes it.",
        ),
    ] = None

    def workload(
        self, profile: str, plan: Plan, words: tuple[str, ...], limit_s: int | None = None
    ) -> Workload:
        """Return the work that the workers of a job file share.

        Args:
            profile: its name, or a ``.toml`` file.
            plan: what is shared.
            words: options of ``skymark run`` that make the plan.
            limit_s: after which workers are ended for good; None for none.

        Raises:
            UsageError: the split, a total, a store, the run id, the cache policy or its directory
                is wrong.
        """
        from skymark.cloud.render.workload import Workload, run_named
        from skymark.execute.planner import require_data
        from skymark.store.kinds import kind_of
        from skymark.suite.registry import suite_named

        found = read_split(self.split or "even:1")
        for one in self.store:
            kind_of(one)
        require_policy(self.cache_policy, self.cache_root)
        require_data(self.cache_policy, plan)
        if self.cache_root is not None and not self.cache_root.startswith(("/", "$", "~/")):
            raise UsageError(
                f"--cache-root {self.cache_root} is a directory of the machines that run the job; "
                "give its whole path, such as /shared/caches"
            )
        suite = suite_named(plan.suite)
        adapters = dict.fromkeys(suite.adapter_reference(one.cell) for one in plan.runnable)
        platform = () if plan.platform == "cpu" else ("--platform", plan.platform)
        build = shlex.join(("skymark", "env", "build", *adapters, *platform))
        return Workload(
            profile=profile,
            build_venvs=" ".join(build.split()),  # it goes into a comment
            run_id=run_named(self.run_id, profile),
            words=words,
            split=found,
            notes=tuple(shared_work(plan, found, limit_s)),
            requests=requests_of(found, self.total_cpus, self.total_memory),
            stores=tuple(one.rstrip("/") for one in self.store),
            platform=plan.platform,
            alone=not suite.shares_machine,
            cache_policy=self.cache_policy and Policy(self.cache_policy),
            cache_root=self.cache_root,
        )

    def require_split_alone(self, options: PlanOptions) -> None:
        """Refuse options of a plan and its results beside a program of the user's own.

        Raises:
            UsageError: one is given.
        """
        of_run = given_options(self, "split", "total_cpus", "total_memory")
        if given := [*options.given(), *of_run]:
            raise UsageError(
                f"{' and '.join(given)} cannot be given beside --command, which runs a program of "
                "yours; leave out either"
            )


def shared_work(plan: Plan, split: Sharing, limit_s: int | None = None) -> list[str]:
    """Return sentences on the work of a split: expected time, parts, and workers without work.

    Args:
        plan: what is split.
        split: between the workers.
        limit_s: after which all are ended; None for no limit, or where they go on by themselves.

    Raises:
        UsageError: the plan has no cells.
    """
    items = items_of(plan.cells)
    parts = worker_parts(split, items)
    longest, whole_s = time_of_split(plan, split, results_directory())
    who = (
        "One worker measures"
        if len(parts) == 1
        else f"{sum(bool(one.keys) for one in parts)} workers measure"
    )
    said = f"{who} {count_of(len(plan.runnable), 'cell')}; the longest part takes about "
    said += f"{duration(longest.expected_s)} ({duration(longest.low_s)} to "
    said += f"{duration(longest.high_s)}) once venvs are made"
    if whole_s > longest.expected_s:
        said += f", and all parts about {duration(whole_s)}"
    sentences = [said, *idle_workers(split, parts, len(items))]
    if limit_s is not None and whole_s > limit_s:
        sentences.append(
            f"the deadline of {duration(limit_s)} may end them before that; give a longer "
            "--deadline, or go on with the same --run-id"
        )
    return sentences
