"""Copy a run from the machines that it ran on, again until it is what lies there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from skymark.cloud.errors import UnreachableError
from skymark.cloud.lifecycle.results import Results, launch_of, merge
from skymark.cloud.lifecycle.stored_part import stored_part
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.order import Order
from skymark.cloud.sky.hired import running_machines
from skymark.cloud.sky.ssh import host, rsync
from skymark.model.errors import DamagedManifestError, StoreRefusedError
from skymark.run.directory import RunDirectory
from skymark.run.layout import MANIFEST, RUN_FILE, SUMS

PLAIN = ("--no-links", "--no-devices", "--no-specials")
"""Options of rsync that leave what is no file or directory on the machine."""

CONTENT = ("--no-times", "--no-perms", "--no-owner", "--no-group")
"""Options of rsync that leave a file's attributes alone."""

COPIES = 3
"""How often a run is copied, where what came is not what lies on the machine."""


def bring_home(
    order: Order, directory: Path, running: Callable[[str], int | None] = running_machines
) -> Results | None:
    """Copy a run from every node of a cluster into one directory, and verify it there.

    Args:
        order: names the cluster, its nodes, the run and its plan.
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
                results = _copy(order, staging, whole, running)
            except DamagedManifestError:
                if last:
                    raise
                continue
            except StoreRefusedError as error:
                kept = directory.with_name(f"{directory.name}.refused")
                shutil.rmtree(kept, ignore_errors=True)
                staging.rename(kept)
                raise StoreRefusedError(f"{error}; all that came is in {kept}") from error
            if last or results is None or (results.faithful and not results.differing):
                break
        if results is None or not whole.exists():
            return results and results.model_copy(update={"directory": directory})
        _put_in_place(whole, directory, better=results.faithful)
        return results.model_copy(update={"directory": directory})
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy(
    order: Order, staging: Path, whole: Path, running: Callable[[str], int | None]
) -> Results | None:
    """Copy the parts of a run from their machines, make them one, and compare it with them.

    Where a machine is lost, what a store has of the run is one more part.
    """
    parts = [staging / str(node) for node in range(order.num_nodes)]
    silent: dict[int, UnreachableError] = {}
    for node, place in enumerate(parts):
        place.mkdir(parents=True)
        wanted = (
            *PLAIN,
            f"--include=/{order.run_id}/***",
            f"--include=/{order.run_id}.outcome",
            "--exclude=*",
        )
        try:
            rsync(order.cluster, *wanted, f"{host(order.cluster, node)}:{RESULTS}/", f"{place}/")
        except UnreachableError as error:
            silent[node] = error
    living = running(order.cluster) if 0 < len(silent) < order.num_nodes else None
    if silent and (living is None or not 0 < living <= order.num_nodes - len(silent)):
        raise next(iter(silent.values()))
    stored = stored_part(order, staging / "stored") if silent else None
    all_parts = parts if stored is None else [*parts, stored]
    results = merge(all_parts, order.run_id, whole, order.plan_hash)
    if results is None:
        return None
    had = [node for node, place in enumerate(parts) if (place / order.run_id).is_dir()]
    unequal = _unequal(order, whole, had)
    left = {path.partition("/")[2] for path in results.strange}
    changes: dict[str, object] = {
        "unequal": tuple(path for path in unequal if path not in left),
        "lost": tuple(silent),
    }
    if silent and results.missing:
        cells = RunDirectory(whole).manifest().cells
        changes["again"] = launch_of((cells[id] for id in results.missing), order)
    return results.model_copy(update=changes)


def _put_in_place(whole: Path, directory: Path, *, better: bool) -> None:
    """Give a run its directory; what is there already is replaced by what is proved better only."""
    if not directory.exists():
        whole.rename(directory)
    elif better:
        paths = RunDirectory(whole).files()
        for path in sorted(paths, key=lambda path: path in {MANIFEST, SUMS}):
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (whole / path).replace(directory / path)
    parent = os.open(directory.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _unequal(order: Order, directory: Path, nodes: Sequence[int]) -> tuple[str, ...]:
    """Return the files of a run that are not what lies on its machines, compared by checksum.

    The manifest and the list of digests here are those of the whole, and other than a machine's.
    """
    ours = {name for name in (MANIFEST, SUMS) if (directory / name).is_file()}
    found: list[str] = []
    for node in nodes:
        listed = rsync(
            order.cluster,
            "--checksum",
            "--dry-run",
            "--out-format=%i %n",
            *PLAIN,
            *CONTENT,
            f"{host(order.cluster, node)}:{RESULTS}/{order.run_id}/",
            f"{directory}/",
        )
        lines = [line.partition(" ") for line in listed.splitlines()]
        found += [path for change, _, path in lines if change.startswith(">f")]
    return tuple(path for path in found if RUN_FILE.fullmatch(path) and path not in ours)
