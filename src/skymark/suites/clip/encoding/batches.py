"""Batches of pixels: their size, reading ahead, and release of their memory.

glibc keeps freed memory below a block that is still in use, and PyTorch's allocator keeps memory of
a device. Without a release, a process would hold a larger model's memory while it scores the next.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from skymark.machine.facts import FRACTION_VARIABLE
from skymark.suites.clip.pixels.preprocessing import PixelMap

CPU_IMAGES = 64
"""On a CPU, larger batches are no faster: caches are full long before."""
CPU_INPUTS = 100
"""Ratio of an image's activations to its float32 pixels. Assumed, with room to spare: the largest
layer of ViT-L-14 and its attention take 14 times as much together."""
LARGEST = 512
"""Images per batch on an accelerator: enough for the full rate of known models."""
TRIAL = 8
SHARE = 0.85
"""Share of the available memory for batches; allocators need some room."""


def given_fraction() -> float:
    """Return this process's share of the accelerator; 1.0 by default."""
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
    """Return the bytes for batches on the device, or on the host."""
    import psutil
    import torch

    if device.type != "cuda":
        return int(psutil.virtual_memory().available * SHARE)
    free, total = torch.cuda.mem_get_info(device)
    own = total * given_fraction() - torch.cuda.memory_reserved(device)
    return int(min(free, own) * SHARE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a batch did not fit into memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text.lower()
    )


def return_freed_memory(device: Any) -> None:
    """Return freed memory of the host and of a device to the system.

    C libraries besides glibc keep the host's memory in their allocator.
    """
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


AHEAD = 2
"""Batches to read, or to copy, ahead of the encoder."""


def fed(pixels: PixelMap, start: int, size: int, device: Any) -> Iterator[Any]:
    """Yield tensors of up to `size` images on the device, from image `start` on."""
    batches = _read_ahead(pixels, start, size, pinned=device.type == "cuda")
    return _copied_ahead(batches, device) if device.type == "cuda" else batches


def _read_ahead(pixels: PixelMap, start: int, size: int, *, pinned: bool) -> Iterator[Any]:
    """Yield batches in host memory; pinned memory lets a copy run beside other work."""
    import torch

    def page_locked() -> Any:
        dtype = getattr(torch, pixels.index.dtype)
        return torch.empty((size, *pixels.index.shape[1:]), dtype=dtype, pin_memory=True)

    def read(begin: int) -> Any:
        if not pinned:
            return torch.from_numpy(pixels.read(begin, begin + size))
        buffer = page_locked()
        return buffer[: len(pixels.read(begin, begin + size, buffer.numpy()))]

    if pinned:
        # Locking pages takes long, so all buffers are locked now: three that wait, one for reading
        # and one for copying. PyTorch keeps them for all batches.
        batches = -(-len(pixels) // size)
        held = [page_locked() for _ in range(min(AHEAD + 3, batches))]
        held.clear()

    with ThreadPoolExecutor(1, "reading") as reader:
        waiting: deque[Future[Any]] = deque()
        for begin in range(start, len(pixels), size):
            waiting.append(reader.submit(read, begin))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _copied_ahead(batches: Iterator[Any], device: Any) -> Iterator[Any]:
    """Yield batches on a GPU, copied on a separate stream beside the encoder's work."""
    import torch

    copying = torch.cuda.Stream(device)
    waiting: deque[tuple[Any, Any]] = deque()

    def handed_over() -> Any:
        batch, copied = waiting.popleft()
        working = torch.cuda.current_stream(device)
        working.wait_event(copied)
        # Else its memory could be used again by the copying stream, which made it.
        batch.record_stream(working)
        return batch

    for batch in batches:
        with torch.cuda.stream(copying):
            waiting.append((batch.to(device, non_blocking=True), copying.record_event()))
        if len(waiting) > AHEAD:
            yield handed_over()
    while waiting:
        yield handed_over()
