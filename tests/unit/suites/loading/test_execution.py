"""What makes the batches of a job: processes where Python's lock is held, else threads."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import Adapter, LoadingJob
from skymark.suites.loading.drives.epochs import CoreClocks, core_use
from skymark.suites.loading.registry import adapters, scenario_class


class Either(Adapter):
    slug: ClassVar = "either"
    runs_in: ClassVar = ("threads", "processes")
    native: ClassVar = frozenset({"CV-3"})

    def open(self, job: LoadingJob) -> Any:
        raise NotImplementedError


def job_of(scenario: str, workers: int = 8, **options: Any) -> LoadingJob:
    """Return a job that is only asked what it is to do."""
    cls = scenario_class(scenario)
    made = cls(size=next(iter(cls.variants.values())))
    dataset: Any = SimpleNamespace(columns=())
    return LoadingJob(made, dataset, Path(), "files", 8, workers=workers, options=options)


def test_processes_do_what_holds_the_lock_and_threads_the_rest() -> None:
    assert str(Either().execution(job_of("CV-1"))) == "8 processes"
    assert str(Either().execution(job_of("CV-1", workers=1))) == "1 process"
    assert str(Either().execution(job_of("CV-3"))) == "8 threads"
    assert str(Either().execution(job_of("CV-2"))) == "8 threads"
    assert str(Either().execution(job_of("CV-1", workers=0))) == "the calling thread"


@pytest.mark.parametrize(
    ("slug", "options", "execution"),
    [
        ("grain", {}, "8 processes"),
        ("grain", {"grain_processes": 3}, "3 processes"),
        ("grain", {"grain_processes": 0}, "8 threads"),
        ("spdl", {}, "8 processes"),
        ("spdl", {"spdl_execution": "threads"}, "8 threads"),
        ("spdl", {"spdl_execution": "process"}, "8 threads in a process of their own"),
        ("spdl-io", {}, "8 threads"),
        ("dali", {}, "8 threads"),
        ("hf-datasets", {}, "8 processes"),
        ("jax-dataloader", {"backend": "jax"}, "the calling thread"),
        ("datarax", {}, "1 thread"),
        ("numpy", {}, "the calling thread"),
    ],
)
def test_a_library_has_the_workers_that_its_options_ask_for(
    slug: str, options: dict[str, Any], execution: str
) -> None:
    assert str(adapters()[slug]().execution(job_of("CV-1", **options))) == execution


@pytest.mark.parametrize(
    ("slug", "options"),
    [
        ("grain", {"grain_processes": "many"}),
        ("grain", {"grain_processes": -1}),
        ("grain", {"grain_processes": True}),
        ("spdl", {"spdl_execution": "fibres"}),
    ],
)
def test_a_model_that_does_not_exist_is_refused(slug: str, options: dict[str, Any]) -> None:
    ((option, value),) = options.items()
    with pytest.raises(UsageError, match=f"{option}={value!r} "):
        adapters()[slug]().execution(job_of("CV-1", **options))


def test_every_adapter_says_what_makes_its_batches() -> None:
    for cls in adapters().values():
        assert str(cls().execution(job_of("CV-1"))).split()[0] in {"8", "1", "the"}


def test_the_cores_of_the_process_that_takes_batches_are_its_own_cpu_time() -> None:
    before, begin_s = CoreClocks(), time.process_time()
    while (burnt_s := time.process_time() - begin_s) < 0.05:
        pass
    after = CoreClocks()
    found = core_use(before, after, cpu_s=2.0)
    wall_s = 2.0 / found["cores_used"]
    assert found["cores_of_consumer"] * wall_s >= burnt_s * (1 - 1e-9)
    assert found["cores_idle"] >= 0
    assert core_use(before, after, cpu_s=None) == {}


def test_a_few_workers_are_threads_where_deep_lake_decodes() -> None:
    deeplake = adapters()["deeplake"]()
    two, four = (replace(job_of("CV-1", workers=count), format="deeplake") for count in (2, 4))
    assert str(deeplake.execution(two)) == "2 threads"
    assert str(deeplake.execution(four)) == "4 processes"
