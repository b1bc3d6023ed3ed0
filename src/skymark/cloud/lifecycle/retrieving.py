"""Download of results from a cluster or a store; faults become problems of the run.

If a directory fails, another is tried; if a machine fails, its store is tried. A machine's results
are first copied into a directory for incoming files, so they temporarily need twice their size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.lifecycle.copying import bring_home
from skymark.cloud.lifecycle.ending import is_gone
from skymark.cloud.lifecycle.results import ReturnedResults, bring_from_store, problems_of
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.clusters import find_cluster
from skymark.cloud.stores import stores_that_last
from skymark.model.errors import SkymarkError, StoreError, UsageError
from skymark.model.sizes import size_text

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


def from_store(finished: Finished, results: Path) -> Retrieved:
    """Bring results from the store that outlives the machines of a managed job."""
    address = finished.run.lasting_store
    assert address is not None
    return _from(address, finished, results)


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
        stored = _from(address, came.finished, results)
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


def _from(address: str, finished: Finished, results: Path) -> Retrieved:
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
    """Check before a machine is hired that its results can be downloaded.

    Raises:
        UsageError: the directory cannot take them, or what fetches them is not installed.
    """
    for program in ("rsync", "ssh"):
        if shutil.which(program) is None:
            raise UsageError(
                f"nothing was hired: results come home with {program}, which is not installed "
                f"here; apt install {'openssh-client' if program == 'ssh' else program}"
            )
    if (fault := fault_of(results)) is not None:
        raise UsageError(
            f"nothing was hired: results could not come home to --output {results}: {fault}; "
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
