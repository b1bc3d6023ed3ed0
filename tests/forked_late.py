"""Leave an epoch and start the next where a forked process would end, as it does with CUDA.

    python -m tests.forked_late SLUG DIRECTORY

runs in the library's own venv, and prints how many elements the second epoch had. A thread keeps
an object that aborts any other process that frees it. A forked process does: it frees the
thread-local memory of the threads that it does not have.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tests.left_epochs import elements, tiny_job

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
    adapter, job = tiny_job("CV-1", platform="gpu", deliver="device")
    loader = adapter.open(job)
    elements(islice(loader.epoch(0), 3))
    with ThreadPoolExecutor(1) as copier:
        copier.submit(setattr, LOCAL, "tensor", OfThisProcess()).result()
        print(len(elements(loader.epoch(1))))
    loader.close()


if __name__ == "__main__":
    main()
