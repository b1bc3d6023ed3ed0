"""Runs in a directory of runs: all of them, the newest one, and the newest unfinished one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.requests import DEFAULT_RESULTS
from skymark.model.sizes import some_of
from skymark.rundir.layout import MANIFEST, name_in_id
from skymark.rundir.reader import read_manifest

LATEST = "latest"
"""Link in ``results`` to the newest run."""
NAMED = 3
"""Unfinished runs that a message names."""


def runs_in(directory: Path) -> list[Path]:
    """Return the directories of runs in a directory, by name, without the link to the newest."""
    found = sorted(path.parent for path in directory.glob(f"*/{MANIFEST}"))
    return [one for one in found if not _is_link(one)]


def _is_link(path: Path) -> bool:
    return path.name == LATEST and path.is_symlink()


def own_directory(output: Path) -> Path:
    """Return a run's own directory where its path is the link, which another run may change."""
    return output.resolve() if _is_link(output) else output


def point_at(run: Path, within: Path = DEFAULT_RESULTS) -> None:
    """Let the link in ``results`` lead to a run that lies there.

    The link changes in one step, so that runs can begin at once. Without links in the file system,
    or with something else of that name, nothing changes.
    """
    if run.is_symlink() or run.resolve().parent != within.resolve():
        return
    new = within / f".{LATEST}-{secrets.token_hex(4)}"
    try:
        new.symlink_to(run.name)
        new.replace(within / LATEST)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def newest_run(within: Path = DEFAULT_RESULTS, suite: str | None = None) -> Path:
    """Return the directory of the newest run in a directory of runs.

    Args:
        within: directory of runs.
        suite: suite of the run; None for any.

    Raises:
        UsageError: there is none.
    """
    for run in _linked_and_newest(within):
        with suppress(RunDirectoryError):
            if suite is None or read_manifest(run).plan.suite == suite:
                return run
    sort, command = ("", "run") if suite is None else (f" of the suite {suite}", f"{suite} run")
    raise UsageError(
        f"no run{sort} in {within}; name a run's directory, or make one: skymark {command}"
    )


def _linked_and_newest(within: Path) -> Iterator[Path]:
    """Yield the run that the link leads to, then all runs, the newest first."""
    linked = (within / LATEST).resolve()
    if linked.parent == within.resolve() and (linked / MANIFEST).is_file():
        yield within / linked.name
    yield from _newest_first(runs_in(within))


def unfinished_run(plan: Plan, within: Path = DEFAULT_RESULTS, *, paired: bool = False) -> Path:
    """Return the directory of the newest unfinished run of a plan.

    Args:
        plan: the work.
        within: directory of runs.
        paired: whether the run has a baseline.

    Raises:
        UsageError: there is none; the message has the unfinished runs of other plans.
    """
    others = []
    for path, manifest in _unfinished(_newest_first(runs_in(within))):
        pair = manifest.duet
        if pair is not None and pair.side == "baseline":
            continue
        if manifest.plan_hash == plan.hash and paired == (pair is not None):
            return path
        others.append(os.fspath(path))
    there = (
        f"; unfinished runs of other plans: {some_of(others, NAMED)}. Give the options of their "
        "first start"
        if others
        else "; leave out --resume, or name a run with --output"
    )
    raise UsageError(f"no unfinished run of this plan in {within}{there}")


def unfinished_tune(name: str, outcome: str, within: Path = DEFAULT_RESULTS) -> Path:
    """Return the directory of the newest unfinished tune of a name.

    Args:
        name: the name that its directory was made of, as in `new_run_id`.
        outcome: name of the file that a finished tune has.
        within: directory of tunes.

    Raises:
        UsageError: there is none.
    """
    clean = name_in_id(name)
    found = sorted(one for one in within.glob(f"*-{clean}-*") if not (one / outcome).exists())
    if not found:
        raise UsageError(
            f"no unfinished tune {clean} in {within}; leave out --resume, or name one with --output"
        )
    return found[-1]


def _unfinished(paths: Iterable[Path]) -> Iterator[tuple[Path, Manifest]]:
    """Yield the runs without an end, with their manifests."""
    for path in paths:
        with suppress(RunDirectoryError):
            manifest = read_manifest(path)
            if not manifest.finished:
                yield path, manifest


def _newest_first(paths: Iterable[Path]) -> list[Path]:
    """Return the directories of runs by the time of their manifest's last change."""
    written = {}
    for path in paths:
        with suppress(OSError):
            written[path] = (path / MANIFEST).stat().st_mtime_ns
    return sorted(written, key=written.__getitem__, reverse=True)
