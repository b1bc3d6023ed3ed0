"""Caches prepared from a recipe and provided to a job, and the choice of their policy."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from skymark.cache.building import (
    CONTENT,
    build_entry,
    is_strangers,
    lay_over,
    require_sound,
    verify_strangers,
)
from skymark.cache.conversion import convert, converted_recipe
from skymark.cache.location import DATA_VARIABLE, MODULES, Policy, folder_of, library_variables
from skymark.cache.recipe import Recipe, recipe_of
from skymark.cache.sharing import job_directory, root_of_jobs, using
from skymark.cache.sources import changes, require_unchanged
from skymark.leases import Leases
from skymark.machine.disk import NETWORK, disk_of
from skymark.model.base import Count, Frozen
from skymark.model.errors import CacheError, UsageError
from skymark.model.sizes import size_text
from skymark.plain_files import read_regular, write_whole

PREPARED = "prepared"
"""Folder of the cache's root that the entries lie in."""
GROWTH = 3.0
"""Disk that a build takes, by the size of its sources: the download, and the Arrow form of it."""


def prepared_entry(root: Path, recipe: Recipe, *, sealed: bool) -> Path:
    """Return the directory of a recipe's cache, there or not."""
    return root.resolve() / PREPARED / f"{recipe.name}{'-sealed' if sealed else ''}"


