"""Print the rates of copies from host memory to devices, by one library, as JSON.

It runs in another venv, so it imports nothing of skymark. The last line has a dictionary per
device: ``page_locked`` and ``pageable`` in bytes per second, null where the library has no way
to it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

COPIES = 11
"""Timed copies, after an untimed one; the median counts."""

Rates = dict[str, float | None]


def rate(size: int, copy: Callable[[], object]) -> float:
    """Return bytes per second of a copy that returns when it has ended."""
    copy()
    moments = [time.perf_counter()]
    for _ in range(COPIES):
        copy()
        moments.append(time.perf_counter())
    return size / median(end - begin for begin, end in pairwise(moments))


def by_torch(platform: str, size: int) -> list[Rates]:
    """Copy with torch into a tensor that is there already; on a CPU nothing is page-locked."""
    import torch

    def of(name: str) -> Rates:
        placed = torch.empty(size, dtype=torch.uint8, device=name)

        def copy(source: Any) -> None:
            placed.copy_(source, non_blocking=True)
            if platform == "gpu":
                torch.cuda.synchronize(name)

        pageable = torch.ones(size, dtype=torch.uint8)
        rates: Rates = {"page_locked": None, "pageable": rate(size, lambda: copy(pageable))}
        if platform == "gpu":
            locked = pageable.pin_memory()
            rates["page_locked"] = rate(size, lambda: copy(locked))
        return rates

    if platform == "gpu":
        return [of(f"cuda:{number}") for number in range(torch.cuda.device_count())]
    return [of("cpu")]


def by_jax(platform: str, size: int) -> list[Rates]:
    """Copy with `jax.device_put`, from NumPy and from JAX's memory kind ``pinned_host``."""
    import jax
    import numpy as np

    def of(device: Any) -> Rates:
        there = jax.sharding.SingleDeviceSharding(device)

        def copy(source: Any) -> None:
            jax.device_put(source, there).block_until_ready()

        pageable = np.ones(size, np.uint8)
        rates: Rates = {"page_locked": None, "pageable": rate(size, lambda: copy(pageable))}
        if platform == "gpu":
            host = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
            locked = jax.device_put(pageable, host).block_until_ready()
            rates["page_locked"] = rate(size, lambda: copy(locked))
        return rates

    return [of(device) for device in jax.local_devices(backend=platform)]


LIBRARIES = {"jax": by_jax, "torch": by_torch}


def main() -> None:
    """Measure by library, platform and bytes of a copy, the words of the command line."""
    library, platform, size = sys.argv[1:]
    sys.stdout.write(f"{json.dumps(LIBRARIES[library](platform, int(size)))}\n")


if __name__ == "__main__":
    main()
