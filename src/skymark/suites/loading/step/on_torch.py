"""PyTorch's training steps, on a CUDA device or the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from skymark.model.platform import Platform
from skymark.suites.loading.delivery.on_torch import Torch
from skymark.suites.loading.step import torch_networks
from skymark.suites.loading.step.calibration import Calibrated, calibrated_by
from skymark.suites.loading.step.kind import StepKind
from skymark.suites.loading.step.step import IMAGE_SIDE, SEED, Step


def torch_step(kind: StepKind, platform: Platform, number: int, images: Sequence[str]) -> Step:
    """Return a step on a device; `images` are the fields that a network of images is trained on."""
    if kind.ms is None:
        return ImageStep(kind.network, platform, number, images)
    return SquareStep(platform, number, calibrated_on(kind.ms, platform, number))


class TorchStep(Step):
    """A network, its optimiser and its device.

    Weights are float32; on a GPU a network of images computes in bfloat16, as it is trained there.
    """

    def __init__(self, platform: Platform, number: int, make: Callable[[], nn.Module]) -> None:
        self.framework = Torch(platform, number)
        self.device = self.framework.device
        # The library under test may draw from the global generator.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            network = make()
        self.network = network.to(self.device).train()
        self.optimiser = torch.optim.SGD(self.network.parameters(), lr=1e-4, momentum=0.9)

    def fields(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return all fields as tensors of the device."""
        there = {name: value for name, value in batch.items() if self._is_there(value)}
        placed = self.framework.place({n: batch[n] for n in batch if n not in there})
        return {**placed, **there}

    def timed(self, work: Callable[[], None]) -> int:
        """Return the nanoseconds of work on the device: by its own events, or by the clock."""
        if not self.framework.cuda:
            started = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - started
        with torch.cuda.device(self.device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
        ms: float = begin.elapsed_time(end)
        return round(ms * 1e6)

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.framework.cuda:
            torch.cuda.synchronize(self.device)

    def update(self, loss: torch.Tensor) -> None:
        """Compute the gradients and change the weights."""
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def _is_there(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == self.device.type


class ImageStep(TorchStep):
    """A step of a network that classifies images."""

    def __init__(
        self, network: str, platform: Platform, number: int, images: Sequence[str]
    ) -> None:
        make = {"resnet50": torch_networks.resnet50, "vit_b16": torch_networks.VisionTransformer}
        super().__init__(platform, number, make[network])
        self.images = tuple(images)

    def inputs(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Return float32 ``[n, 3, side, side]``, all views of all elements in one."""
        fields = self.fields({name: batch[name] for name in self.images})
        images = torch.cat(list(fields.values())).permute(0, 3, 1, 2).float()
        if images.shape[-2:] != (IMAGE_SIDE, IMAGE_SIDE):
            images = functional.interpolate(images, (IMAGE_SIDE, IMAGE_SIDE), mode="bilinear")
        self.synchronise()
        return images

    def train(self, inputs: torch.Tensor) -> int:
        """Make a step; all images are of the first class, for no figure is of what is learned."""
        return self.timed(lambda: self._train(inputs))

    def _train(self, images: torch.Tensor) -> None:
        labels = torch.zeros(len(images), dtype=torch.int64, device=self.device)
        half = self.framework.cuda
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            loss = functional.cross_entropy(self.network(images), labels)
        self.update(loss)


class SquareStep(TorchStep):
    """A step of so many updates of a square network."""

    def __init__(self, platform: Platform, number: int, size: Calibrated) -> None:
        super().__init__(platform, number, lambda: torch_networks.SquareNetwork(size.width))
        self.updates = size.updates
        self.start = torch.eye(size.width, device=self.device)

    def inputs(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Return ``[width, width]`` in which every value of the batch has a part."""
        means = [value.float().mean() for value in self.fields(batch).values()]
        inputs = self.start + torch.stack(means).mean().nan_to_num().clamp(-1, 1)
        self.synchronise()
        return inputs

    def train(self, inputs: torch.Tensor) -> int:
        """Make the updates."""
        return self.timed(lambda: self._train(inputs))

    def _train(self, inputs: torch.Tensor) -> None:
        for _ in range(self.updates):
            self.update(self.network(inputs).square().mean())


@lru_cache
def calibrated_on(ms: float, platform: Platform, number: int) -> Calibrated:
    """Return the size of a step that takes so long on a device; found once per process."""
    return calibrated_by(ms, partial(SquareStep, platform, number))
