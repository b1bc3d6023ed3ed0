"""A bench around any adapter class, on a small scenario, without the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.drives.outcome import Bench
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.registry import adapter_class
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.tuning import LoadingLimits

LOADERS = Path(__file__).with_name("loaders.py")

SHORT = LoadingLimits(min_seconds=0.01, min_batches=1, max_seconds=600.0, verified_elements=64)

MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> MakeBench:
    """Make a bench: ``make_bench(scenario, "ClassName")``, with fields of the job by name."""

    def make(scenario: Scenario, name: str = "Honest", **fields: Any) -> Bench:
        reference = f"{LOADERS}:{name}"
        adapter = adapter_class(reference)()
        storage = Storage(tmp_path, scenario)
        dataset = storage.dataset()
        format = fields.pop("format", "canonical")
        job = LoadingJob(
            scenario=scenario,
            dataset=dataset,
            storage=storage.prepare(adapter, format),
            format=format,
            batch_size=scenario.size.batch_size,
            seed=scenario.seed,
            **fields,
        )
        return Bench(
            adapter=adapter,
            job=job,
            oracle=Oracle(scenario, dataset),
            limits=SHORT,
            round=0,
            reference=reference,
        )

    return make
