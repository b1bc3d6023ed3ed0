"""`skymark run`: measure a plan here, or on a rented machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import skymark
from skymark.api import expected_time, run_directory
from skymark.cache.location import require_policy
from skymark.cli.against import Against, Gate, Practical, revision_asked_for, show_pair
from skymark.cli.caller import end_when_told, note, say
from skymark.cli.console import PlainConsole
from skymark.cli.help import RARE
from skymark.cli.options import DEFAULT_OPTIONS, PlanOptions, plan_of_file
from skymark.cli.parameters import (
    DIRECTORY,
    FILE,
    PART,
    POLICY_VARIABLE,
    ROOT_VARIABLE,
    SECONDS,
    SHARING,
    WHAT,
    WHERE,
    Env,
    Root,
    RunPolicy,
    Several,
    Split,
)
from skymark.cli.rented_options import DEFAULT_ON, OnOptions
from skymark.cli.results import note_page, show
from skymark.cli.tables import Json, short_time
from skymark.execute.duration import require_time
from skymark.execute.planner import lacks_here
from skymark.execute.project_file import results_directory
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan
from skymark.model.record import Status
from skymark.model.requests import Results
from skymark.model.sizes import count_of
from skymark.store.kinds import FINISH_S, STORE_WAIT_VARIABLE
from skymark.suite.registry import suite_named


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `run` besides the work: place, workers, revision to compare with."""

    output: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=WHERE, help="The run's directory. [default: a new one, results/TIME-PROFILE-ID]"
        ),
    ] = None
    resume: Annotated[
        bool,
        Parameter(
            group=WHERE,
            help="Continue the run in --output, else the newest unfinished run of this plan; "
            "failed venvs are tried again.",
        ),
    ] = False
    retry: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=(WHERE, RARE),
            metavar="STATUS...",
            help="With --resume: measure the cells of these statuses again, such as "
            "failed,timeout.",
        ),
    ] = ()
    store: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHERE,
            metavar="ADDRESS...",
            help="Store each result there too: s3://BUCKET/PREFIX, file:///DIRECTORY or wandb, "
            "which WANDB_API_KEY alone means too. --resume continues from there.",
        ),
    ] = ()
    store_wait: Annotated[
        float,
        SECONDS,
        Parameter(
            group=(WHERE, RARE),
            env_var=STORE_WAIT_VARIABLE,
            show_env_var=False,
            help="Seconds that the end of the run waits for a slow or absent store.",
        ),
    ] = FINISH_S
    shard: Annotated[
        str | None,
        Parameter(
            group=(SHARING, RARE),
            metavar="INDEX/COUNT",
            help="Run only this part of the plan, such as 0/2; other machines run the rest. Cells "
            "that belong together stay on one machine.",
        ),
    ] = None
    split: Split = None
    rank: Annotated[
        str | None,
        Parameter(
            group=(SHARING, RARE),
            metavar="INDEX/COUNT",
            help="This worker's number in --split. [default: from the variables of SkyPilot, "
            "Slurm, Kubernetes, AIchor, TPU slices or torchrun]",
        ),
    ] = None
    share: Annotated[
        bool,
        Parameter(
            group=(SHARING, RARE),
            help="Run beside other processes with the same plan and --output. Each takes free "
            "groups of cells, and the groups of processes that died. For suites whose cells do not "
            "disturb one another.",
        ),
    ] = False
    group: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=(SHARING, RARE),
            metavar="NAME...",
            help="With --share: take only these groups, by their names in `skymark plan --json`.",
        ),
    ] = ()
    slots: Annotated[
        int | Literal["all"] | None,
        Parameter(
            group=(SHARING, RARE),
            metavar="N",
            help="Share the plan between this many processes here, on the GPUs of "
            "CUDA_VISIBLE_DEVICES; all: as many as fit. For suites whose cells do not disturb one "
            "another.",
        ),
    ] = None
    gpu_fraction: Annotated[
        float | None,
        PART,
        Parameter(
            group=(SHARING, RARE),
            help="Part of a GPU for each process of --slots or --on. [default: 0.125, or more with "
            "few groups or large models]",
        ),
    ] = None
    against: Against = None
    gate: Gate = False
    practical: Practical = None
    cache_policy: Annotated[
        RunPolicy | None,
        Parameter(group=(WHERE, RARE), env_var=POLICY_VARIABLE, show_env_var=False),
    ] = None
    cache_root: Annotated[
        Root, Parameter(group=(WHERE, RARE), env_var=ROOT_VARIABLE, show_env_var=False)
    ] = None
    env: Annotated[Env, Parameter(group=(WHERE, RARE))] = "own"
    json: Annotated[Json, Parameter(group=WHERE)] = False

    @property
    def works_in_slots(self) -> bool:
        """Whether several processes here share the plan."""
        return self.slots is not None or self.gpu_fraction is not None

    def words_for_slots(self) -> list[str]:
        """Return the options that each of those processes gets."""
        given = {
            "--store": self.store,
            "--store-wait": (f"{self.store_wait:g}",),
            "--env": (self.env,),
            "--cache-policy": filter(None, (self.cache_policy,)),
            "--cache-root": filter(None, (self.cache_root,)),
        }
        return [
            word for name, values in given.items() for one in values for word in (name, str(one))
        ]

    def require_sense(self) -> None:
        """Refuse options that contradict one another.

        Raises:
            UsageError: they do.
        """
        if self.retry and not self.resume:
            raise UsageError("--retry needs --resume")
        if self.share and (self.resume or self.shard is not None or self.split is not None):
            raise UsageError("--share continues by itself; leave out --resume, --shard and --split")
        if self.share and self.output is None:
            raise UsageError("--share needs --output, the common directory of all processes")
        if self.group and not self.share:
            raise UsageError("--group needs --share")
        if self.works_in_slots and (self.share or self.shard or self.split or self.against):
            raise UsageError(
                "--slots starts processes that share the plan; leave out --share, --shard, --split "
                "and --against"
            )
        require_policy(self.cache_policy, self.cache_root)


