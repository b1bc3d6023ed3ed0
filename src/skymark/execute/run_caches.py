"""The caches of runs and the data they read: prepared by policy, or built before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from skymark.cache.jobs import job_directory
from skymark.cache.location import (
    Policy,
    library_variables,
    require_policy,
    root_of,
    stand_in_variables,
)
from skymark.cache.manifest import CONTENT, lay_over
from skymark.cache.providing import PLAIN, wait_for_turn
from skymark.cache.real_data import build_real_data, real_data_entry, sealed_real_data
from skymark.cache.sharing import require_locks, unlocked, using
from skymark.execute.named_data import data_names, require_data
from skymark.execute.partition.shard import Shard
from skymark.execute.ranks.rank import ALONE
from skymark.execute.ranks.reading import rank_here, turn_of
from skymark.model.data import NamedData
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.suite.registry import suite_named, suites

Announce = Callable[[str], None]
RUN = "run"
"""Name of the data set of a run, for its libraries' own caches."""
ROWS = "rows"
"""Folder of a job's directory with links to the stored rows of its data."""


@contextmanager
def caches_of_run(
    chosen: str | None,
    root: Path | None,
    plan: Plan,
    part: Shard | None = None,
    announce: Announce = lambda _: None,
) -> Iterator[str | None]:
    """Direct the caches of this process's libraries by a policy, and cache the run's data.

    Args:
        chosen: the policy; None for none.
        root: directory of the caches; None for skymark's own.
        plan: plan of the run.
        part: this worker's part of the plan, if there are several workers.
        announce: callback for messages about the policy, the directory and waiting.

    Yields:
        The policy and the directory, for the manifest; None without a policy.

    Raises:
        UsageError: there is no such policy, a directory comes without one, or the policy needs
            named data, and this run has none.
        DataError: the data cannot be read, or a cache that must be there is not, or is damaged.
        CacheError: the directory may not be written, or its file system has no locks.
        StorageFullError: the disk has no room.
    """
    require_policy(chosen, root)
    if chosen is None:
        yield None
        return
    policy, place = Policy(chosen), root_of(root)
    require_data(chosen, plan)
    require_locks(place, "name a --cache-root on a disk of this machine")
    data = None
    if policy is Policy.AUTO or policy.needs_data_of_run:
        data = _opened(plan)
    if policy is Policy.AUTO:
        policy, reason = _decided(place, data, _jobs(part))
        others = "`skymark cache plan` compares all policies"
        announce(f"cache policy auto: {policy} ({reason}); {others}")
    with ExitStack() as stack:
        if policy is Policy.STAGGERED:
            wait_for_turn(turn_of(os.environ), announce=announce)
            directory = place / PLAIN
        elif policy is Policy.SHARED:
            directory = place / Policy.SHARED
        else:
            directory = stack.enter_context(job_directory(place, os.environ, announce))
        stack.enter_context(variables_set(library_variables(directory, RUN)))
        shown = directory
        if data is not None and policy.needs_data_of_run:
            shown = _kept(policy, data, place, directory, stack, announce)
            rows = stand_in_variables(data.fingerprint, directory / ROWS)
            stack.enter_context(variables_set(rows))
        text = f"{policy}: {shown}"
        announce(f"cache policy {text}")
        yield text


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for this process and its children within the context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _opened(plan: Plan) -> NamedData | None:
    """Open the data that a plan names; None if it names none, or several."""
    names = data_names(plan)
    return suite_named(plan.suite).open_data(names[0]) if len(names) == 1 else None


def _kept(
    policy: Policy,
    data: NamedData,
    root: Path,
    directory: Path,
    stack: ExitStack,
    announce: Announce,
) -> Path:
    """Store the rows of data by a policy, link them into a job's directory, return the entry."""
    own = directory if policy is Policy.PARQUET else root
    stack.enter_context(using(real_data_entry(own, data), announce))
    if policy is Policy.PREBUILT:
        entry = sealed_real_data(root, data, announce)
    else:
        entry = build_real_data(own, data, announce=announce)
    lay_over(entry / CONTENT, directory / ROWS)
    return entry


def _jobs(part: Shard | None) -> int | None:
    """Return the number of simultaneous runs, by their split or a scheduler; None if unknown."""
    if part is not None:
        return len(part.split.places)
    rank = rank_here(os.environ)
    return None if rank is ALONE else rank.count


def _decided(root: Path, data: NamedData | None, jobs: int | None) -> tuple[Policy, str]:
    """Return the policy that fits, and the reason for it."""
    from skymark.cache.choosing import case_of, choose, known_rates

    if data is None:
        return Policy.PER_JOB, "there is no --data to share"
    if jobs is None:
        return Policy.PER_JOB, (
            "the number of simultaneous runs is unknown: no --split, --shard or scheduler"
        )
    choice = choose(case_of(root, data.size_bytes, jobs, "once"), known_rates(root))
    return choice.policy, choice.reason


def build_for_runs(root: Path, name: str, announce: Announce) -> tuple[str, Path]:
    """Build the sealed cache of data as `skymark run --data` names it.

    Args:
        root: directory of the caches.
        name: the user's name for the data.
        announce: callback for messages about waiting.

    Returns:
        The data's address, and the cache's directory.

    Raises:
        UsageError: no installed suite reads such data.
        DataError: the data cannot be read.
    """
    data = open_data(name)
    if data is None:
        raise UsageError("no installed suite reads --data; leave it out, or install such a suite")
    with (
        job_directory(root, os.environ, announce) as directory,
        unlocked(directory),
        variables_set(library_variables(directory, RUN)),  # where the Hub's client downloads to
    ):
        entry = build_real_data(root, data, announce=announce)
    return data.address, entry


def open_data(name: str) -> NamedData | None:
    """Open real data as `skymark run --data` names it; None where no installed suite reads any.

    Raises:
        DataError: it cannot be read.
    """
    found = (suite.open_data(name) for suite in suites())
    return next((data for data in found if data is not None), None)
