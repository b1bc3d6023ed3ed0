"""Download of results from a cluster or a store; faults become problems of the run.

If a directory fails, another is tried; if a machine fails, its store is tried. A machine's results
are first copied into a directory for incoming files, so they temporarily need twice their size.
"""

from __future__ import annotations

import bisect
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from skymark.cloud.lifecycle.ending import is_gone
from skymark.cloud.lifecycle.results import (
    ReturnedResults,
    bring_from_store,
    launch_of,
    merge,
    problems_of,
    stored_part,
)
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.rented_run import RentedRun, stores_that_last
from skymark.cloud.sky.clusters import find_cluster, running_machines
from skymark.cloud.sky.ssh import host, take
from skymark.model.errors import (
    CloudError,
    DamagedManifestError,
    SkymarkError,
    StoreError,
    StoreRefusedError,
    UnreachableError,
    UsageError,
)
from skymark.model.sizes import count_of, size_text
from skymark.plain_files import LARGEST_FILE_BYTES, sync_directory
from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import FOLDERS, MANIFEST, MOST_BYTES, MOST_FILES, RUN_FILE, SUMS

COPIES = 3
"""How often a run is copied, where what came is not what lies on the machine."""

LISTED = ("--ignore-missing-args", f"--max-size={LARGEST_FILE_BYTES}")
"""Options of rsync for files that were listed: some may have gone since, or grown."""
LITTLE_BYTES = 32 << 20
"""A run of this size comes in one go; of a larger one the small files come first."""
STEPS = (("", "records", "rounds"), ("samples",), ("logs",))
"""Folders of a run in the order in which they come: a machine may go away on the way."""


def bring_home(
    run: RentedRun,
    directory: Path,
    running: Callable[[str], int | None] = running_machines,
) -> ReturnedResults | None:
    """Copy a run from every node of a cluster into one directory, and verify it there.

    Args:
        run: with the cluster's name, its nodes and its plan.
        directory: where it goes; made if absent.
        running: tells how many of a cluster's machines run; None where that is not known.

    Returns:
        None if no node had anything of the run.

    Raises:
        UnreachableError: a machine does not answer, and is not lost for good.
        CloudError: it could not be copied, or is of another plan.
        StoreRefusedError: it is too large as a whole; what came stays.
        SkymarkError, OSError: the directory cannot be written.
    """
    staging = directory.with_name(f".{directory.name}.incoming")
    whole = staging / "whole"
    try:
        for copy in range(1, COPIES + 1):
            last = copy == COPIES
            shutil.rmtree(staging, ignore_errors=True)
            try:
                results = _copy(run, staging, whole, running)
            except DamagedManifestError:
                if last:
                    raise
                continue
            except StoreRefusedError as error:
                kept = directory.with_name(f"{directory.name}.refused")
                shutil.rmtree(kept, ignore_errors=True)
                staging.rename(kept)
                raise StoreRefusedError(f"{error}; all that came is in {kept}") from error
            except CloudError as error:
                raise _with_what_came(error, run, staging, whole, directory) from error
            if last or results is None or (results.faithful and not results.differing):
                break
        if results is None or not whole.exists():
            return results and results.model_copy(update={"directory": directory})
        _put_in_place(whole, directory, better=results.faithful)
        return results.model_copy(update={"directory": directory})
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy(
    run: RentedRun, staging: Path, whole: Path, running: Callable[[str], int | None]
) -> ReturnedResults | None:
    """Copy the parts of a run from their machines, merge them, and compare the result.

    If a machine is lost, the run's files in a store are one more part.
    """
    parts = _parts(run, staging)
    silent: dict[int, UnreachableError] = {}
    taken: dict[int, list[str]] = {}
    left: list[str] = []
    for node, place in enumerate(parts):
        place.mkdir(parents=True)
        try:
            taken[node], strange = _take(run, node, place)
            left += strange
        except UnreachableError as error:
            silent[node] = error
    living = running(run.name) if 0 < len(silent) < run.machine.nodes else None
    if silent and (living is None or not 0 < living <= run.machine.nodes - len(silent)):
        raise next(iter(silent.values()))
    stored = stored_part(run, staging / "stored") if silent else None
    all_parts = parts if stored is None else [*parts, stored]
    results = merge(all_parts, run.run_id, whole, run.plan_hash, left)
    if results is None:
        return None
    changes: dict[str, object] = {
        "unequal": _unequal(run, whole, taken, staging),
        "lost": tuple(silent),
    }
    if silent and results.missing:
        cells = RunDirectory(whole).manifest().cells
        changes["again"] = launch_of((cells[id] for id in results.missing), run)
    return results.model_copy(update=changes)


