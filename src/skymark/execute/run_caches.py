"""The caches of runs and the data they read: prepared by policy, or built before.

The suite, not a library, reads the data of `skymark run --data`: folders of images, tar shards,
the Hub and tables. So the cache stores the suite's rows, as sealed Parquet, every value unchanged.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skymark.cache.building import (
    CONTENT,
    CachedFile,
    CacheManifest,
    build_entry,
    damage,
    lay_over,
    read_manifest,
    write_sources,
)
from skymark.cache.conversion import CONVERTED, GROUP_BYTES, GROWTH, HUB_GROWTH, SHARD_BYTES
from skymark.cache.location import (
    KEPT_VARIABLE,
    OF_VARIABLE,
    Policy,
    library_variables,
    require_policy,
    root_of,
)
from skymark.cache.providing import PLAIN, case_of, choose, known_rates, wait_for_turn
from skymark.cache.sharing import job_directory, require_locks, unlocked, using
from skymark.cache.sources import look_at
from skymark.execute.partition.shard import Shard
from skymark.execute.planner import data_names, require_data
from skymark.execute.rank import ALONE, rank_here, turn_of
from skymark.model.base import digest_of
from skymark.model.data import NamedData
from skymark.model.errors import CacheError, DataError, UsageError
from skymark.model.plan import Plan
from skymark.suite.registry import suite_named, suites

GROUP_ROWS = 10_000
VALUE_BYTES = 8
"""Approximate size of a value other than text or bytes."""


def write_rows(data: NamedData, directory: Path) -> None:
    """Write all rows in order, in one pass; start another file when types change.

    Types are not widened over files, so reading returns exactly the reader's values.

    Raises:
        DataError: a row cannot be read, or its values cannot be kept as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, written, schema = 0, 0, None
    with ExitStack() as stack:
        for place, table in _tables(data):
            try:
                if table.schema != schema or written >= SHARD_BYTES:
                    stack.close()
                    path = directory / f"rows-{number:05d}.parquet"
                    writer = stack.enter_context(pq.ParquetWriter(path, table.schema))
                    number, written, schema = number + 1, 0, table.schema
                writer.write_table(table, row_group_size=table.num_rows)
            except pa.ArrowException as error:
                raise _unkept(place, error) from error
            written += table.nbytes
    if not number:
        raise DataError(f"{data.address} holds no row; give data that does")


def _tables(data: NamedData) -> Iterator[tuple[str, Any]]:
    """Yield a table for each row group, with the index of its first row."""
    import pyarrow as pa

    for places, rows in _groups(data.rows()):
        columns = zip(*rows, strict=True)
        try:
            arrays = [pa.array(column) for column in columns]
        except (pa.ArrowException, OverflowError) as error:
            raise _unkept(places, error) from error
        yield places, pa.table(dict(zip(data.fields, arrays, strict=True)))


def _groups(
    rows: Iterable[tuple[str, tuple[Any, ...]]],
) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Gather rows into groups of about `GROUP_BYTES`."""
    first, held, held_bytes = "", list[tuple[Any, ...]](), 0
    for place, values in rows:
        first = first or place
        held.append(values)
        held_bytes += sum(map(_bytes_of, values))
        if held_bytes >= GROUP_BYTES or len(held) >= GROUP_ROWS:
            yield first, held
            first, held, held_bytes = "", [], 0
    if held:
        yield first, held


def _bytes_of(value: Any) -> int:
    return len(value) if isinstance(value, (bytes, str, list)) else VALUE_BYTES


def _unkept(place: str, error: Exception) -> DataError:
    return DataError(
        f"{place} and the rows after it cannot be kept as Parquet ({error}); give a field one "
        "type, or take --cache-policy per-job or shared"
    )


LAYOUT = 1
"""Raise when the files are written otherwise, so that old entries are not read."""
SUFFIX = "-rows"
"""Of the names of entries."""
LONGEST_NAME = 60


def real_data_entry(root: Path, data: NamedData) -> Path:
    """Return the directory of the stored rows of data, whether it exists or not."""
    digest = digest_of([LAYOUT, data.fingerprint])
    return root.resolve() / CONVERTED / f"{_title(data)}-{digest[:16]}{SUFFIX}"


def build_real_data(
    root: Path,
    data: NamedData,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Store the rows of data, if no process has, and return the entry.

    Raises:
        DataError: a row cannot be read.
        CacheError: it cannot be written, or the data changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    entry = real_data_entry(root, data)

    def fill(content: Path) -> None:
        announce(f"converting {data.address} to Parquet in {entry}")
        write_rows(data, content)
        write_sources(content.parent, (look_at(f"train={file}") for file in data.files))
        if data.has_changed():
            raise CacheError(f"{data.address} has changed while it was read; build it again")

    def describe(files: dict[str, CachedFile]) -> CacheManifest:
        return CacheManifest(
            data_set=_title(data),
            data=data.address,
            fingerprint=data.fingerprint,
            versions={"pyarrow": version("pyarrow")},
            built_at=datetime.now(UTC),
            sealed=True,
            files=files,
        )

    growth = GROWTH if data.files else HUB_GROWTH
    needed_bytes = None if data.size_bytes is None else int(growth * data.size_bytes)
    build_entry(entry, fill, describe, needed_bytes=needed_bytes, announce=announce)
    return entry


def sealed_real_data(
    root: Path, data: NamedData, announce: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the prebuilt entry of data, after comparing every file with its digest.

    Raises:
        DataError: there is none, it is damaged, or the data has changed since; the message has the
            command that builds it.
    """
    entry = real_data_entry(root, data)
    build = (
        f"skymark cache build --data {shlex.quote(data.address)} --cache-policy prebuilt "
        f"--cache-root {shlex.quote(str(root))}"
    )
    if entry.is_dir():
        announce(f"comparing {entry} with its digests")
        manifest = read_manifest(entry)
        wrong = ["its manifest is damaged"] if manifest is None else damage(entry, manifest)
        if wrong:
            raise DataError(
                f"{entry} is not what was built: {wrong[0]}; remove it with `skymark cache clean "
                f"{entry.relative_to(root.resolve())}`, then build it again: {build}"
            )
        return entry
    for other in sorted(entry.parent.glob(f"*{SUFFIX}")):
        manifest = read_manifest(other)
        if manifest is not None and manifest.data == data.address:
            raise DataError(
                f"{data.address} has changed since {other} was built; build it: {build}"
            )
    raise DataError(f"there is no sealed cache of {data.address} in {root}; build it: {build}")


def _title(data: NamedData) -> str:
    last = data.address.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_")[:LONGEST_NAME] or "data"


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
            kept = str(directory / ROWS)
            rows = {KEPT_VARIABLE: kept, OF_VARIABLE: data.fingerprint}
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
