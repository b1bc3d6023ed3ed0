"""Downloaded results of a run: merged, verified, and compared with the plan."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from skymark.cloud.rented_run import RentedRun, stores_that_last
from skymark.model.base import Frozen
from skymark.model.errors import CloudError, StoreError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.record import Cell, Status
from skymark.model.sizes import count_of
from skymark.plain_files import LARGEST_FILE_BYTES, entries_below, read_below
from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import MANIFEST, SUMS
from skymark.rundir.mending import damages
from skymark.store.fetching import fetch, manifest_in
from skymark.store.kinds import open_source

TIMED_OUT = {"124", "137"}
"""Exit statuses of `timeout`: told to end, and killed."""

STOPPED = {"130", "141", "143"}
"""Exit statuses of a cancelled run: skymark's own, 128 + SIGTERM, and skymark's without a reader of
its output. SkyPilot ends the reader of a cancelled job before the job."""

LARGEST_PHASE_BYTES = 1 << 16
"""Of a file with the last phase of a node."""
PHASE = re.compile(r"(setup|run) \d{1,3}\n?", re.ASCII)
"""All that such a file may say."""
UNKNOWN_PHASE = "run unknown"
"""Stands for all else that one says."""


class ReturnedResults(Frozen):
    """Downloaded results, with the missing cells of the plan."""

    directory: Path
    records: dict[Status, int]
    missing: tuple[str, ...]
    """Ids of planned cells without a record, or without the samples that belong to it."""
    differing: tuple[str, ...]
    """Files that are not what the run's own digests say."""
    unequal: tuple[str, ...] = ()
    """Files that are not what lies on the machine, also after they were copied again."""
    strange: tuple[str, ...] = ()
    """Links, FIFOs, and files that are too large: they were left where they were."""
    lost: tuple[int, ...] = ()
    """Nodes that are no longer there, and with them what they alone had."""
    again: str = ""
    """Command that measures what is missing."""
    phases: tuple[str, ...]
    """Last phase of each node with its status, such as ``run 0``; empty where it never began."""

    @property
    def whole(self) -> bool:
        """Whether every planned cell's record is there and every file as it was written."""
        return bool(self.records) and not self.missing and self.faithful and not self.differing

    @property
    def faithful(self) -> bool:
        """Whether every file matches the machine's file in all available checks."""
        return not self.unequal and SUMS not in self.differing


def bring_from_store(address: str, run: RentedRun, directory: Path) -> ReturnedResults | None:
    """Bring a run from a store into a directory, and verify it there.

    Args:
        address: of a store that outlives machines.
        run: it and its plan.
        directory: where it goes; made if absent.

    Returns:
        None if the store has no such run.

    Raises:
        StoreError: the store cannot be read.
        CloudError: it holds another plan's run.
    """
    with closing(open_source(f"{address}/{run.run_id}")) as source:
        try:
            sizes = source.sizes()
            if MANIFEST in sizes and SUMS not in sizes:  # those here are of what was here before
                (directory / SUMS).unlink(missing_ok=True)
            differing = fetch(source, directory)
        except FileNotFoundError:
            return None
    came = RunDirectory(directory)
    return _completed(came, run.plan_hash, [came.manifest()], differing, ())


def stored_part(run: RentedRun, place: Path) -> Path | None:
    """Fetch a run, of which a machine is lost, from the first store that has it.

    Args:
        run: with its plan and its stores.
        place: where it goes; made if absent.

    Returns:
        The directory of runs; None where no store gives it: other machines' results must come
        home all the same.

    Raises:
        StorageFullError: the directory cannot be written.
    """
    for number, address in enumerate(stores_that_last(run.stores)):
        here = place / str(number)
        try:
            with closing(open_source(f"{address}/{run.run_id}")) as source:
                manifest = manifest_in(source)
                if manifest is None or manifest.plan_hash != run.plan_hash:
                    continue
                fetch(source, here / run.run_id)
        except (FileNotFoundError, StoreError, UsageError):  # a newer skymark's
            continue
        return here
    return None


def merge(
    parts: Sequence[Path],
    run_id: str,
    directory: Path,
    plan_hash: str | None,
    left: Sequence[str] = (),
) -> ReturnedResults | None:
    """Put the parts of a run, one from each machine, into one directory and verify the whole.

    Each machine ran other cells, so no file of one is in another's way but the manifest. One whose
    manifest is damaged gives its records, where another's manifest tells the plan.

    Args:
        parts: directories that hold ``RUN-ID/`` and ``RUN-ID.outcome``, the head node's first.
        run_id: the run's name.
        directory: where the whole goes.
        plan_hash: of the plan that was sent; None where that is not known.
        left: paths of a part that did not come, because they are no regular files or too large.

    Returns:
        None if no part holds a run.

    Raises:
        CloudError: a part is of another plan.
    """
    differing: list[str] = []
    strange = list(left)
    manifests: list[Manifest] = []
    brought: set[str] = set()
    for part in parts:
        strange += _strange(part, run_id)
        came = RunDirectory(part / run_id)
        if came.path.is_symlink() or MANIFEST not in came.files():
            continue
        source = open_source((part / run_id).resolve().as_uri())
        # A machine that sends files of another one's cells does not replace what is whole.
        whole = brought - damages(directory).keys() if brought else brought
        if (manifest := manifest_in(source)) is not None:
            manifests.append(manifest)
        else:  # the others' tell the same plan, and records have digests of their own
            differing.append(MANIFEST)
            whole = whole | {MANIFEST}
        (directory / SUMS).unlink(missing_ok=True)  # of another part
        found_here = fetch(source, directory, keep=whole, fetched=lambda path, _: brought.add(path))
        differing += [path for path in found_here if f"{run_id}/{path}" not in strange]
        brought.difference_update((MANIFEST, SUMS))
    phases = tuple(phase_in(part, f"{run_id}.outcome") for part in parts)
    if not manifests:
        found = _nothing(directory, phases, strange, differing)
        return found if any(phases) or strange or differing else None
    found = _completed(RunDirectory(directory), plan_hash, manifests, differing, phases)
    return found.model_copy(update={"strange": tuple(strange)})