def _parts(run: RentedRun, staging: Path) -> list[Path]:
    return [staging / str(node) for node in range(run.machine.nodes)]


def _with_what_came(
    error: CloudError, run: RentedRun, staging: Path, whole: Path, directory: Path
) -> CloudError:
    """Put what came before an error into a run's directory; returns the error that says so."""
    shutil.rmtree(whole, ignore_errors=True)
    with suppress(SkymarkError, OSError):
        came = merge(_parts(run, staging), run.run_id, whole, run.plan_hash)
        if came is not None and came.records and not directory.exists():
            _put_in_place(whole, directory, better=False)
            records = count_of(sum(came.records.values()), "earlier record")
            return type(error)(f"{error}; {directory} has {records}")
    return error


def _take(run: RentedRun, node: int, place: Path) -> tuple[list[str], list[str]]:
    """Copy the files of a run from a node, small files first.

    Returns:
        The copied paths, and the paths left there: too large, or no regular files.
    """
    sizes, left = _listed(run, node, place)
    there = f"{host(run.name, node)}:{RESULTS}/"
    steps = [[path for path in sizes if _step_of(run, path) == step] for step in STEPS]
    if sum(sizes.values()) <= LITTLE_BYTES:
        steps = [list(sizes)]
    for paths in filter(None, steps):
        size_bytes = sum(sizes[path] for path in paths)
        free_bytes = shutil.disk_usage(place).free
        if free_bytes < 2 * size_bytes:  # the parts of a run are put together in another place
            raise CloudError(
                f"{size_text(2 * size_bytes)} are needed below {place}, which has "
                f"{size_text(free_bytes)}"
            )
        listed = place.with_suffix(".list")
        listed.write_text("\n".join(paths))
        options = (*LISTED, f"--files-from={listed}")
        take(run.name, *options, there, f"{place}/", size_bytes=size_bytes)
    return [path for path in sizes if path != f"{run.run_id}.outcome"], left


def _listed(run: RentedRun, node: int, place: Path) -> tuple[dict[str, int], list[str]]:
    """Return the sizes of a run's files on a node by path, small ones first, and what is left."""
    id = run.run_id
    folders = [f"--include=/{id}/{one}" for name in FOLDERS for one in (f"{name}/", f"{name}/*")]
    listed = take(
        run.name,
        *("--dry-run", "--out-format=%i %l %n", "--links", "--specials"),
        *(f"--include=/{one}" for one in (f"{id}.outcome", f"{id}/")),
        *(f"--include=/{id}/{one}" for one in (MANIFEST, SUMS, "rounds/*/*")),
        *folders,
        "--exclude=*",
        f"{host(run.name, node)}:{RESULTS}/",
        f"{place}/",
    )
    found: list[tuple[int, str]] = []
    left: list[str] = []
    for line in listed.splitlines():
        kind, _, rest = line.partition(" ")
        size, _, path = rest.partition(" ")
        name = path.removeprefix(f"{id}/")
        if kind[1:2] == "d" or not (path == f"{id}.outcome" or RUN_FILE.fullmatch(name)):
            continue
        if kind.startswith(">f") and size.isdecimal() and int(size) <= LARGEST_FILE_BYTES:
            found.append((int(size), path))
        else:
            left.append(path)
    found.sort(key=lambda one: (_step_of(run, one[1]) != STEPS[0], one[0]))
    whole_bytes = list(itertools.accumulate(size for size, _ in found))
    most = min(MOST_FILES, bisect.bisect_right(whole_bytes, MOST_BYTES))
    return {path: size for size, path in found[:most]}, left + [path for _, path in found[most:]]


