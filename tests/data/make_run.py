"""Make a saved run without measuring: for the tests of the report, and the files of `run`.

    python tests/data/make_run.py tests/data/run

wrote `run`, once. Its figures in tables, pages, exports and comparisons stay the same.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from skymark.model.machine import Accelerator, GitState, Hardware, Load, MachineState, ProcessLimits
from skymark.model.manifest import Manifest, Pair
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import (
    Cause,
    Cell,
    Record,
    Resources,
    RoundResult,
    Setting,
    StabilityWarning,
    Status,
    Verification,
)
from skymark.model.schema import sealed
from skymark.rundir.row import samples_file
from skymark.suites.loading.drives.outcome import Outcome
from skymark.suites.loading.figures import round_metrics
from skymark.suites.loading.suite import LoadingSuite

SUITE = LoadingSuite()

BEGIN = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)

MACHINE = MachineState(
    captured_at=BEGIN,
    hardware=Hardware(
        architecture="x86_64",
        cpu_model="Example CPU 3000",
        physical_cores=4,
        logical_cores=8,
        memory_bytes=32 << 30,
        disk_kind="nvme",
        accelerators=(Accelerator(name="Example GPU", memory_bytes=24 << 30, driver="1.2"),),
    ),
    limits=ProcessLimits(
        usable_cores=8,
        cpu_quota_cores=6.0,
        cpu_throttled_share=None,
        memory_limit_bytes=None,
        container="docker",
    ),
    load=Load(
        load_average_1m=0.2,
        cpu_busy_share=0.02,
        memory_available_bytes=28 << 30,
        swap_used_bytes=0,
        disk_free_bytes=100 << 30,
        cpu_governor="performance",
        turbo=True,
        on_battery=None,
    ),
    system="Linux 6.8.0",
    filesystem="ext4",
    python="CPython 3.12.4",
    skymark="0.1.0",
    git=GitState(commit="0123456789abcdef0123456789abcdef01234567", dirty=False),
)


def cell(
    scenario: str,
    adapter: str,
    axes: Mapping[str, Setting] | None = None,
    settings: Mapping[str, Setting] | None = None,
) -> Cell:
    """Return a cell of a small variant."""
    return Cell(
        suite="loading",
        scenario=scenario,
        variant="small",
        adapter=adapter,
        axes=dict(axes or {}),
        settings=dict(settings or {"workers": 2}),
        specification={"seed": 7, "size": {"elements": 2000, "batch_size": 50, "values": {}}},
    )


def rounds_of(
    speed: float,
    count: int = 3,
    noise: float = 0.01,
    *,
    name: str = "",
    think_ns: int = 0,
    pss_bytes: int | None = 300 << 20,
    verification: Verification | None = None,
) -> list[RoundResult]:
    """Return rounds at a speed in samples per second, with noise that is always the same."""
    chance = random.Random(f"{name}/{speed}")
    batch, batches = 50, 40
    results = []
    for number in range(count):
        rate = speed * chance.lognormvariate(0.0, noise)
        wait_ns, epoch = [], []
        for one_epoch in range(4):
            for _ in range(batches):
                usual = batch / rate * 1e9 * (1.6 if one_epoch == 0 else 1.0)
                wait_ns.append(round(usual * chance.lognormvariate(-0.02, 0.2)))
                epoch.append(one_epoch)
        # The waits differ, their sum is what the rate says: noise is between rounds only.
        measured_s = sum(wait for wait, one in zip(wait_ns, epoch, strict=True) if one) / 1e9
        scale = 3 * batches * batch / rate / measured_s
        wait_ns = [round(wait * scale) for wait in wait_ns]
        busy_ns = think_ns * 3 * batches
        measured_ns = sum(wait for wait, one in zip(wait_ns, epoch, strict=True) if one) + busy_ns
        outcome = Outcome(
            setup_s=0.02,
            first_batch_ns=round(3e8 * chance.lognormvariate(0.0, 0.1)),
            timed_ns=measured_ns,
            busy_ns=busy_ns,
            consumed=3 * batches,
            elements=3 * batches * batch,
            bytes=3 * batches * batch * 4096,
            wait_ns=wait_ns,
            batch_elements=[batch] * len(wait_ns),
            epoch=epoch,
            resources=Resources(
                cpu_s=measured_ns / 1e9 * 1.7, peak_pss_bytes=pss_bytes, processes=3
            ),
        )
        results.append(
            RoundResult(
                round=number,
                started_at=BEGIN + timedelta(seconds=20 * number),
                setup_s=outcome.setup_s,
                timed_ns=outcome.timed_ns,
                metrics=round_metrics(outcome, import_s=0.4),
                resources=outcome.resources,
                samples=outcome.samples,
                verification=verification or PASSED,
                conditions=CONDITIONS,
            )
        )
    return results


PASSED = Verification(
    passed=True,
    verified_elements=8000,
    compared_elements=556,
    counts={"epochs": 4},
    fields=("features", "label"),
    tolerance=1e-5,
    max_difference=0.0,
)


CONDITIONS: dict[str, Setting] = {
    "operators": "reference",
    "page_cache": "warm",
    "format": "canonical",
}


def measured(one: Cell, rounds: Sequence[RoundResult], **more: Any) -> Record:
    """Return the `ok` record of a cell with these rounds, as the engine would make it."""
    content: dict[str, Any] = {
        "cell": one,
        "cell_hash": one.hash,
        "status": Status.OK,
        "rounds": tuple(result.summary for result in rounds),
        "metrics": SUITE.figures(rounds),
        "verification": rounds[-1].verification,
        "conditions": rounds[-1].conditions,
        "warnings": SUITE.warnings(rounds, SUITE.efforts["quick"]),
        "versions": {one.adapter: "1.2.3", "numpy": "2.3.0"},
        "hardware_key": MACHINE.hardware_key,
        "started_at": BEGIN,
        "ended_at": BEGIN + timedelta(minutes=1),
    }
    return Record(**{**content, **more})


def with_samples(directory: Path, one: Cell, rounds: Sequence[RoundResult], **more: Any) -> Record:
    """Return the `ok` record of a cell, whose samples lie in the directory of its run."""
    data = samples_file(rounds, SUITE.declaration.sample_columns)
    path = directory / "samples" / f"{one.id}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return measured(one, rounds, samples_sha256=sha256(data).hexdigest(), **more)


def ended(one: Cell, status: Status, cause: Cause, **more: Any) -> Record:
    """Return the record of a cell that was not measured."""
    return Record(
        cell=one,
        cell_hash=one.hash,
        status=status,
        cause=cause,
        started_at=BEGIN,
        ended_at=BEGIN + timedelta(seconds=5),
        **more,
    )


def write_run(
    directory: Path,
    records: Sequence[Record],
    *,
    planned: Sequence[Cell] = (),
    finished: bool = True,
    machine: MachineState = MACHINE,
    effort: str = "quick",
    duet: Pair | None = None,
) -> Path:
    """Write a run of these records; `planned` cells have no record yet."""
    cells = [*(record.cell for record in records), *planned]
    plan = Plan(
        suite=SUITE.name,
        profile="ci_cpu",
        effort=SUITE.efforts[effort],
        settings={"workers": 2},
        settings_from={"workers": "profile"},
        cells=tuple(PlannedCell(cell=one, group=one.adapter, shard_key=one.label) for one in cells),
    )
    counts: dict[Status, int] = {}
    for record in records:
        counts[record.status] = counts.get(record.status, 0) + 1
    manifest = Manifest(
        run_id=directory.name,
        created_at=BEGIN,
        ended_at=BEGIN + timedelta(minutes=5) if finished else None,
        finished=finished,
        plan=plan,
        plan_hash=plan.hash,
        declaration=SUITE.declared(cells),
        machine=machine,
        duet=duet,
        counts=counts,
    )
    (directory / "records").mkdir(parents=True)
    (directory / "manifest.json").write_bytes(sealed(manifest))
    for record in records:
        path = directory / "records" / f"{record.cell.id}.json"
        path.write_bytes(sealed(record))
    return directory


def one_of_each() -> list[Record]:
    """Return records of every status, with figures missing and present."""
    skipped = Cause(
        kind="no-gpu",
        message="NVIDIA DALI needs an NVIDIA GPU",
        action="run it with --profile gpu_a100",
    )
    wrong = Cause(
        kind="stage-skipped",
        message="field features differs from the reference: the standardise stage was skipped",
        action="apply job.transform to every element",
    )
    leak = StabilityWarning(
        kind="leaked-processes",
        message="1 process(es) outlived the adapter and were ended",
        action="have the adapter's close() end every process that it started",
    )
    refused = PASSED.model_copy(update={"passed": False, "cause": wrong, "max_difference": 12.5})
    bad_rounds = rounds_of(900_000, name="bad", verification=refused)
    return [
        measured(cell("TAB-1", "numpy"), rounds_of(60_000, name="numpy")),
        measured(cell("TAB-1", "pytorch"), rounds_of(95_000, name="pytorch"), warnings=(leak,)),
        measured(cell("TAB-1", "grain"), rounds_of(96_000, name="grain", noise=0.06)),
        measured(cell("TAB-1", "tfdata"), rounds_of(300_000, name="tfdata", pss_bytes=None)),
        ended(
            cell("TAB-1", "webdataset"),
            Status.INVALID,
            wrong,
            rounds=tuple(result.summary for result in bad_rounds),
            verification=refused,
            conditions={"operators": CONDITIONS["operators"]},
            versions={"webdataset": "1.0.2"},
        ),
        ended(
            cell("TAB-1", "ray"),
            Status.FAILED,
            Cause(kind="worker-died", message="the worker process was killed by signal 9"),
        ),
        ended(
            cell("TAB-1", "deeplake"),
            Status.TIMEOUT,
            Cause(kind="timeout", message="no result after 60 s", action="raise --effort"),
        ),
        ended(cell("TAB-1", "dali"), Status.SKIPPED, skipped),
        measured(
            cell("PC-1", "numpy", {"depth": 5}),
            rounds_of(20_000, count=1, name="chain", think_ns=500_000),
        ),
        ended(
            cell("PC-1", "spdl", {"depth": 5}),
            Status.UNSUPPORTED,
            Cause(kind="ability", message="SPDL has no worker-invariant shuffle"),
        ),
    ]


if __name__ == "__main__":
    write_run(Path(sys.argv[1]), one_of_each())