def launch_of(cells: Iterable[Cell], run: RentedRun) -> str:
    """Return the command that measures cells again, on machines as they were requested."""
    wanted, machine = list(cells), run.machine
    words = [
        *("skymark", "launch", run.profile),
        *("--scenarios", *dict.fromkeys(cell.label for cell in wanted)),
        *("--adapters", *dict.fromkeys(cell.adapter for cell in wanted)),
        *(() if machine.infra is None else ("--infra", machine.infra)),
        *(() if machine.file is None else ("--machine", str(machine.file))),
    ]
    return f"{shlex.join(words)}, and the options that it had besides"


def problems_of(results: ReturnedResults) -> tuple[str, ...]:
    """Return the problems of a run in words, none where it is as it should be."""
    problems = [f"node {node} is gone, with all results that no store has" for node in results.lost]
    for node, phase in enumerate(results.phases):
        name, _, status = phase.partition(" ")
        if status in TIMED_OUT:
            problems.append(f"node {node}: the time was up during the {name}, and it was ended")
        elif status in STOPPED:
            problems.append(f"node {node}: the {name} was stopped")
        elif status not in {"0", ""}:
            problems.append(f"node {node}: the {name} ended with status {status}")
    if not problems and not results.records:
        problems.append("the run ended without a single record")
    elif results.missing:
        problems.append(
            f"{count_of(len(results.missing), 'planned cell')} without a record, such as "
            f"{results.missing[0]}"
            f"{results.again and f'; measure them: {results.again}'}"
        )
    if results.unequal:
        problems.append(f"files came damaged again and again: {', '.join(results.unequal[:5])}")
    if results.differing:
        problems.append(f"files differ from their digests: {', '.join(results.differing[:5])}")
    if results.strange:
        problems.append(
            "left on the machine, because no regular files or too large: "
            + ", ".join(results.strange[:5])
        )
    return tuple(problems)


def add_price(directory: Path, hourly_price_usd: float | None, price_usd: float | None) -> None:
    """Write a run's cost into its manifest, and each cell's share into its record, where known."""
    if price_usd is None:
        return
    run = RunDirectory(directory)
    damaged = damages(directory)
    manifest = run.manifest()
    found = [run.record(cell) for cell in manifest.cells.values()]
    measured = [record for record in found if record is not None and record.measured_s]
    whole_s = sum(record.measured_s for record in measured)
    for record in measured:
        share_usd = price_usd * record.measured_s / whole_s
        run.rewrite_record(record.model_copy(update={"price_usd": share_usd}))
    priced = {"hourly_price_usd": hourly_price_usd, "price_usd": price_usd}
    run.write_manifest(manifest.model_copy(update=priced))
    run.write_sums(damaged)


def phase_in(part: Path, name: str) -> str:
    """Return the last phase of a node with its status, as a machine sent it; else nothing."""
    try:
        said = read_below(part, name, largest=LARGEST_PHASE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    if not said:
        return ""
    return said.strip() if PHASE.fullmatch(said) else UNKNOWN_PHASE


def _completed(
    run: RunDirectory,
    plan_hash: str | None,
    manifests: Sequence[Manifest],
    differing: Sequence[str],
    phases: tuple[str, ...],
) -> ReturnedResults:
    """Write the manifest of the whole, and look for its planned cells."""
    head = manifests[0]
    plan_hash = plan_hash or head.plan_hash
    for manifest in manifests:
        if manifest.plan_hash != plan_hash:
            raise CloudError(
                f"{manifest.run_id} is a run of plan {manifest.plan_hash[:12]}, but skymark sent "
                f"plan {plan_hash[:12]}; its results are not accepted"
            )
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
    damaged = {*differing, *damages(run.path)} - {MANIFEST}  # which is written anew
    run.write_manifest(head.model_copy(update=update))
    run.write_sums(damaged)
    return ReturnedResults(
        directory=run.path,
        records=dict(counts),
        missing=tuple(id for id, record in found.items() if record is None),
        differing=tuple(dict.fromkeys(differing)),
        phases=phases,
    )


def _nothing(
    directory: Path, phases: tuple[str, ...], strange: Sequence[str], differing: Sequence[str]
) -> ReturnedResults:
    return ReturnedResults(
        directory=directory,
        records={},
        missing=(),
        differing=tuple(dict.fromkeys(differing)),
        strange=tuple(strange),
        phases=phases,
    )


def _strange(part: Path, run_id: str) -> list[str]:
    """Return what came from a machine and is no regular file, or too large a one."""
    return [
        path
        for path, entry in entries_below(part)
        if path.partition("/")[0] in {run_id, f"{run_id}.outcome"}
        and not (
            entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_size <= LARGEST_FILE_BYTES
        )
    ]
