"""A whole comparison in pairs: two run directories, their stores, one measuring lock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from skymark.cache.entries import RUNS
from skymark.cache.location import cache_directory
from skymark.cache.sharing import using
from skymark.execute.accelerator import require_accelerator, target_of
from skymark.execute.asking import Interpreters
from skymark.execute.duet_engine import BaselineSide, DuetEngine, DuetSide
from skymark.execute.observer import Observer
from skymark.execute.resuming import OpenedRun, begun, opened_run, require_same_plan_here, run_id_of
from skymark.execute.revision import Revision, RevisionCode, code_of
from skymark.execute.session import FinishedRun
from skymark.execute.venvs import Venvs
from skymark.machine.measuring_lock import measuring
from skymark.model.errors import UsageError
from skymark.model.machine import GitState
from skymark.model.manifest import Duet, Manifest, Side
from skymark.model.plan import Plan
from skymark.model.record import Status
from skymark.store.store import FINISH_S, Store
from skymark.suite.registry import suite_named

OpenStores = Callable[[str], Mapping[str, Store]]
"""Opens the stores of the run with an id, by the address the user named."""


@dataclass(frozen=True)
class Place:
    """One side's directory and stores."""

    path: Path
    stores: Mapping[str, Store]
    duet: Duet


@dataclass(frozen=True)
class BothUploads:
    """The uploads of both sides, which keep still together."""

    runs: Sequence[OpenedRun]

    def hold(self) -> Sequence[str]:
        """Keep still for a round; returns the addresses of those that did not in time."""
        return [url for run in self.runs for url in run.storing.hold()]

    def release(self) -> None:
        """Go on: the rounds of a worker are over."""
        for run in self.runs:
            run.storing.release()


def baseline_path(path: Path) -> Path:
    """Return the directory of the baseline's run beside that of the candidate."""
    return path.with_name(f"{path.resolve().name}-baseline")


def require_pairs(plan: Plan) -> None:
    """Refuse a plan whose cells cannot be measured in pairs.

    Raises:
        UsageError: its primary metric does not vary, or its rounds share a time.
    """
    metric = suite_named(plan.suite).declaration.primary_metric
    if metric.scale == "exact":
        raise UsageError(
            f"--against repeats rounds in pairs, and {metric.heading} of the suite {plan.suite} "
            "does not vary from round to round; run each revision once, and skymark compare A B"
        )
    if plan.allotment is not None:
        raise UsageError(
            "--against gives each cell pairs of rounds until its ratio is known, and --time gives "
            "rounds to the cells whose rank is undecided; leave out --time, or give --rounds in "
            "place of the profile's time"
        )


def run_duet(  # as many as those of a run
    plan: Plan,
    path: Path,
    revision: Revision,
    observer: Observer,
    *,
    open_stores: OpenStores = lambda _: {},
    resume: bool = False,
    retry: Collection[Status] = (),
    own: bool = True,
    store_wait_s: float = FINISH_S,
    cache_policy: str | None = None,
) -> tuple[FinishedRun, FinishedRun]:
    """Measure a plan in pairs: with the code of a revision, and with the code that runs.

    Args:
        plan: what to run on both sides.
        path: the candidate's directory; the baseline's is beside it (`baseline_path`).
        revision: whose code and pins the baseline runs.
        observer: told how it goes.
        open_stores: opens each side's stores.
        resume: continue such a comparison with the same revision.
        retry: statuses whose cells are to be run again.
        own: give each adapter an environment of its own; else use the running one.
        store_wait_s: how long the end of the run waits for stores.
        cache_policy: where libraries keep their caches, for the manifest.

    Returns:
        The runs of baseline and candidate.

    Raises:
        UsageError: the plan has no pairs, this machine has not what the plan's platform asks for,
            or the revision's worker does not answer; nothing was measured.
        RunDirectoryError, StoreRefusedError, StorageFullError: as `run_plan`.
    """
    require_pairs(plan)
    require_accelerator(plan.platform, observer.stage, own=own, asks=False)
    cache = cache_directory()
    suite = suite_named(plan.suite)
    places = _places(path, revision, open_stores)
    manifests = [
        _manifest(begun(plan, suite, place.path, cache, place.stores, cache_policy), place.duet)
        for place in places
    ]
    for place, manifest in zip(places, manifests, strict=True):
        require_same_plan_here(place.path, manifest, resume=resume)
    with ExitStack() as stack:
        stack.enter_context(using(cache / RUNS, observer.stage))
        code = code_of(revision, cache, observer.stage)
        runs = [
            stack.enter_context(
                opened_run(place.path, manifest, place.stores, observer, resume=resume)
            )
            for place, manifest in zip(places, manifests, strict=True)
        ]
        parts = (plan, suite)
        uploads = BothUploads(runs)
        baseline, candidate = runs
        engine = DuetEngine(
            BaselineSide(
                *(*parts, baseline.directory, cache, observer),
                _interpreters(plan, cache, observer, own=own, code=code),
                uploads=uploads,
            ),
            DuetSide(
                *(*parts, candidate.directory, cache, observer),
                _interpreters(plan, cache, observer, own=own),
                uploads=uploads,
            ),
            [planned.cell for planned in plan.cells],
            suite.declaration.primary_metric,
            plan.bounds,
            observer,
        )
        try:
            with measuring(announce=observer.stage):
                found = engine.run(retry)
        except BaseException:
            for run in runs:
                run.leave(observer)
            raise
        before, after = (
            FinishedRun(tuple(records), tuple(run.finish(plan, records, store_wait_s, observer)))
            for run, records in zip(runs, found, strict=True)
        )
        return before, after


def _places(path: Path, revision: Revision, open_stores: OpenStores) -> list[Place]:
    """Return the places of baseline and candidate, each of which names the other."""
    beside = baseline_path(path)
    ids = run_id_of(beside), run_id_of(path)
    sides: list[tuple[Side, Path, str, str]] = [
        ("baseline", beside, *ids),
        ("candidate", path, *ids[::-1]),
    ]
    return [
        Place(where, open_stores(own), Duet(side=side, partner=other, commit=revision.commit))
        for side, where, own, other in sides
    ]


def _manifest(manifest: Manifest, duet: Duet) -> Manifest:
    """Return the manifest of one side; the baseline's has the commit that it runs."""
    machine = manifest.machine
    if duet.side == "baseline":
        git = GitState(commit=duet.commit, dirty=False)
        machine = machine.model_copy(update={"git": git})
    return manifest.model_copy(update={"duet": duet, "machine": machine})


def _interpreters(
    plan: Plan, cache: Path, observer: Observer, *, own: bool, code: RevisionCode | None = None
) -> Interpreters:
    """Return what workers run in: with the code and the pins of a revision, or these."""
    requirements = None if code is None else code.requirements
    return Interpreters(
        Venvs(cache, observer.stage, requirements) if own else None,
        Path(sys.executable),
        target_of(plan.platform),
        None if code is None else code.package,
    )
