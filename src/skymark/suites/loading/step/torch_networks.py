"""ResNet-50, ViT-B/16 and a square matrix network in PyTorch, without weights to download.

They are written here and not taken from torchvision, which is in few venvs: a step is the same
network whatever the adapter. The numbers of weights are torchvision's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from skymark.suites.loading.step.step import CLASSES, IMAGE_SIDE

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