def _step_of(run: RentedRun, path: str) -> tuple[str, ...]:
    folder, slash, _ = path.removeprefix(f"{run.run_id}/").partition("/")
    return next(step for step in STEPS if (folder if slash else "") in step)


def _put_in_place(whole: Path, directory: Path, *, better: bool) -> None:
    """Move a run to its directory; only a better verified run replaces an existing one."""
    if not directory.exists():
        whole.rename(directory)
    elif better:
        paths = RunDirectory(whole).files()
        for path in sorted(paths, key=lambda path: path in {MANIFEST, SUMS}):
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (whole / path).replace(directory / path)
    sync_directory(directory.parent)


def _unequal(
    run: RentedRun, directory: Path, taken: Mapping[int, Sequence[str]], staging: Path
) -> tuple[str, ...]:
    """Return the files of a run that differ from its machines' files, by checksum.

    The local manifest and list of digests cover the whole run, so they differ from a machine's.
    """
    ours = {name for name in (MANIFEST, SUMS) if (directory / name).is_file()}
    found: list[str] = []
    listed = staging / "compared"
    for node, paths in taken.items():
        names = [path.removeprefix(f"{run.run_id}/") for path in paths]
        listed.write_text("\n".join(name for name in names if name not in ours))
        if not listed.stat().st_size:
            continue
        said = take(
            run.name,
            *(*LISTED, "--checksum", "--dry-run", "--no-times", "--no-perms"),
            "--out-format=%i %n",
            f"--files-from={listed}",
            f"{host(run.name, node)}:{RESULTS}/{run.run_id}/",
            f"{directory}/",
        )
        lines = [line.partition(" ") for line in said.splitlines()]
        found += [path for change, _, path in lines if change.startswith(">f") and path in names]
    return tuple(found)


GONE = (
    "the machine was gone before the download, and with it all results that are in no "
    "store; give --store, or a longer --idle-minutes"
)


LEAST_FREE_BYTES = 256 << 20
"""Room that a directory of runs must have."""

PROBE_BYTES = 1 << 16


def from_cluster(finished: Finished, results: Path) -> Retrieved:
    """Bring results from a cluster, or else from a store that has the whole of them.

    Args:
        finished: the run.
        results: directory of runs; others stand in where it does not take this one.
    """
    if _is_gone(finished.run):
        came = Retrieved(finished, problems=(GONE,) if finished.begun else (), gone=True)
    else:
        came = from_machine(finished, finished.run.name, results)
    lost = finished.begun and (came.results is None or not came.results.faithful)
    return else_stored(came, results) if lost else came


def from_machine(finished: Finished, cluster: str, results: Path) -> Retrieved:
    """Bring results from machines that are up, under the name that SSH knows them by."""
    run = finished.run.changed(name=cluster)
    came = brought(
        finished,
        results,
        lambda directory: bring_home(run, directory),
        nothing="the machine has no results: nothing was run",
    )
    if came.safe or not is_gone(finished.run.name):
        return came
    # Nothing is left that could be kept.
    return replace(came, problems=(*came.problems, GONE), safe=True, gone=True)


