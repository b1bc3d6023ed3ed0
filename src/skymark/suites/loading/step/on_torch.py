"""PyTorch's training steps, on a CUDA device or the CPU, and the networks that they train.

They are written here and not taken from torchvision, which is in few venvs: a step is the same
network whatever the adapter. The numbers of weights are torchvision's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.on_torch import Torch
from skymark.suites.loading.step.calibration import (
    FLOPS_PER_IMAGE,
    Calibrated,
    calibrated_by,
    peak_flops_per_s,
)
from skymark.suites.loading.step.step import CLASSES, IMAGE_SIDE, SEED, Step, StepKind

SQUARE_LAYERS = 4


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A block of ResNet-50: 1 × 1, 3 × 3 and 1 × 1 convolutions beside a shortcut.

    The stride is at the 3 × 3, as torchvision has it (ResNet "v1.5").
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.way = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
        )

    def forward(self, x: Any) -> Any:
        """Return ``[B, 4 width, h, w]``."""
        return functional.relu(self.way(x) + self.shortcut(x))


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """Return a convolution without bias and its batch normalisation."""
    made = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return made, nn.BatchNorm2d(outputs)


def resnet50() -> nn.Module:
    """Return ResNet-50 (He et al., "Deep residual learning for image recognition", 2016)."""
    blocks: list[nn.Module] = []
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for number in range(count):
            blocks.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
            inputs = 4 * width
    return nn.Sequential(
        *convolution(3, 64, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inputs, CLASSES),
    )


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """ViT-B/16 (Dosovitskiy et al., "An image is worth 16x16 words", 2021)."""

    def __init__(self) -> None:
        super().__init__()
        width, patch, layers = 768, 16, 12
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 1 + (IMAGE_SIDE // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(
            width, 12, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        last = nn.LayerNorm(width)
        self.layers = nn.TransformerEncoder(layer, layers, last, enable_nested_tensor=False)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, images: Any) -> Any:
        """Return the classes' scores ``[B, CLASSES]`` of images ``[B, 3, side, side]``."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        first = self.first.expand(len(patches), -1, -1)
        return self.classes(self.layers(torch.cat([first, patches], 1) + self.places)[:, 0])


