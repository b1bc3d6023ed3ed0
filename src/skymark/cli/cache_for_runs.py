"""Building of the data of runs, before they start: `skymark cache build --data`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skymark.cache.file_locks import unlocked
from skymark.cache.jobs import job_directory
from skymark.cache.library_variables import library_variables
from skymark.cache.policy import Policy
from skymark.cache.real_data import build_real_data
from skymark.cli.cache_of_run import RUN, variables_set
from skymark.cli.caller import note, print_plain
from skymark.model.errors import UsageError
from skymark.model.named_data import NamedData
from skymark.suite.registry import suites


def build_for_runs(root: Path, name: str, policy: Policy, beside: Sequence[object]) -> int:
    """Build the sealed cache of data as `skymark run --data` names it, and print the run's option.

    Args:
        root: directory of the caches.
        name: of the data.
        policy: of the runs.
        beside: values of options that only a library's cache has.

    Raises:
        UsageError: it is not for such a policy, or other options say how a library reads the data.
        DataError: the data cannot be read.
    """
    if not policy.needs_data_of_run or policy is Policy.PARQUET:
        raise UsageError(
            f"--data builds what all runs read: --cache-policy prebuilt or parquet+shared; under "
            f"{policy} each run has what it needs"
        )
    if any(beside):
        raise UsageError(
            "--data names all that `skymark run --data` reads, in its own way; leave out other "
            "sources, --field, --prepare, --python, --build-limit, --to and --shards"
        )
    data = open_data(name)
    if data is None:
        raise UsageError("no installed suite reads data that is named with --data")
    with (
        job_directory(root, os.environ, note) as directory,
        unlocked(directory),
        variables_set(library_variables(directory, RUN)),  # where the Hub's client downloads to
    ):
        entry = build_real_data(root, data, policy=policy, announce=note)
    print_plain(f"{data.address}: {entry}")
    print_plain(
        f"read it with: skymark run --data {name} --cache-policy {policy} --cache-root {root}"
    )
    return 0


def open_data(name: str) -> NamedData | None:
    """Open real data as `skymark run --data` names it; None where no installed suite reads any.

    Raises:
        DataError: it cannot be read.
    """
    found = (suite.open_data(name) for suite in suites())
    return next((data for data in found if data is not None), None)