def brought(
    finished: Finished,
    results: Path,
    bring: Callable[[Path], ReturnedResults | None],
    *,
    nothing: str,
    later: str = "",
) -> Retrieved:
    """Download results to the first directory that takes them unchanged.

    Args:
        finished: the run.
        results: directory of runs to try first.
        bring: copies the run into a directory of its own; None without results.
        nothing: the problem without results.
        later: the command for a later download, for messages.
    """
    problems: list[str] = []
    damaged: ReturnedResults | None = None
    with closing(homes(results)) as candidates:
        for home in candidates:
            directory = home / finished.run.run_id
            try:
                fault = fault_of(home)
                found = None if fault is not None else bring(directory)
            except (UnreachableError, StoreError) as error:
                problems.append(f"the results could not be brought home: {error}{later}")
                break
            except (SkymarkError, OSError) as error:
                fault = str(error)
            if fault is not None:
                problems.append(f"the results could not come to {directory}: {fault}")
            elif found is None:
                return Retrieved(finished, problems=(*problems, nothing))
            elif found.faithful:
                moved = (f"the results are in {directory}",) if problems else ()
                return Retrieved(finished, found, (*problems, *moved, *problems_of(found)))
            else:
                problems += problems_of(found)
                damaged = damaged or found
    return Retrieved(finished, damaged, tuple(problems), safe=not finished.begun)


def else_stored(came: Retrieved, results: Path) -> Retrieved:
    """Download results from the first store that has all of them.

    If no store has all, and the machine gave none, take the results that a store has.
    """
    best = came
    for address in stores_that_last(came.finished.run.stores):
        stored = from_store(address, came.finished, results)
        if stored.results is None:
            continue
        if stored.results.whole:
            problems = (*came.problems, f"they came whole from {address}")
            problems += stored.problems
            return replace(came, results=stored.results, problems=problems, safe=True)
        if best.results is None and stored.results.faithful:
            problems = (*came.problems, f"skymark downloaded the part that {address} has")
            best = replace(came, results=stored.results, problems=(*problems, *stored.problems))
    return best


def from_store(address: str, finished: Finished, results: Path) -> Retrieved:
    """Bring results from a store that outlives their machines."""
    run = finished.run
    return brought(
        finished,
        results,
        lambda directory: bring_from_store(address, run, directory),
        nothing=f"{address} has no results: nothing was run",
        later=f"; later: skymark fetch {address}/{run.run_id} {results / run.run_id}",
    )


def _is_gone(run: RentedRun) -> bool:
    """Whether SkyPilot has no such cluster; where it does not answer, the cluster may."""
    try:
        return find_cluster(run.name, refresh=False) is None
    except CloudError:
        return False


def check_home(results: Path) -> None:
    """Check before a machine is rented that its results can be downloaded.

    Raises:
        UsageError: the directory cannot take them, or what fetches them is not installed.
    """
    for program in ("rsync", "ssh"):
        if shutil.which(program) is None:
            raise UsageError(
                f"nothing was rented: results come home with {program}, which is not installed "
                f"here; apt install {'openssh-client' if program == 'ssh' else program}"
            )
    if (fault := fault_of(results)) is not None:
        raise UsageError(
            f"nothing was rented: results could not come home to --output {results}: {fault}; "
            "choose another"
        )


def fault_of(results: Path) -> str | None:
    """Return why a directory could not take results, or None; it is not made yet.

    Tried are a directory of its name and a file, in the nearest directory above that is there.
    """
    there = results.absolute()
    missing: list[str] = []
    while not os.path.lexists(there):
        missing.append(there.name)
        there = there.parent
    if not there.is_dir():
        return f"{there} is no directory"
    try:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=there) as probe:
            inside = Path(probe, *reversed(missing))
            inside.mkdir(parents=True, exist_ok=True)
            with (inside / "probe").open("wb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        free_bytes = shutil.disk_usage(there).free
    except OSError as error:
        return f"{there}: {error.strerror or error}"
    if free_bytes < LEAST_FREE_BYTES:
        return (
            f"{there} has {size_text(free_bytes)} left, and {size_text(LEAST_FREE_BYTES)} are "
            "needed"
        )
    return None


def homes(results: Path) -> Generator[Path, None, None]:
    """Yield directories of runs to try for results, one after another.

    They are the user's directory, a directory in the user's home, and a new temporary directory.
    """
    yield results
    yield Path.home() / "skymark-results"
    try:
        new = Path(tempfile.mkdtemp(prefix="skymark-results-"))
    except OSError:  # there is no place for temporary files
        return
    try:
        yield new
    finally:
        with suppress(OSError):  # something came to it
            new.rmdir()
