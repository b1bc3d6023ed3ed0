"""Leave an epoch and start the next where a forked process would end, as it does with CUDA.

    python -m tests.forked_late SLUG DIRECTORY

runs in the library's own venv, and prints how many elements the second epoch had. A thread keeps
an object that aborts any other process that frees it. A forked process does: it frees the
thread-local memory of the threads that it does not have.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.registry import adapter_class, scenario_class
from skymark.suites.loading.storage import Storage
from tests.left_epochs import elements

LOCAL = threading.local()


class OfThisProcess:
    """An object that no other process may free, such as a CUDA tensor."""

    def __init__(self) -> None:
        self.owner = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.owner:
            os.abort()


def main() -> None:
    """Count the elements of an epoch that follows one that was left."""
    slug, directory = sys.argv[1], Path(sys.argv[2])
    library, cls = adapter_class(slug), scenario_class("CV-1")
    os.environ.update(library.variables_on("cpu"))
    library.import_library()
    adapter, scenario = library(), cls(size=cls.sizes()["tiny"], seed=7)
    storage, format = Storage(directory, scenario), library.format_for(cls, {})
    files, batch_size = storage.prepare(adapter, format), scenario.size.batch_size
    job = LoadingJob(
        scenario, storage.dataset(), files, format, batch_size, seed=7, workers=2,
        platform="gpu", deliver="device",
    )  # fmt: skip
    loader = adapter.open(job)
    elements(islice(loader.epoch(0), 3))
    with ThreadPoolExecutor(1) as copier:
        copier.submit(setattr, LOCAL, "tensor", OfThisProcess()).result()
        print(len(elements(loader.epoch(1))))
    loader.close()


if __name__ == "__main__":
    main()
