"""Bring a run home from the machines it ran on, and verify that nothing is lost or changed."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cloud.errors import CloudError
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.ssh import PAUSE_S, host, rsync
from skymark.model.base import Frozen
from skymark.model.manifest import Manifest
from skymark.model.record import Status
from skymark.run.directory import RunDirectory
from skymark.store.fetching import fetch
from skymark.store.store import open_source

CANCELLED_S = 30.0
"""What SkyPilot gives the processes of a cancelled job to end."""


class Brought(Frozen):
    """What came home of a run."""

    directory: Path
    records: dict[Status, int]
    missing: tuple[str, ...]
    """Ids of planned cells without a record, or without the samples that belong to it."""
    differing: tuple[str, ...]
    """Files that are not what the run's own digests say."""
    phases: tuple[str, ...]
    """How each node ended, such as ``run 0`` or ``setup 1``; empty where it never began."""

    @property
    def whole(self) -> bool:
        """Whether every planned cell's record is there and every file as it was written."""
        return bool(self.records) and not self.missing and not self.differing


def await_outcome(cluster: str, nodes: int, run_id: str) -> None:
    """Wait until every node of a cluster has written how its part of a run ended.

    Raises:
        CloudError: one has not after the time that SkyPilot gives a cancelled job, or cannot be
            reached.
    """
    with TemporaryDirectory() as place:
        for node in range(nodes):
            there = f"{host(cluster, node)}:{RESULTS}/{run_id}.outcome"
            rsync(cluster, there, place, attempts=1 + math.ceil(CANCELLED_S / PAUSE_S))


def bring_home(cluster: str, nodes: int, run_id: str, directory: Path) -> Brought | None:
    """Copy a run from every node of a cluster into one directory, and verify it there.

    Args:
        cluster: where it ran.
        nodes: how many machines had a part of the plan.
        run_id: its directory's name on the machines.
        directory: where it goes; made if absent.

    Returns:
        What came, or None if no node had anything of the run.

    Raises:
        CloudError: a machine could not be reached.
    """
    staging = directory.with_name(f".{directory.name}.incoming")
    try:
        for node in range(nodes):
            place = staging / str(node)
            place.mkdir(parents=True, exist_ok=True)
            wanted = (f"--include=/{run_id}/***", f"--include=/{run_id}.outcome", "--exclude=*")
            rsync(cluster, *wanted, f"{host(cluster, node)}:{RESULTS}/", f"{place}/")
        brought = merge([staging / str(node) for node in range(nodes)], run_id, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return brought


def bring_from_store(address: str, run_id: str, directory: Path) -> Brought | None:
    """Bring a run from a store into a directory, and verify it there.

    Args:
        address: the store's, as ``skymark run --store`` has it.
        run_id: the run's name in it.
        directory: where it goes; made if absent.

    Returns:
        What came, or None if the store has no such run.

    Raises:
        StoreError: the store cannot be read.
    """
    with closing(open_source(f"{address}/{run_id}")) as source:
        try:
            differing = fetch(source, directory)
        except FileNotFoundError:
            return None
    run = RunDirectory(directory)
    return _completed(run, [run.manifest()], differing, ())


def merge(parts: Sequence[Path], run_id: str, directory: Path) -> Brought | None:
    """Put the parts of a run, one from each machine, into one directory and verify the whole.

    Each machine ran other cells, so no file of one is in another's way but the manifest.

    Args:
        parts: directories that hold ``RUN-ID/`` and ``RUN-ID.outcome``, the head node's first.
        run_id: the run's name.
        directory: where the whole goes.

    Returns:
        None if no part holds a run.
    """
    differing: list[str] = []
    manifests: list[Manifest] = []
    for part in parts:
        if not (part / run_id / "manifest.json").is_file():
            continue
        differing += fetch(open_source((part / run_id).resolve().as_uri()), directory)
        manifests.append(RunDirectory(directory).manifest())
    phases = tuple(_phase(part / f"{run_id}.outcome") for part in parts)
    if not manifests:
        return _nothing(directory, phases) if any(phases) else None
    return _completed(RunDirectory(directory), manifests, differing, phases)


def add_price(directory: Path, hourly_price_usd: float, price_usd: float) -> None:
    """Write what a run cost into its manifest, and each cell's share into its record."""
    run = RunDirectory(directory)
    manifest = run.manifest()
    found = [run.record(cell) for cell in manifest.cells.values()]
    measured = [record for record in found if record is not None and record.measured_s]
    whole_s = sum(record.measured_s for record in measured)
    for record in measured:
        share_usd = price_usd * record.measured_s / whole_s
        run.rewrite_record(record.model_copy(update={"price_usd": share_usd}))
    priced = {"hourly_price_usd": hourly_price_usd, "price_usd": price_usd}
    run.write_manifest(manifest.model_copy(update=priced))
    run.write_sums()


def _completed(
    run: RunDirectory,
    manifests: Sequence[Manifest],
    differing: Sequence[str],
    phases: tuple[str, ...],
) -> Brought:
    """Write the manifest of the whole, and say what of its plan is there."""
    head = manifests[0]
    if len({manifest.plan_hash for manifest in manifests}) > 1:
        raise CloudError(f"the machines ran different plans; their parts are in {run.path}")
    found = {id: run.record(cell) for id, cell in head.cells.items()}
    machines = {
        one.hardware_key: one
        for manifest in manifests
        for one in (manifest.machine, *manifest.continued_on)
    }
    machines.pop(head.machine.hardware_key)
    counts = Counter(record.status for record in found.values() if record is not None)
    ended = [manifest.ended_at for manifest in manifests if manifest.ended_at is not None]
    update = {
        "continued_on": tuple(machines.values()),
        "finished": None not in found.values(),
        "ended_at": max(ended, default=datetime.now(UTC)),
        "counts": dict(counts),
    }
    run.write_manifest(head.model_copy(update=update))
    run.write_sums()
    return Brought(
        directory=run.path,
        records=dict(counts),
        missing=tuple(id for id, record in found.items() if record is None),
        differing=tuple(differing),
        phases=phases,
    )


def _nothing(directory: Path, phases: tuple[str, ...]) -> Brought:
    return Brought(directory=directory, records={}, missing=(), differing=(), phases=phases)


def _phase(path: Path) -> str:
    return path.read_text("utf-8", "replace").strip() if path.is_file() else ""
