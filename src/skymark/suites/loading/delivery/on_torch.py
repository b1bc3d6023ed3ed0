"""PyTorch's way to an accelerator: page-locked memory, copies that do not block, one wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skymark.model.platform import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName


class Torch(Framework):
    """A CUDA device, or the CPU.

    Copies are asynchronous from page-locked memory only (https://docs.pytorch.org/tutorials/
    intermediate/pinmem_nonblock.html), so what is not page-locked yet is made so. A DataLoader with
    ``pin_memory=True`` has done that in a thread of its own.

    On the CPU it is NumPy that copies: PyTorch divides a copy among threads, which on few cores
    wait for one another longer than the copy takes.
    """

    name: ClassVar[FrameworkName] = "torch"

    def __init__(self, platform: Platform, number: int) -> None:
        import torch

        self.torch = torch
        self.cuda = platform == "gpu"
        place = f"cuda:{number % torch.cuda.device_count()}" if self.cuda else "cpu"
        self.device = torch.device(place)

    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of a tensor or an array of the host."""
        return 0 if getattr(value, "is_cuda", False) else int(value.nbytes)

    def place(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Start all copies, then wait for the device."""
        placed = {name: self._copied(value) for name, value in batch.items()}
        if self.cuda:
            self.torch.cuda.synchronize(self.device)
        return placed

    def _copied(self, value: Any) -> Any:
        if not self.cuda:
            return self.torch.from_numpy(np.array(value))
        if not isinstance(value, self.torch.Tensor):
            value = self.torch.from_numpy(np.require(value, requirements=("C", "W")))
        if value.is_cuda:
            return value
        pinned = value if value.is_pinned() else value.pin_memory()
        return pinned.to(self.device, non_blocking=True)

    def buffer(self, size: int) -> Any:
        """Return page-locked memory where there is a CUDA device."""
        return self.torch.ones(size, dtype=self.torch.uint8, pin_memory=self.cuda)
