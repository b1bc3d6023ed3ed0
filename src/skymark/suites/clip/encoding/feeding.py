"""Batches of pixels, read ahead and copied to the device while it is busy with the batch before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from skymark.suites.clip.pixels.pixel_map import PixelMap

AHEAD = 2
"""Batches that are read, or copied, before they are asked for."""


def fed(pixels: PixelMap, start: int, size: int, device: Any) -> Iterator[Any]:
    """Yield uint8 tensors of up to `size` images each, on the device, from image `start` on."""
    batches = _read_ahead(pixels, start, size, pinned=device.type == "cuda")
    return _copied_ahead(batches, device) if device.type == "cuda" else batches


def _read_ahead(pixels: PixelMap, start: int, size: int, *, pinned: bool) -> Iterator[Any]:
    """Yield batches in host memory; pinned, so that a copy can run beside other work."""
    import torch

    def page_locked() -> Any:
        return torch.empty((size, *pixels.index.shape[1:]), dtype=torch.uint8, pin_memory=True)

    def read(begin: int) -> Any:
        if not pinned:
            return torch.from_numpy(pixels.read(begin, begin + size))
        buffer = page_locked()
        return buffer[: len(pixels.read(begin, begin + size, buffer.numpy()))]

    if pinned:
        # Locking pages takes long, so that as many as are ever in use at once are locked now: three
        # that wait, one that is read, and one that is copied. PyTorch keeps them for all batches.
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
    """Yield batches on a GPU: copied on a stream of their own, beside the encoder's work."""
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