DEFAULT_HOW = RunOptions()


def run(
    options: PlanOptions = DEFAULT_OPTIONS,
    how: RunOptions = DEFAULT_HOW,
    on: OnOptions = DEFAULT_ON,
    *,
    plan: Annotated[
        Path | None,
        FILE,
        Parameter(
            group=WHAT,
            help="A file of `skymark plan --output`, or a run's directory, in place of the options "
            "here and below.",
        ),
    ] = None,
) -> int:
    """Measure loaders or models on this machine, and rank them.

    Each loader works on the same data in a venv and a process of its own, and skymark checks that
    all did the same work. Results are on disk cell by cell (a cell is one loader with its settings
    in one scenario). After Ctrl-C the same command with --resume continues.

    Examples:
      skymark run --scenarios CV-1 --adapters pytorch grain --time 20m
      skymark run --data ./photos --scenarios CV-1 --workers 4

    Exit status: 0 all is well; 1 a cell failed or is invalid, none was measured, or a store lacks
    results; 2 nothing was started; 3 --gate failed; 130 interrupted.
    """
    if on.is_asked_for:
        from skymark.cli.launch import run_on

        return run_on(options.work() if plan is None else wanted_plan(options, plan), on, how)
    return measure(wanted_plan(options, plan), how)


def measure(wanted: Plan, how: RunOptions) -> int:
    """Measure a plan, show the run, and return the exit status of `run`."""
    from skymark.cli.progress import ProgressObserver
    from skymark.cli.splitting import part_asked_for
    from skymark.cli.stores import say_what_was_stored

    retry = _statuses(how.retry)
    part = part_asked_for(wanted, how.shard, how.split, how.rank)
    how.require_sense()
    elsewhere = {"share": how.share, "shard": how.shard, "split": how.split}
    revision = revision_asked_for(
        how.against, wanted, elsewhere, gate=how.gate, practical=how.practical
    )
    home = results_directory()
    time = expected_time(wanted, part, in_pairs=revision is not None, history=home)
    require_time(wanted, time)
    for one in (*wanted.sentences, short_time(wanted, time), *lacks_here(wanted)):
        if one is not None:
            note(one)
    results = Results(
        directory=home,
        output=how.output,
        stores=how.store,
        resume=how.resume,
        store_wait_s=how.store_wait,
    )
    path = run_directory(wanted, results, paired=revision is not None)
    if how.works_in_slots:
        return _measure_in_slots(wanted, path, how)
    results = results.changed(output=path)
    end_when_told()
    expected_s = time.measuring.expected_s
    try:
        declaration = suite_named(wanted.suite).declared(one.cell for one in wanted.cells)
        with ProgressObserver(PlainConsole(stderr=True), expected_s, declaration) as observer:
            measured = skymark.run(
                wanted,
                results,
                observer=observer,
                retry=retry,
                part=part,
                share=how.group if how.share else None,
                against=revision,
                own_venvs=how.env == "own",
                cache_policy=how.cache_policy,
                cache_root=how.cache_root,
            )
    except KeyboardInterrupt:
        say(_how_to_go_on(path, how))
        raise
    if measured.baseline is not None:
        return show_pair(measured.baseline, measured, how.practical, json=how.json, gate=how.gate)
    page_written = True
    if measured.ended:
        show(measured, json=how.json)
        page_written = note_page(measured)
    else:
        count = len(measured.measured or ())
        note(f"other processes continue {path}; this process has {count_of(count, 'cell')}")
    say_what_was_stored(measured.stored, path)
    return 0 if measured.all_well and page_written else 1


