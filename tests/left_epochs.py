"""Leave an epoch in its middle, save a state in the next, and resume it in a new loader.

    python -m tests.left_epochs SLUG DIRECTORY

runs in the library's own venv, and prints what is wrong with the rest of the epoch; nothing if it
is the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skymark.suites.loading.adapter import Adapter, LoadingJob
from skymark.suites.loading.devices import on_host
from skymark.suites.loading.registry import adapter_class, scenario_class
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.work import Batch

LEFT_AFTER, SAVED_AFTER = 3, 4
"""Batches."""


def elements(batches: Iterable[Batch]) -> list[int]:
    """Return the indices of the elements of batches."""
    return [index for one in batches for index in np.array(on_host(one["index"])).tolist()]


def tiny_job(scenario_name: str, **more: Any) -> tuple[Adapter, LoadingJob]:
    """Return the adapter that the arguments name, and a job of two workers on a tiny set."""
    slug, directory = sys.argv[1], Path(sys.argv[2])
    library, cls = adapter_class(slug), scenario_class(scenario_name)
    os.environ.update(library.variables_on("cpu"))
    library.import_library()
    adapter, scenario = library(), cls(size=cls.sizes()["tiny"], seed=7)
    storage, format = Storage(directory, scenario), library.format_for(cls, {})
    files, size = storage.prepare(adapter, format), scenario.size.batch_size
    data = storage.dataset()
    return adapter, LoadingJob(scenario, data, files, format, size, seed=7, workers=2, **more)


def main() -> None:
    """Compare the rest of an epoch with that of a loader that resumes it."""
    adapter, job = tiny_job("PR-1")
    first = adapter.open(job)
    elements(first.epoch(0))
    elements(islice(first.epoch(1), LEFT_AFTER))
    batches = iter(first.epoch(2))
    before = elements(islice(batches, SAVED_AFTER))
    state = first.state()
    rest = elements(batches)
    first.close()
    second = adapter.open(job)
    resumed = elements(second.resume(2, state))
    second.close()
    adapter.close()
    if resumed != rest:
        again = len(set(before) & set(resumed))
        print(f"{len(resumed)} elements of {len(rest)}, {again} of which had come before")


if __name__ == "__main__":
    main()
