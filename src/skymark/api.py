"""The public functions: plan, run, open, compare and tune work on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from skymark.execute.planner import load_profile, planned, read_plan, words_of
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.plan import Plan
from skymark.model.record import Ceiling, Record, Setting, Status
from skymark.model.requests import DEFAULT_RESULTS, Results, Work
from skymark.model.sizes import count_of
from skymark.rundir.layout import MANIFEST, new_run_id
from skymark.rundir.newest import unfinished_run, unfinished_tune

if TYPE_CHECKING:
    from skymark.execute.duration import RunTime
    from skymark.execute.measurer import Observer
    from skymark.execute.partition.shard import Shard
    from skymark.execute.revision import Revision
    from skymark.execute.session import FinishedRun
    from skymark.report.compare import Across
    from skymark.report.results import Comparison, Run
    from skymark.report.tuning import Choice
    from skymark.suite.contract import Tuning

    Observers = Callable[[float], AbstractContextManager[Observer]]
    """Makes an observer, given the expected seconds of the work."""

TARGET = 0.95
"""Default target of the share of time in which an accelerator is busy."""


def plan(work: Work | Path) -> Plan:
    """Plan a run: the ordered cells with their hash, from a request or from a plan's file.

    Raises:
        UsageError: a name is unknown, a value means nothing, or nothing is left to run.
    """
    if not isinstance(work, Work):
        return read_plan(Path(work))
    return planned(work)[0]


def expected_time(
    plan: Plan,
    part: Shard | None = None,
    *,
    in_pairs: bool = False,
    history: Path = DEFAULT_RESULTS,
) -> RunTime:
    """Estimate the time of a plan on this machine from the latest runs in a directory.

    Args:
        plan: the cells.
        part: the part of the plan that runs here; None for the whole.
        in_pairs: whether each round is measured for two revisions.
        history: directory of runs.
    """
    from skymark.execute.duration import LATEST, run_time
    from skymark.rundir.history import read_history

    cells = None if part is None else part.take(plan.cells)
    return run_time(plan, read_history(history, plan, latest=LATEST), cells, in_pairs=in_pairs)


def run(
    work: Work | Plan,
    results: Results | None = None,
    *,
    observer: Observer | None = None,
    retry: Collection[Status] = (),
    part: Shard | None = None,
    share: Collection[str] | None = None,
    against: Revision | str | None = None,
    own_venvs: bool = True,
    cache_policy: str | None = None,
    cache_root: Path | None = None,
) -> Run:
    """Measure a plan on this machine, one cell after another, and return the run.

    Each adapter runs in a venv and a process of its own, and an oracle checks that all did the same
    work. Each record is on disk before the next cell begins. After an interruption, the same call
    with ``resume`` continues the run.

    Args:
        work: a request, or a plan that `plan` made of one.
        results: the run's directory and stores; None for a new directory in ``results``.
        observer: receives the progress.
        retry: statuses whose cells are measured again when a run continues.
        part: the part of the plan to measure here; other machines measure the rest.
        share: groups of cells to take beside other processes with the same plan and directory;
            empty for any group, None to measure the plan alone.
        against: a git revision of skymark, measured in turn with the code here; its run is
            `Run.baseline`.
        own_venvs: give each adapter a venv of its own; else use the running interpreter's.
        cache_policy: policy of the libraries' caches, as in `skymark cache plan`: ``auto``,
            ``per-job``, ``shared``, ``prebuilt``, ``parquet``, ``parquet+shared`` or ``staggered``;
            None for the libraries' own defaults.
        cache_root: directory of those caches; None for skymark's own.

    Raises:
        UsageError: the request cannot be carried out here; nothing was measured.
        RunDirectoryError: the directory or a store holds another run, or cannot be written.
        StoreRefusedError: a store does not take the run; nothing was measured.
        StorageFullError: the disk is full; the records so far are whole.
    """
    from skymark.execute.claimed_groups import ClaimedGroups
    from skymark.execute.duration import require_time
    from skymark.execute.measurer import SilentObserver
    from skymark.execute.pairs import Pairs
    from skymark.execute.revision import find_revision
    from skymark.execute.run_caches import caches_of_run
    from skymark.execute.session import Strategy
    from skymark.execute.session import run as carry_out
    from skymark.execute.sweeps import Sweeps
    from skymark.store.kinds import wanted_urls

    wanted, _ = planned(work)
    chosen = results or Results()
    revision = find_revision(against) if isinstance(against, str) else against
    paired = revision is not None
    time = expected_time(wanted, part, in_pairs=paired, history=chosen.directory)
    require_time(wanted, time)
    strategy: Strategy = Sweeps(part, retry)
    if share is not None:
        strategy = ClaimedGroups(share)
    elif revision is not None:
        strategy = Pairs(revision, retry)
    watching = observer or SilentObserver()
    stored = chosen.changed(
        output=run_directory(wanted, chosen, paired=paired),
        stores=wanted_urls(chosen.stores, os.environ),
    )
    with caches_of_run(cache_policy, cache_root, wanted, part, watching.stage) as kept:
        finished = carry_out(wanted, stored, watching, strategy, own=own_venvs, cache_policy=kept)
    return _opened(finished)


def run_directory(plan: Plan, results: Results, *, paired: bool = False) -> Path:
    """Return the directory of a run: the given one, a new one, or an unfinished run's.

    Args:
        plan: the work.
        results: its directory; without one and with ``resume``, the newest unfinished run of the
            plan continues.
        paired: whether the run has a baseline.

    Raises:
        UsageError: there is no such run.
    """
    if results.output is not None:
        return results.output
    if results.resume:
        return unfinished_run(plan, results.directory, paired=paired)
    return new_directory(plan.profile, results.directory)


def _opened(finished: FinishedRun) -> Run:
    """Open a run that was just measured."""
    from skymark.report.results import Run
    from skymark.rundir.reader import open_run

    return Run.of(
        open_run(finished.path, known=finished.records),
        measured=finished.records,
        stored=finished.stored,
        ended=finished.ended,
        baseline=None if finished.baseline is None else _opened(finished.baseline),
    )


def tune(
    work: Work,
    *,
    step_ms: float | None = None,
    batch: int | None = None,
    target: float = TARGET,
    grid: Mapping[str, Sequence[Setting]] | None = None,
    exhaustive: bool = False,
    runs: Sequence[Path] = (),
    results: Results | None = None,
    observers: Observers | None = None,
    own_venvs: bool = True,
) -> Choice:
    """Find the library and the settings that keep an accelerator busy with the least CPU.

    Many candidates are measured for a moment, the best third for longer, and so on; an oracle
    checks all of them. The result is the candidate that keeps the accelerator busy with the least
    CPU. If no candidate keeps it busy, the result is the fastest. The directory has the result in
    ``tune.json``, beside a run's directory for each rung. After an interruption, the same call with
    ``resume`` continues.

    Args:
        work: the request that all candidates share; its settings are not tuned. Its effort, by
            default ``standard``, applies to the finalists. Its setting ``step`` names a training
            step, such as ``resnet50``, to measure first; it replaces `step_ms`.
        step_ms: milliseconds that the accelerator computes per batch.
        batch: elements of a batch; None for the scenario's.
        target: the share of time in which the accelerator should be busy, 0 to 1.
        grid: the values to try of each setting, in place of the usual ones.
        exhaustive: measure every candidate for as long as the finalists.
        runs: directories of runs, or of tunes, of the same work on other kinds of machines.
        results: the tune's directory; None for a new one in ``results``.
        observers: makes an observer for each rung, given its expected seconds.
        own_venvs: give each adapter a venv of its own; else use the running interpreter's.

    Raises:
        UsageError: the request cannot be carried out here; nothing was measured.
        RunDirectoryError: the directory holds something else, or cannot be written.
        StorageFullError: the disk is full; the records so far are whole.
    """
    from skymark.execute.measurer import SilentObserver
    from skymark.execute.session import run as carry_out
    from skymark.execute.sweeps import Sweeps
    from skymark.execute.tune import (
        Candidates,
        Rung,
        StepMeasurement,
        Tuned,
        TuningOrder,
        measure_rungs,
        stage_efforts,
    )
    from skymark.machine.disk import usable_cores
    from skymark.machine.measuring_lock import measuring
    from skymark.plain_files import explained, write_whole
    from skymark.report.tuning import LOG, OUTCOME, Choice, log_of, machines_of, runs_in

    place = results or Results()
    work = _work_of_tune(work)
    path = tune_directory(work.profile, place)
    _require_place_of_tune(path, place)
    observed = observers or (lambda _: nullcontext(SilentObserver()))

    def measured(plan: Plan, directory: Path, purpose: str) -> Sequence[Record]:
        with observed(
            expected_time(plan, history=place.directory).measuring.expected_s
        ) as observer:
            observer.stage(f"{directory}: {purpose}")
            own = Results(output=directory, resume=(directory / MANIFEST).exists())
            return carry_out(plan, own, observer, Sweeps(), own=own_venvs).records

    if step_ms is None:
        step = StepMeasurement.of(work, batch)
        (record,) = measured(step.plan, path / "step", f"the time of a step of {step.network}")
        work, step_ms = step.without_network, step.milliseconds(record)
    candidates = Candidates.of(work, step_ms, batch, grid, usable_cores())
    tuning, suite = candidates.tuning, candidates.suite
    wanted = candidates.plan()
    efforts = stage_efforts(tuning, work.effort or "standard", step_ms)[-1 if exhaustive else 0 :]
    if work.timeout_s is not None:
        efforts = [one.changed(cell_timeout_s=work.timeout_s) for one in efforts]
    order = TuningOrder.of(tuning, suite.declaration, target)
    same = (tuning.step, tuning.batch)
    machines = machines_of(runs_in(runs), wanted.cells[0].cell, suite, order, same)

    def run_rung(plan: Plan, rung: Path) -> Rung:
        expected_s = expected_time(plan, history=place.directory).measuring.expected_s
        each = f"{count_of(plan.effort.min_rounds, 'round')} each"
        what = f"{count_of(len(plan.runnable), 'candidate')}, {each}"
        return Rung(plan, rung, tuple(measured(plan, rung, what)), expected_s)

    def note_down(tuned: Tuned) -> None:
        with explained(path / LOG):
            write_whole(path / LOG, log_of(tuned).encode())

    tuned = measure_rungs(wanted, efforts, order, path, run_rung, candidates.names, note_down)
    choice = Choice(tuned, tuple(machines))
    if (chosen := tuned.chosen) is not None:
        with observed(0.0) as observer, measuring(announce=observer.stage):
            observer.stage("measuring what limits it on this machine")
            ceilings, limits = _limits_of(tuning, chosen)
        again = candidates.again(chosen.cell)
        where = () if own_venvs else ("--env", "current")
        choice = replace(
            choice,
            ceilings=tuple(ceilings),
            limits=tuple(limits),
            again=again,
            command=("skymark", "run", *words_of(again), *where),
            code=suite.code_of(chosen),
        )
    with explained(path / OUTCOME):
        write_whole(path / OUTCOME, choice.to_json().encode())
    return choice


def _limits_of(tuning: Tuning, chosen: Record) -> tuple[Sequence[Ceiling], Sequence[str]]:
    """Return the machine's own rates, and lines on what limits a tune's choice."""
    from skymark.cache.location import cache_directory
    from skymark.resources import load_object

    def by(reference: str | None) -> Sequence[Any]:
        return load_object(reference)(chosen, cache_directory()) if reference else ()

    return by(tuning.ceilings), by(tuning.limits)


def _work_of_tune(work: Work) -> Work:
    """Return a request with its project's defaults, but for time and effort."""
    if work.defaults is None:
        return work
    suite = load_profile(work.profile).suite
    return work.changed(defaults=work.defaults.of_tunes).resolved(suite)[0]