class SquareNetwork(nn.Module):  # type: ignore[misc]
    """`SQUARE_LAYERS` square matrices, each followed by a ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        scale = (2 / width) ** 0.5
        self.matrices = nn.ParameterList(
            torch.randn(width, width) * scale for _ in range(SQUARE_LAYERS)
        )

    def forward(self, x: Any) -> Any:
        """Return ``[width, width]``."""
        for matrix in self.matrices:
            x = functional.relu(x @ matrix)
        return x


WARM_UP = 3
"""Steps before one is recorded as a CUDA graph, in which cuDNN tries its algorithms."""


def torch_step(
    kind: StepKind, platform: Platform, number: int, images: Sequence[str], *, as_graph: bool
) -> Step:
    """Return a step on a device.

    Args:
        kind: kind of the step.
        platform: platform of the device.
        number: number of the device.
        images: the fields for a network of images.
        as_graph: whether to launch a step of such a network as one CUDA graph.
    """
    if kind.ms is None:
        return ImageStep(kind.network, platform, number, images, as_graph=as_graph)
    return SquareStep(platform, number, calibrated_on(kind.ms, platform, number))


class TorchStep(Step):
    """A network, its optimiser, which is fused on a GPU, and its device. Weights are float32."""

    framework: Torch

    def __init__(self, platform: Platform, number: int, make: Callable[[], nn.Module]) -> None:
        self.framework = Torch(platform, number)
        self.device = self.framework.device
        # The library under test may draw from the global generator.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            network = make()
        self.network = network.to(self.device).train()
        self.optimiser = torch.optim.SGD(
            self.network.parameters(), lr=1e-4, momentum=0.9, fused=self.framework.cuda
        )

    def timed(self, work: Callable[[], None]) -> int:
        """Return the nanoseconds of work on the device: by its own events, or by the clock.

        On a GPU, `launch_ns` is the time until the work was handed to it.
        """
        if not self.framework.cuda:
            started = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - started
        with torch.cuda.device(self.device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launching_ns = time.perf_counter_ns()
            work()
            self.launch_ns = time.perf_counter_ns() - launching_ns
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


@dataclass(frozen=True)
class Recorded:
    """A step that was recorded with inputs of one shape, to be repeated with others."""

    inputs: torch.Tensor
    """Memory from which each repetition reads."""
    repeat: Callable[[], None]


class ImageStep(TorchStep):
    """A step of a network that classifies images.

    On a GPU it computes in bfloat16, with channels last in memory, and is launched as one CUDA
    graph. Without a graph, a processor launches the kernels of a small batch's step more slowly
    than the GPU computes them.
    """

    def __init__(
        self,
        network: str,
        platform: Platform,
        number: int,
        images: Sequence[str],
        *,
        as_graph: bool = True,
    ) -> None:
        make = {"resnet50": resnet50, "vit_b16": VisionTransformer}
        super().__init__(platform, number, make[network])
        self.images = tuple(images)
        self.as_graph = as_graph and self.framework.cuda
        self._recorded: dict[int, Recorded] = {}
        self._pool: Any = None
        self.flops_per_image = FLOPS_PER_IMAGE[network]
        if self.framework.cuda:
            self.network = self.network.to(memory_format=torch.channels_last)
            self.peak_flops_per_s = peak_flops_per_s(torch.cuda.get_device_name(self.device))

    def inputs(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Return ``[n, 3, side, side]``, all views of all elements in one, channels last in memory.

        They are float32 on the CPU and bfloat16 on a GPU.
        """
        fields = self.fields({name: batch[name] for name in self.images})
        images = torch.cat(list(fields.values())).permute(0, 3, 1, 2).float()
        if images.shape[-2:] != (IMAGE_SIDE, IMAGE_SIDE):
            images = functional.interpolate(images, (IMAGE_SIDE, IMAGE_SIDE), mode="bilinear")
        if self.framework.cuda:
            images = images.to(torch.bfloat16)
        self.synchronise()
        return images

    def prepare(self, inputs: torch.Tensor) -> None:
        """Record a step with this number of images, if as a graph, and make it twice."""
        if self.as_graph:
            self._recorded[len(inputs)] = self.record(inputs)
        super().prepare(inputs)

    def train(self, inputs: torch.Tensor) -> int:
        """Make a step; all images have the first class, because no figure depends on learning."""
        if (recorded := self._recorded.get(len(inputs))) is None:
            return self.timed(partial(self._train, inputs))
        recorded.inputs.copy_(inputs)
        return self.timed(recorded.repeat)

    def record(self, images: torch.Tensor) -> Recorded:
        """Record a step as a CUDA graph, as PyTorch's notes on CUDA have it.

        Other threads may use the device meanwhile: they copy batches, and page-lock their memory.
        """
        static = images.clone()
        fastest = torch.backends.cudnn.flags(enabled=True, benchmark=True)
        with torch.cuda.device(self.device), fastest:
            beside = torch.cuda.Stream(self.device)
            beside.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(beside):
                for _ in range(WARM_UP):
                    self._train(static)
            torch.cuda.current_stream(self.device).wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            self.optimiser.zero_grad()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._train(static)
        self._pool = graph.pool()
        return Recorded(static, graph.replay)

    def _train(self, images: torch.Tensor) -> None:
        labels = torch.zeros(len(images), dtype=torch.int64, device=self.device)
        # A cache of cast weights would not be made anew when a graph is repeated.
        half = {"enabled": self.framework.cuda, "cache_enabled": not self.as_graph}
        with torch.autocast(self.device.type, torch.bfloat16, **half):
            loss = functional.cross_entropy(self.network(images), labels)
        self.update(loss)


class SquareStep(TorchStep):
    """A step with a number of updates of a square network."""

    def __init__(self, platform: Platform, number: int, size: Calibrated) -> None:
        super().__init__(platform, number, lambda: SquareNetwork(size.width))
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
    """Return the size of a step with a given time on a device; found once per process."""
    return calibrated_by(ms, partial(SquareStep, platform, number))
