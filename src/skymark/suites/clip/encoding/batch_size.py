"""Batch size, as large as is useful, and memory of a model that is let go.

glibc keeps what is freed below a block that is still in use, and PyTorch's allocator what a device
gave it. After a larger model a process would hold more than its next one ever asked for.
"""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any

from skymark.machine.accelerator import FRACTION_VARIABLE

CPU_IMAGES = 64
"""On a CPU, larger batches are no faster: caches are full long before."""
CPU_INPUTS = 100
"""Activations of an image over its float32 pixels. Assumed, with room to spare: the largest layer
of ViT-L-14 and its attention take 14 times as much together."""
LARGEST = 512
"""On an accelerator; from here on the models known are at their full rate."""
TRIAL = 8
SHARE = 0.85
"""Of the memory given that batches may take; allocators need some room."""


def given_fraction() -> float:
    """Return the share of the accelerator that this process may use, 1.0 if nobody said."""
    return float(os.environ.get(FRACTION_VARIABLE, "1"))


def bound_memory(device: Any) -> None:
    """Hold this process to its share of the accelerator's memory."""
    import torch

    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(given_fraction(), device)


def largest_batch(free_bytes: int, bytes_per_image: float, at_most: int) -> int:
    """Return the largest power of two of images that fits into memory, at least one."""
    size = at_most
    while size > 1 and size * bytes_per_image > free_bytes:
        size //= 2
    return size


def free_bytes(device: Any) -> int:
    """Return the memory that batches may take: of the device, or of the host."""
    import psutil
    import torch

    if device.type != "cuda":
        return int(psutil.virtual_memory().available * SHARE)
    free, total = torch.cuda.mem_get_info(device)
    own = total * given_fraction() - torch.cuda.memory_reserved(device)
    return int(min(free, own) * SHARE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a batch did not fit into memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text.lower()
    )


def return_freed_memory(device: Any) -> None:
    """Return to the system what nobody holds any more, on the host and on a device.

    Where the C library is not glibc the host's stays with the allocator.
    """
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
