"""Print the accelerators that a library computes on, or the rates of its copies to them, as JSON.

``see LIBRARY PLATFORM MODULE…`` prints the accelerators, or the fault that keeps the library from
them. The library computes something, because only a computation reveals a driver that is too old.
``copy LIBRARY PLATFORM BYTES`` prints a dictionary per device: ``page_locked`` and ``pageable`` in
bytes per second, null if the library has no such copy.

Runs in the library's venv, as a program or in a worker, and imports nothing of skymark.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import median
from typing import Any


def try_jax(platform: str) -> list[str]:
    """Add two numbers with JAX on the accelerator."""
    import jax

    devices = jax.devices(platform)
    jax.device_put(1, devices[0]).__add__(1).block_until_ready()
    return [str(device.device_kind) for device in devices]


def try_torch(platform: str) -> list[str]:
    """Add two numbers with torch on the accelerator."""
    import torch

    del platform
    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} is a build for the CPU")
    torch.ones(2, device="cuda").sum().item()
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def try_tensorflow(platform: str) -> list[str]:
    """Add two numbers with TensorFlow on the accelerator."""
    import tensorflow as tf

    devices = tf.config.list_physical_devices(platform.upper())
    if not devices:
        build = "with" if tf.test.is_built_with_cuda() else "without"
        raise RuntimeError(f"TensorFlow {tf.__version__}, built {build} CUDA, lists none")
    with tf.device(f"{platform.upper()}:0"):
        tf.add(1.0, 1.0).numpy()
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    return [str(one.get("device_name", platform)) for one in details]


def try_dali(platform: str) -> list[str]:
    """Decode an image with DALI's nvJPEG on the accelerator."""
    import numpy as np
    from nvidia.dali import Pipeline, fn
    from PIL import Image

    image = io.BytesIO()
    Image.new("RGB", (16, 16)).save(image, "JPEG")
    pipeline = Pipeline(batch_size=1, num_threads=1, device_id=0)
    with pipeline:
        data = fn.external_source(lambda: [np.frombuffer(image.getvalue(), np.uint8)])
        pipeline.set_outputs(fn.decoders.image(data, device="mixed"))
    pipeline.build()
    pipeline.run()[0].as_cpu()
    # DALI does not report its device; it uses the first.
    name = ctypes.create_string_buffer(256)
    ctypes.CDLL("libcuda.so.1").cuDeviceGetName(name, len(name), 0)
    return [name.value.decode() or platform.upper()]


TRIALS = {"dali": try_dali, "jax": try_jax, "tensorflow": try_tensorflow, "torch": try_torch}


LITTLE_MEMORY = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
"""Variables by which a library takes no more of a device than it needs: others ask, too."""


def answer_of(library: str, platform: str, measured: Iterable[str]) -> dict[str, object]:
    """Return the accelerators that a library computes on, or its fault.

    Keeps the device until the process ends.

    Args:
        library: one of `TRIALS`.
        platform: ``gpu`` or ``tpu``.
        measured: modules to be measured; without any of them installed, nothing is tried.

    Returns:
        ``absent``, the modules that are not installed, and ``names`` or ``fault``.
    """
    wanted = set(measured)
    absent = {one for one in wanted if importlib.util.find_spec(one.partition(".")[0]) is None}
    answer: dict[str, object] = {"absent": sorted(absent)}
    if absent != wanted:
        os.environ.update(LITTLE_MEMORY)
        try:
            answer["names"] = TRIALS[library](platform)
        except Exception as error:  # the process boundary: whatever it is becomes the answer
            answer["fault"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return answer


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


def torch_copies(platform: str, size: int) -> list[Rates]:
    """Copy with torch into an existing tensor; on a CPU nothing is page-locked."""
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


def jax_copies(platform: str, size: int) -> list[Rates]:
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


COPIERS = {"jax": jax_copies, "torch": torch_copies}


def main() -> None:
    """Answer the question of the command line."""
    question, library, platform, *more = sys.argv[1:]
    answer: object
    if question == "see":
        answer = answer_of(library, platform, more)
    else:
        answer = COPIERS[library](platform, int(more[0]))
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