def tune_directory(profile: str, results: Results) -> Path:
    """Return the directory of a tune: the given one, a new one, or an unfinished tune's.

    Args:
        profile: its profile's name or file.
        results: its directory; without one and with ``resume``, the newest unfinished tune
            continues.

    Raises:
        UsageError: there is no such tune.
    """
    from skymark.report.tuning import OUTCOME

    if results.output is not None:
        return results.output
    if results.resume:
        return unfinished_tune(f"{profile}-tune", OUTCOME, results.directory)
    return new_directory(f"{profile}-tune", results.directory)


def _require_place_of_tune(path: Path, results: Results) -> None:
    """Refuse a directory with other content, or with a tune that is not to be continued."""
    if results.stores:
        raise UsageError("the rungs of a tune go to no store; leave out --store")
    if (path / MANIFEST).exists():
        raise RunDirectoryError(f"{path} holds a run and no tune; choose another --output")
    if not results.resume and path.is_dir() and any(path.iterdir()):
        raise RunDirectoryError(
            f"{path} is not empty; add --resume to continue a tune there, or choose another "
            "--output"
        )


def new_directory(name: str, within: Path = DEFAULT_RESULTS) -> Path:
    """Return the directory of a new run, of a profile's or another name."""
    return within / new_run_id(name, datetime.now(UTC))


