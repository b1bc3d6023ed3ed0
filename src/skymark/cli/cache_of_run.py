"""The caches of the libraries of a run, by `--cache-policy`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.cache.jobs import job_directory
from skymark.cache.library_variables import library_variables
from skymark.cache.policy import Policy
from skymark.cache.providing import PLAIN, wait_for_turn
from skymark.cli.cache_options import root_of
from skymark.cli.caller import note
from skymark.execute.ranks.turn import turn_of
from skymark.model.errors import UsageError

RUN = "run"
"""Name of the data set of a run: its libraries' own caches have no other."""


@contextmanager
def caches_of_run(chosen: str | None, root: Path | None) -> Iterator[str | None]:
    """Send the caches of this process's libraries, and of its workers', where a policy says.

    What a run reads, skymark itself fetches and converts, once for all runs, so a policy that
    prepares a data set has nothing to prepare here.

    Yields:
        The policy and the directory, for the manifest; None where none was chosen.

    Raises:
        UsageError: the policy prepares a data set.
        CacheError: the directory may not be written.
    """
    if chosen is None:
        yield None
        return
    policy, place = policy_of_run(chosen), root_of(root)
    if policy is Policy.AUTO:
        policy = Policy.PER_JOB
        note(
            "cache policy auto: per-job, for how many runs share the root is not known, and its "
            "own is safe; `skymark cache plan` shows the others"
        )
    if policy is Policy.PER_JOB:
        with job_directory(place, os.environ, note) as directory, _sent_to(directory):
            yield _said(policy, directory)
        return
    if policy is Policy.STAGGERED:
        wait_for_turn(turn_of(os.environ), announce=note)
    directory = place / (PLAIN if policy is Policy.STAGGERED else Policy.SHARED)
    with _sent_to(directory):
        yield _said(policy, directory)


def policy_of_run(chosen: str) -> Policy:
    """Return the policy of a name that `skymark run` takes.

    Raises:
        UsageError: it prepares a data set.
    """
    policy = Policy(chosen)
    if policy.needs_data_set and policy is not Policy.SHARED:
        raise UsageError(
            f"--cache-policy {policy} prepares one data set, which --data of a run does by itself; "
            f"for libraries of your own adapters: skymark cache use --cache-policy {policy} --data "
            "FILES -- skymark run …"
        )
    return policy


def _said(policy: Policy, directory: Path) -> str:
    text = f"{policy}: {directory}"
    note(f"cache policy {text}")
    return text


@contextmanager
def _sent_to(directory: Path) -> Iterator[None]:
    """Set the variables of the caches, for this process and what it starts, for a while."""
    variables = library_variables(directory, RUN)
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
