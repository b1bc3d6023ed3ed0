"""PyTorch's way to an accelerator: page-locked memory, and copies on a CUDA stream of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName, Placed


class Torch(Framework):
    """A CUDA device, or the CPU.

    Copies are asynchronous from page-locked memory only (https://docs.pytorch.org/tutorials/
    intermediate/pinmem_nonblock.html), so what is not page-locked yet is made so. A DataLoader with
    ``pin_memory=True`` has done that in a thread of its own. The copies have a stream of their own,
    so that they run beside the kernels of a training step; events on it tell their time.

    On the CPU it is NumPy that copies: PyTorch divides a copy among threads, which on few cores
    wait for one another longer than the copy takes.
    """

    name: ClassVar[FrameworkName] = "torch"

    def __init__(
        self,
        platform: Platform,
        number: int,
        copies: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Take a device.

        Args:
            platform: of it.
            number: of it; beyond the last, they are counted from the first again.
            copies: a library's own function that copies page-locked tensors to the CUDA device.
        """
        import torch

        self.torch = torch
        self.device = torch_device(platform, number)
        self._copies = copies
        self.cuda = platform == "gpu"
        self.stream = torch.cuda.Stream(self.device) if self.cuda else None

    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of a tensor or an array of the host."""
        return 0 if self._is_there(value) else int(value.nbytes)

    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Start all copies, then wait for the event after the last one."""
        if not self.cuda:
            begin_ns = time.perf_counter_ns()
            copies = {name: self.torch.from_numpy(np.array(batch[name])) for name in batch}
            return Placed(copies, time.perf_counter_ns() - begin_ns)
        cuda = self.torch.cuda
        sources = {name: self._page_locked(value) for name, value in batch.items()}
        with cuda.stream(self.stream):
            copy = self._copy_of(sources)
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            placed = copy()
            end.record()
        end.synchronize()
        if any(self._is_there(value) for value in batch.values()):
            cuda.synchronize(self.device)  # a library may still compute what lies there
        return Placed(placed, round(begin.elapsed_time(end) * 1e6))

    def receive(self, fields: Mapping[str, Any]) -> None:
        """Keep the memory of tensors, which belongs to the copies' stream, for the caller's stream.

        See `torch.Tensor.record_stream`.
        """
        if self.cuda:
            stream = self.torch.cuda.current_stream(self.device)
            for value in fields.values():
                value.record_stream(stream)

    def buffer(self, size: int) -> Any:
        """Return page-locked memory if there is a CUDA device."""
        return self.torch.ones(size, dtype=self.torch.uint8, pin_memory=self.cuda)

    def has(self, value: Any) -> bool:
        """Whether it is a tensor on a device of the kind."""
        return isinstance(value, self.torch.Tensor) and value.device.type == self.device.type

    def _is_there(self, value: Any) -> bool:
        return bool(getattr(value, "is_cuda", False))

    def _page_locked(self, value: Any) -> Any:
        if not isinstance(value, self.torch.Tensor):
            value = self.torch.from_numpy(np.require(value, requirements=("C", "W")))
        return value if value.is_cuda or value.is_pinned() else value.pin_memory()

    def _copy_of(self, sources: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Return a function that starts the copies; the device's memory is allocated already.

        One call launches all of them, the largest first. Between calls this thread could lose
        Python's lock to the training loop, and the GPU would wait for the next launch.
        """
        if self._copies is not None:
            return partial(self._copies, sources)
        there = self._is_there
        placed = {
            name: one if there(one) else self.torch.empty_like(one, device=self.device)
            for name, one in sources.items()
        }
        moved = [name for name, one in sources.items() if not there(one)]
        moved.sort(key=lambda name: -int(sources[name].nbytes))
        targets, values = [placed[name] for name in moved], [sources[name] for name in moved]

        def copy() -> dict[str, Any]:
            if targets:
                self.torch._foreach_copy_(targets, values, non_blocking=True)
            return placed

        return copy


def torch_device(platform: Platform, number: int) -> Any:
    """Return a CUDA device, with numbers that wrap around, or the CPU."""
    import torch

    if platform != "gpu":
        return torch.device("cpu")
    return torch.device("cuda", number % torch.cuda.device_count())