def open(  # the public function is `skymark.open`
    place: Path | str, into: Path | str | None = None
) -> Run:
    """Open a run: a directory, a JSON file of pytest-benchmark, or a store's address.

    Args:
        place: such as ``results/RUN-ID``, ``s3://BUCKET/PREFIX/RUN-ID`` or
            ``wandb://ENTITY/PROJECT/runs/RUN-ID``.
        into: a new or empty directory that a stored run is fetched into; None for a temporary one,
            which goes with the result.

    Raises:
        UsageError: there is no run, or `into` has something in it.
        StoreError: the store cannot be read.
    """
    from skymark.report.pytest_benchmark import run_at
    from skymark.report.results import Run
    from skymark.rundir.reader import open_run
    from skymark.store.fetching import fetch, require_empty
    from skymark.store.kinds import is_address, open_source

    if not is_address(str(place)):
        return Run.of(run_at(Path(place)))
    if into is not None:
        require_empty(Path(into))
    directory = Path(mkdtemp(prefix="skymark-") if into is None else into)
    with closing(open_source(str(place))) as source:
        try:
            differing = fetch(source, directory)
        except FileNotFoundError as error:
            raise UsageError(str(error)) from error
    stored = open_run(directory)
    problems = (*stored.problems, *(f"{name}: is not as the run wrote it" for name in differing))
    run = Run.of(stored, problems=problems)
    if into is None:
        finalize(run, rmtree, directory, ignore_errors=True)
    return run


def compare(
    before: Run | Path | str,
    after: Run | Path | str,
    *,
    across: Sequence[Across] = (),
    practical: float | None = None,
) -> Comparison:
    """Compare two runs cell by cell.

    Faster or slower needs both a statistical and a practical difference, across rounds.

    Args:
        before: the reference: a run, or a place that `open` takes.
        after: the run in question, likewise.
        across: what may differ between them; by default nothing that changes figures may.
        practical: smallest relative difference that counts; None for 5 %, in pairs 2 %.

    Raises:
        UsageError: they have no cell in common, or differ in more than the result.
    """
    from skymark.report.compare import compare_runs
    from skymark.report.results import Comparison, Run

    reference, candidate = (one if isinstance(one, Run) else open(one) for one in (before, after))
    found = compare_runs(reference, candidate, across=across, practical=practical)
    return Comparison(**dict(found))
