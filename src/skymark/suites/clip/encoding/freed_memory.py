"""Memory of a model that is let go: returned to the system, so that the next one's peak is its own.

glibc keeps what is freed below a block that is still in use, and PyTorch's allocator what a device
gave it. After a larger model a process would hold more than its next one ever asked for.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any


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
