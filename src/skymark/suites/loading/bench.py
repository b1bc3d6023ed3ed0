"""The worker's side of the loading suite: open one adapter and measure its cells, one by one."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skymark.machine.disk import cached_share, drop_page_cache, fill_page_cache
from skymark.model.effort import Effort
from skymark.model.errors import LibraryAbsentError, UnsupportedError
from skymark.model.record import RoundResult
from skymark.suites.loading.adapter import OTHER_IMAGES, LoadingJob
from skymark.suites.loading.drives.outcome import Bench, Served
from skymark.suites.loading.drives.stream import NO_STREAM, larger_set
from skymark.suites.loading.figures import round_metrics
from skymark.suites.loading.options import LoadingSettings, read_settings
from skymark.suites.loading.registry import adapter_of
from skymark.suites.loading.specification import reference_of
from skymark.suites.loading.step.consumption import Consumption
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.storage_formats import HTTP
from skymark.suites.loading.tuning import LoadingLimits

if TYPE_CHECKING:
    from skymark.model.machine import Platform
    from skymark.model.record import Cell, Setting
    from skymark.suite.contract import TimedRegion
    from skymark.suites.loading.adapter import Adapter
    from skymark.suites.loading.drives.outcome import Outcome


LINK_SETTINGS = {name for name in LoadingSettings.model_fields if name.startswith("http_")}
"""Settings of the object server, which are among the figures."""

FROM_MEMORY = 0.5
"""Share of the files in the page cache above which a rate is of the memory."""


class AdapterBench:
    """One adapter in its own process. Implements `skymark.suite.contract.Runner`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform = "cpu") -> None:
        self.reference = reference_of(cell)
        self._class = adapter_of(cell)
        self._cache = cache
        self._platform = platform
        wanted = self._class.variables_on(platform)
        os.environ.update({k: v for k, v in wanted.items() if k not in os.environ})
        self._evidence: BinaryIO | None = None
        begin = time.perf_counter()
        self._import()
        self._import_s: float | None = time.perf_counter() - begin
        self._adapter: Adapter = self._class()

    @property
    def forks(self) -> bool:
        """Whether the library allows a fork after its import."""
        return self._class.forks

    def forked(self, *, first: bool) -> None:
        """Begin in a fork, with a new random state for NumPy; Python makes its own.

        The time of the import is a figure of the first fork that measures.
        """
        if not first:
            self._import_s = None
        if (random := sys.modules.get("numpy.random")) is not None:
            random.seed()

    def _import(self) -> None:
        try:
            self._class.import_library()
        except ModuleNotFoundError as error:
            if error.name != self._class.imports.partition(".")[0]:
                raise
            command = self._class.install_hint or f"uv pip install {self._class.distribution}"
            raise LibraryAbsentError(
                f"{self._class.name} is not installed in {sys.prefix}; run: {command} "
                "(an adapter of your own names what it needs in `requirements`)"
            ) from error

    def versions(self) -> dict[str, str]:
        """Return the versions of the library under test and of its foundations."""
        from importlib.metadata import PackageNotFoundError, version

        found: dict[str, str] = {}
        libraries = [self._class.distribution, *self._class.acceleration.distributions.values()]
        for name in dict.fromkeys([*libraries, "numpy", "pillow", "av"]):
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    def prepare(self, cell: Cell) -> None:
        """Generate, import or convert the cell's data if that has not been done."""
        storage, format = self._storage(cell)
        if storage.data is not None:
            kinds = storage.dataset().image_kinds
            if (reason := self._class.undecoded(cell.scenario, kinds)) is not None:
                raise UnsupportedError(f"{reason}; {OTHER_IMAGES}")
        if not storage.is_ready(self._class, format):
            storage.prepare(self._adapter, format)

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Measure one round of a cell and deliver the evidence for the judge."""
        from skymark.suites.loading.oracle import Declared, Evidence
        from skymark.suites.loading.oracle.evidence import NOT_JUDGED

        adapter = self._adapter
        storage, format = self._storage(cell)
        scenario, dataset = storage.scenario, storage.dataset()
        settings, options = read_settings(cell.settings)
        is_cold = settings.page_cache == "cold"
        limits, files = LoadingLimits.of(effort), storage.of(self._class, format)
        if is_cold:
            drop_page_cache(files)
        else:
            fill_page_cache(files, limits.max_seconds)
        cached = None if format in HTTP else cached_share(files)
        job = LoadingJob(
            scenario=scenario,
            dataset=dataset,
            storage=files,
            format=format,
            batch_size=settings.batch_size or scenario.size.batch_size,
            seed=scenario.seed,
            workers=settings.workers,
            prefetch=settings.prefetch,
            shuffle=scenario.shuffle,
            deliver="device" if scenario.on_device else settings.deliver,
            copies_ahead=settings.copies != "plain",
            platform=self._platform,
            options=options,
        )
        declared = Declared(
            native=scenario.id in adapter.native,
            caches=adapter.caches,
            shuffle=adapter.shuffle_kind(job),
            allowed_short_batches=job.workers * adapter.short_batch_per_worker,
            mixing=adapter.mixing,
            seeded="seeded" in adapter.abilities,
        )
        file = self._new_evidence()
        bench = Bench(
            adapter=adapter,
            reference=self.reference,
            job=job,
            oracle=Evidence(file, declared),
            limits=limits,
            round=round,
            consumption=Consumption(
                int(settings.think_time_ms * 1e6),
                settings.step_kind,
                as_graph=settings.step_launch == "graph",
            ),
            reads_disk=is_cold,
            whole_warm_up=is_cold or adapter.caches != "nothing",
            region=region,
        )
        started_at = datetime.now(UTC)
        drive = importlib.import_module(f"skymark.suites.loading.drives.{scenario.drive}")
        with self._served(job, settings, bench) as cores:
            outcome = drive.drive(bench)
        if job.format in HTTP:
            link = settings.model_dump(include=LINK_SETTINGS, exclude_none=True)
            outcome.extra |= link
        region.hand_over(Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"))
        return RoundResult(
            round=round,
            started_at=started_at,
            setup_s=outcome.setup_s,
            timed_ns=outcome.timed_ns,
            metrics=round_metrics(outcome, self._import_s),
            resources=outcome.resources,
            samples=outcome.samples,
            verification=NOT_JUDGED,
            conditions={
                "operators": "native" if declared.native else "reference",
                "execution": str(adapter.execution(job)),
                "page_cache": settings.page_cache,
                **(
                    {}
                    if cached is None
                    else {"served_from": "memory" if cached > FROM_MEMORY else "disk"}
                ),
                "format": format,
                "deliver": job.deliver,
                **({"copies": settings.copies} if settings.copies else {}),
                **({"step": settings.step} if settings.step else {}),
                **({"shuffle": declared.shuffle} if job.shuffle else {}),
                **({"mixing": declared.mixing} if scenario.mixture else {}),
                **({"caches": adapter.caches} if adapter.caches != "nothing" else {}),
                **({"works_ahead": "epoch"} if adapter.works_ahead == "epoch" else {}),
                **({"cores": cores} if cores else {}),
                **self._stream(storage, cell, job, outcome),
                **({"device": ", ".join(sorted(bench.devices))} if bench.devices else {}),
            },
        )

    @staticmethod
    def _stream(
        storage: Storage, cell: Cell, job: LoadingJob, outcome: Outcome
    ) -> dict[str, Setting]:
        """Return the condition of a round without a steady stream: the size that has one."""
        if outcome.samples_per_s is not None:
            return {}
        if outcome.has_stream:
            return {"stream": f"{NO_STREAM}; a higher --effort measures until it begins"}
        job = dataclasses.replace(job, world=int(cell.axes.get("ranks", 1)))
        own = storage.scenario.sizes()[cell.variant].elements
        has_more = storage.data is None or len(job.dataset) >= own
        batch_size = read_settings(cell.settings)[0].batch_size
        return {"stream": f"{NO_STREAM}; {larger_set(job, batch_size, has_more=has_more)}"}

    def close(self) -> None:
        """Close the adapter and free the evidence."""
        self._adapter.close()
        if self._evidence is not None:
            self._evidence.close()

    def _new_evidence(self) -> BinaryIO:
        """Return an empty file in memory, in place of the previous round's."""
        if self._evidence is not None:
            self._evidence.close()
        self._evidence = os.fdopen(os.memfd_create("skymark-evidence"), "wb")
        return self._evidence

    @contextmanager
    def _served(
        self, job: LoadingJob, settings: LoadingSettings, bench: Bench
    ) -> Iterator[str | None]:
        """Serve the job's storage over HTTP, if its format requires it.

        Yields:
            The CPUs of the measured processes, and the CPUs of the server; None without one.
        """
        if job.format not in HTTP:
            yield None
            return
        from skymark.machine.cgroup import apart
        from skymark.suites.loading.dataset.objects import serving, stored_bytes

        served = serving(
            job.storage,
            settings.http_latency_ms,
            settings.http_bandwidth_mb_s,
            latency_tail=settings.http_latency_tail,
            concurrency=settings.http_concurrency,
            seed=job.seed,
        )
        with served as store, apart(store.pid) as division:
            bench.excluded_pids = (store.pid,)
            bench.store = Served(stored_bytes(job.storage), store.sent_bytes)
            yield str(division)

    def _storage(self, cell: Cell) -> tuple[Storage, str]:
        storage = Storage.of_cell(self._cache, cell)
        usual = self._class.format_for(type(storage.scenario), cell.axes)
        return storage, str(cell.settings.get("format") or usual)
