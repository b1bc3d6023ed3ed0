"""Open a loader whose job drops short batches, in its own venv, and tell what it delivered.

    python -m tests.dropped_last SLUG DIRECTORY

It prints what is wrong with the batches of two epochs, for each number of workers, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skymark.suites.loading.adapter import Adapter, LoadingJob
from skymark.suites.loading.devices import on_host
from skymark.suites.loading.registry import adapter_class
from skymark.suites.loading.scenarios.tab_tables import DenseFeatures
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.work import Size

ELEMENTS, BATCH = 203, 16
WORKERS = (0, 2)


def delivered(adapter: Adapter, job: LoadingJob) -> Iterator[list[list[int]]]:
    """Yield the elements of each batch of an epoch, for two epochs."""
    loader = adapter.open(job)
    try:
        for epoch in range(2):
            yield [np.array(on_host(one["index"])).tolist() for one in loader.epoch(epoch)]
    finally:
        loader.close()


def faults(batches: list[list[int]], allowed: int) -> list[str]:
    """Return how an epoch differs from whole batches of distinct elements.

    Args:
        batches: the elements of each.
        allowed: elements that may be missing.
    """
    elements = [index for batch in batches for index in batch]
    short = sorted({len(batch) for batch in batches} - {BATCH})
    return [
        *(f"a batch of {size}" for size in short),
        *(["an element came twice"] if len(set(elements)) < len(elements) else []),
        *([f"{len(elements)} elements"] if len(elements) + allowed < ELEMENTS else []),
    ]


def main() -> None:
    """Open the loader with each number of workers, and print what is wrong as JSON."""
    slug, directory = sys.argv[1], Path(sys.argv[2])
    cls = adapter_class(slug)
    os.environ.update(cls.variables_on("cpu"))
    cls.import_library()
    adapter = cls()
    scenario = DenseFeatures(Size(elements=ELEMENTS, batch_size=BATCH, values={"features": 4}))
    storage, format = Storage(directory, scenario), cls.format_for(DenseFeatures, {})
    files, found = storage.prepare(adapter, format), {}
    for workers in WORKERS:
        fields: dict[str, Any] = {"workers": workers, "drop_last": True}
        job = LoadingJob(scenario, storage.dataset(), files, format, BATCH, seed=3, **fields)
        # Each worker drops the end of its own share.
        allowed = (BATCH - 1) * max(1, workers)
        found[workers] = [
            one for epoch in delivered(adapter, job) for one in faults(epoch, allowed)
        ]
    adapter.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