def build_prepared(
    root: Path,
    recipe: Recipe,
    *,
    sealed: bool = False,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Build the cache of a recipe, if no process has, and return its directory.

    Raises:
        CacheError: it cannot be built, or its sources changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    entry = prepared_entry(root, recipe, sealed=sealed)

    def fill(content: Path) -> None:
        announce(f"building the cache of {recipe.data_set} in {entry}")
        recipe.fill(library_variables(content, recipe.folder))
        require_unchanged(recipe.sources)

    described = partial(recipe.manifest, versions=recipe.versions, sealed=sealed)
    needed_bytes = int(GROWTH * recipe.known_bytes)
    build_entry(entry, fill, described, needed_bytes=needed_bytes, announce=announce)
    return entry


def sealed_entry(
    root: Path, recipe: Recipe, announce: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the sealed cache of a recipe, checked.

    Raises:
        CacheError: there is none, it is damaged, or its source has changed since; the message
            names it.
    """
    entry = prepared_entry(root, recipe, sealed=True)
    if entry.is_dir():
        require_sound(entry)
        verify_strangers(entry, announce)
        return entry
    for other in sorted(entry.parent.glob(f"{recipe.data_set}-*-sealed")):
        manifest = require_sound(other)
        if changed := next(changes(manifest.sources), None):
            raise CacheError(
                f"{changed.text}, since {other} was built; build it anew with `skymark cache build "
                "--cache-policy prebuilt`"
            )
    raise CacheError(
        f"there is no sealed cache of {recipe.data_set} in {entry.parent} for these sources and "
        f"{recipe.versions or 'this command'}; build it first: skymark cache build "
        "--cache-policy prebuilt, with the same options"
    )


PLAIN = "plain"
"""Folder that libraries share on their own, under `Policy.STAGGERED`."""
STAGGER_S = 5.0
"""Seconds between the starts of two jobs, under `Policy.STAGGERED`."""


@contextmanager
def provided(
    policy: Policy,
    recipe: Recipe | None,
    root: Path,
    variables: Mapping[str, str],
    announce: Callable[[str], None] = lambda _: None,
    *,
    addresses: Sequence[str] = (),
    turn: int = 0,
    stagger_s: float = STAGGER_S,
) -> Iterator[dict[str, str]]:
    """Prepare a cache for a job, protect it from removal, and clean up after the job.

    Args:
        policy: any policy except `Policy.AUTO`, which the caller resolves.
        recipe: recipe of the data set; None if the policy needs none.
        root: directory of the caches.
        variables: environment variables, which identify the job.
        announce: callback for messages about progress.
        addresses: addresses of the data set, without a recipe.
        turn: number of jobs that start before this one.
        stagger_s: seconds between the starts of two jobs.

    Yields:
        The variables to give to the job.

    Raises:
        UsageError: the policy needs a data set.
        CacheError: the cache cannot be built or used.
        StorageFullError: the disk has no room for it.
    """
    root = root.resolve()
    if policy.needs_data_set and recipe is None:
        raise UsageError(f"--cache-policy {policy} prepares a data set; name its files")
    asked = addresses if recipe is None else [source.address for source in recipe.sources]
    place = root_of_jobs(root, policy, asked, announce)
    with ExitStack() as stack:
        lower, more = None, {}
        if recipe is not None and policy.converts:
            converted = convert(root, recipe, stack, announce=announce)
            more[DATA_VARIABLE] = str(converted)
            recipe = converted_recipe(recipe, converted)
        if recipe is not None and policy in {Policy.SHARED, Policy.PARQUET_SHARED}:
            stack.enter_context(using(prepared_entry(root, recipe, sealed=False), announce))
            lower = build_prepared(root, recipe, announce=announce)
        elif recipe is not None and policy is Policy.PREBUILT:
            stack.enter_context(using(prepared_entry(root, recipe, sealed=True), announce))
            lower = sealed_entry(root, recipe, announce)
        if policy is Policy.STAGGERED:
            wait_for_turn(turn, stagger_s, announce=announce)
            directory = root / PLAIN
        else:
            directory = stack.enter_context(job_directory(place, variables, announce))
        if lower is not None:
            lay_over(lower / CONTENT, directory)
            if is_strangers(lower):
                shutil.rmtree(directory / MODULES, ignore_errors=True)
        announce(f"cache policy {policy}: {lower or directory}")
        folder = folder_of(addresses) if recipe is None else recipe.folder
        yield {**library_variables(directory, folder), **more}


def wait_for_turn(
    turn: int,
    stagger_s: float = STAGGER_S,
    *,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait for this job's turn, so that simultaneous jobs start one after another."""
    if turn:
        announce(f"waiting {turn * stagger_s:g} s, for {turn} jobs come first")
        time.sleep(turn * stagger_s)


MEASURED = "thresholds.json"
"""File of the cache's root that holds what was measured."""
TRIAL_ROWS = 20_000
TRIAL_ROW_BYTES = 1000
TRIAL_LEASES = 20
LEAST_S = 0.01
"""That a difference of two times can tell."""


class Rates(Frozen):
    """Rates of one machine with one disk.

    The defaults were measured, twice, with ``skymark cache plan --measure`` on a busy virtual
    machine of 2 cores with a local ext4 disk.
    """

    convert_bytes_per_s: float = Field(default=9e6, gt=0)
    """JSON rows to Parquet."""
    build_bytes_per_s: float = Field(default=20e6, gt=0)
    """JSON rows to a library's Arrow cache, without its start; that of conversion without one."""
    lease_s: float = Field(default=0.008, gt=0)
    """To take a lease and give it back."""
    measured: bool = False
    """Whether they are this machine's."""


def known_rates(root: Path) -> Rates:
    """Return the measured rates of a root, or the defaults."""
    try:
        return Rates.model_validate_json(read_regular(root / MEASURED))
    except (OSError, ValueError):
        return Rates()


def measure_rates(root: Path, python: str | None) -> Rates:
    """Measure the rates on the disk of a root, and note them there (some seconds).

    Args:
        root: directory of the caches.
        python: interpreter that has `datasets`; None for none.

    Raises:
        CacheError: the interpreter has not the library, or the disk is full.
    """
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".measure-") as place:
        trial = Path(place)
        data = trial / "trial.json"
        rows = [{"index": n, "text": "x" * TRIAL_ROW_BYTES} for n in range(TRIAL_ROWS)]
        data.write_text("\n".join(map(json.dumps, rows)))
        size = data.stat().st_size
        recipe = recipe_of((str(data),), needs_library=False)
        begin = time.monotonic()
        with ExitStack() as stack:
            convert(trial, recipe, stack)
        convert_s = time.monotonic() - begin
        build_s = convert_s if python is None else _build_s(trial, data, python)
        rates = Rates(
            convert_bytes_per_s=size / convert_s,
            build_bytes_per_s=size / build_s,
            lease_s=_lease_s(trial),
            measured=True,
        )
    write_whole(root / MEASURED, rates.model_dump_json(indent=1).encode(), durable=False)
    return rates


def _build_s(trial: Path, data: Path, python: str) -> float:
    """Return the seconds that the library takes for the rows, beyond those for a single one."""
    single = trial / "single.json"
    single.write_text('{"index": 0, "text": ""}')
    took_s = []
    for number, file in enumerate((single, data)):
        asked = recipe_of((str(file),), python=python)
        variables = library_variables(trial / f"built-{number}", asked.folder)
        begin = time.monotonic()
        asked.fill(variables)
        took_s.append(time.monotonic() - begin)
    return max(took_s[1] - took_s[0], LEAST_S)


def _lease_s(trial: Path) -> float:
    leases = Leases(trial / "leases")
    begin = time.monotonic()
    for _ in range(TRIAL_LEASES):
        lease = leases.take(f"trial-{secrets.token_hex(4)}")
        assert lease is not None
        lease.release()
    return (time.monotonic() - begin) / TRIAL_LEASES


SHORT_BUILD_S = 10.0
"""All jobs' own builds together, up to which nobody needs to share."""
LONG_BUILD_S = 1800.0
"""One build, from which a job that dies should not have to do it again: it is kept sealed."""
FREE_SHARE = 0.5
"""Of the free space that all caches together may take."""

NOT_STAGGERED = "not recommended: each job waits longer, and two still meet where one is late"

Use = Literal["once", "often"]


class Case(Frozen):
    """Circumstances for the choice of a policy."""

    size_bytes: Count | None
    """Of the sources; None where it is not known."""
    jobs: int | None
    """That start at once; None where it is not known."""
    use: Use = "once"
    """Whether the data set is read by one wave of jobs, or again and again."""
    free_bytes: Count
    cores: int
    filesystem: str | None = None
    network: bool = False


class PolicyRow(Frozen):
    """A row of the decision table."""

    policy: Policy
    use: str
    size: str
    jobs: str
    why: str


class PolicyChoice(Frozen):
    """A policy with its reason, and all rows of the decision table."""

    policy: Policy
    reason: str
    rows: tuple[PolicyRow, ...]
    case: Case
    rates: Rates


def case_of(
    root: Path,
    size_bytes: int | None,
    jobs: int | None,
    use: Use,
    disk: Callable[[Path], tuple[str | None, str | None, int | None]] = disk_of,
) -> Case:
    """Return the case of a data set on the disk of a root."""
    kind, filesystem, free = disk(root)
    return Case(
        size_bytes=size_bytes,
        jobs=jobs,
        use=use,
        free_bytes=free or 0,
        cores=len(os.sched_getaffinity(0)),
        filesystem=filesystem,
        network=kind == "network" or filesystem in NETWORK,
    )


def choose(case: Case, rates: Rates) -> PolicyChoice:
    """Choose a policy; `Policy.PER_JOB` without enough information."""
    rows = decision_table(case, rates)
    policy, reason = _decide(case, rates)
    return PolicyChoice(policy=policy, reason=reason, rows=rows, case=case, rates=rates)


def decision_table(case: Case, rates: Rates) -> tuple[PolicyRow, ...]:
    """Return the six rows, with the limits of this machine in them."""
    small = f"up to {size_text(rates.build_bytes_per_s * SHORT_BUILD_S * case.cores)} over all jobs"
    fits = f"up to {size_text(case.free_bytes * FREE_SHARE / GROWTH)}"
    large = f"over {size_text(rates.build_bytes_per_s * LONG_BUILD_S)}"
    huge = f"over {size_text(case.free_bytes * FREE_SHARE / GROWTH)}"
    make = (
        (Policy.PER_JOB, "once", small, "any", "nothing to agree on; each job builds its own"),
        (Policy.SHARED, "once", fits, "many", "built once, other jobs wait"),
        (Policy.PREBUILT, "often", fits, "many", "built before, sealed, reused for weeks"),
        (Policy.PARQUET, "any", huge, "few", "compressed, streamed from any row group"),
        (Policy.PARQUET_SHARED, "often", large, "many", "parsed once, then shared"),
        (Policy.STAGGERED, "–", "–", "–", NOT_STAGGERED),
    )  # fmt: skip
    return tuple(PolicyRow(policy=p, use=u, size=s, jobs=j, why=w) for p, u, s, j, w in make)


def _decide(case: Case, rates: Rates) -> tuple[Policy, str]:
    """Return the policy of the first row that fits."""
    if case.size_bytes is None or case.jobs is None:
        what = "number of jobs (--jobs)" if case.jobs is None else "size of the data"
        return Policy.PER_JOB, f"the {what} is not known, and a cache of its own is safe"
    room, one_s = case.free_bytes * FREE_SHARE, case.size_bytes / rates.build_bytes_per_s
    cached, many = case.size_bytes * GROWTH, case.jobs > 1
    convert_s = case.size_bytes / rates.convert_bytes_per_s
    all_s = one_s * case.jobs / min(case.jobs, case.cores)
    if cached > room:
        policy = Policy.PARQUET_SHARED if many and case.size_bytes < room else Policy.PARQUET
        return policy, (
            f"a cache of about {size_text(cached)} does not fit into half of the "
            f"{size_text(case.free_bytes)} that are free; Parquet is streamed, once "
            f"{convert_s:,.0f} s have converted it"
        )
    if not many:
        return Policy.PER_JOB, "one job has nobody to share with"
    if case.use == "often":
        policy = Policy.PARQUET_SHARED if one_s > LONG_BUILD_S else Policy.PREBUILT
        return policy, f"it is used again and again: the {one_s:,.1f} s of a build are spent once"
    if all_s <= SHORT_BUILD_S and cached * case.jobs <= room:
        return Policy.PER_JOB, (
            f"all {case.jobs} builds take {all_s:,.1f} s together and "
            f"{size_text(cached * case.jobs)}: sharing saves less than it costs to think about"
        )
    price = f"; the barrier costs each job about {2 * rates.lease_s:.2g} s"
    where = f" on {case.filesystem}, whose locks are not needed" if case.network else ""
    return Policy.SHARED, (
        f"{case.jobs} builds take {all_s:,.1f} s and {size_text(cached * case.jobs)}, one takes "
        f"{one_s:,.1f} s and {size_text(cached)}{where}{price}"
    )