def _measure_in_slots(wanted: Plan, path: Path, how: RunOptions) -> int:
    """Measure a plan by several processes here, and show the run."""
    from skymark.execute.slots import gpus_here, jobs_here, require_shareable, work_in_slots

    require_shareable(wanted, "leave out --slots and --gpu-fraction")
    gpus = gpus_here()
    slots = None if how.slots == "all" else how.slots
    jobs = jobs_here(wanted, how.gpu_fraction, slots, gpus)
    workers = count_of(sum(job.slots for job in jobs), "worker")
    where = "" if gpus is None else f" on {count_of(len(gpus.names), 'GPU')}"
    note(f"{workers}{where} share the plan")
    end_when_told()
    try:
        statuses = work_in_slots(wanted, path, jobs, gpus, how.words_for_slots(), note)
    except KeyboardInterrupt:
        say(_how_to_go_on(path, how))
        raise
    run = skymark.open(path)
    show(run, json=how.json)
    page_written = note_page(run)
    missing = len(wanted.cells) - len(run.records)
    if missing:
        say(f"{count_of(missing, 'cell')} not measured; {_how_to_go_on(path, how)}")
    return 0 if page_written and not missing and 1 not in statuses else 1


def _how_to_go_on(path: Path, how: RunOptions) -> str:
    """Return the message on how to continue an interrupted run.

    A command with --resume stays the same. Its stores stand in place of the directory, which may
    end with a scheduler's job.
    """
    again = "" if how.share or how.resume else f" and --output {path} --resume"
    stored = [f"{one.rstrip('/')}/{path.name}" for one in how.store if how.resume]
    kept = " and ".join(stored) or path
    return f"interrupted; the finished cells are in {kept}. Continue with the same command{again}"


def wanted_plan(options: PlanOptions, plan_file: Path | None) -> Plan:
    """Return the plan of a file or of options.

    Raises:
        UsageError: both are given, or either is wrong.
    """
    if plan_file is None:
        return options.plan()
    given = () if options is DEFAULT_OPTIONS else options.given() or ("--profile",)
    return plan_of_file(plan_file, given)


def _statuses(names: tuple[str, ...]) -> set[Status]:
    """Return the statuses of a list with commas or spaces."""
    plain = [part for name in names for part in name.split(",") if part]
    for name in plain:
        if name not in set(Status):
            raise UnknownNameError("status", name, [status.value for status in Status])
    return {Status(name) for name in plain}
