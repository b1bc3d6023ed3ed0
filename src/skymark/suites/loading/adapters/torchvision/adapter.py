"""Torchvision: a DataLoader whose workers decode and transform images with torchvision's operators.

The loader, its sampler and its workers are those of the adapter `pytorch`. Images are decoded by
`torchvision.io` and transformed by the functions behind `torchvision.transforms.v2`, with the boxes
and flips that were drawn, for its classes draw their own from PyTorch's generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from skymark.image_formats import PLAIN_KINDS
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.pytorch import Elements, Key, PyTorch, PyTorchLoader
from skymark.suites.loading.adapters.torchvision.operators import (
    OPERATORS,
    OnBatch,
    Operators,
    Tensors,
)
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.operators import OperatorTable


class OperatedElements(Elements):
    """Map-style dataset of elements that a library's operators transformed, each with its epoch."""

    operators: ClassVar[OperatorTable[Operators]]

    def fetch(self, keys: list[Key]) -> Iterator[tuple[int, Tensors]]:
        """Read and transform elements one after another."""
        scenario = self.job.scenario
        work = self.operators[scenario.id].on_element
        raw = self.read([index for _, index in keys])
        for (epoch, index), element in zip(keys, raw, strict=True):
            yield epoch, work(scenario, element, scenario.parameters(epoch, index))


def collate(
    job: LoadingJob, on_batch: OnBatch | None, elements: list[tuple[int, Tensors]]
) -> Tensors:
    """Stack the elements' fields, as DataLoader does by itself, and do the batch-level work."""
    from torch.utils.data import default_collate

    epoch, scenario = elements[0][0], job.scenario
    batch: Tensors = default_collate([element for _, element in elements])
    if on_batch is None:
        return batch
    rows = batch["index"].numpy()
    drawn = {name: column[rows] for name, column in scenario.table(epoch).items()}
    return on_batch(scenario, batch, drawn)


class OperatedLoader(PyTorchLoader):
    """One DataLoader of such elements, whose workers live on from epoch to epoch."""

    elements: ClassVar[type[OperatedElements]]

    def collate_fn(self, job: LoadingJob) -> Callable[[list[Any]], Tensors]:
        """Return what makes a batch of elements with their epochs, to be sent to workers."""
        return partial(collate, job, self.elements.operators[job.scenario.id].on_batch)


class Images(OperatedElements):
    """Elements that torchvision has transformed."""

    operators: ClassVar = OPERATORS


class ImageLoader(OperatedLoader):
    """One DataLoader of images."""

    elements: ClassVar = Images


@adapter
class Torchvision(Adapter):
    """`torch.utils.data.DataLoader` over `torchvision.io` and `torchvision.transforms.v2`."""

    slug: ClassVar = "torchvision"
    name: ClassVar = "PyTorch with torchvision"
    distribution: ClassVar = "torchvision"
    imports: ClassVar = "torchvision.transforms.v2"
    homepage: ClassVar = "https://docs.pytorch.org/vision"
    guide: ClassVar = "https://docs.pytorch.org/vision/stable/transforms.html"
    abilities: ClassVar = PyTorch.abilities - {"checkpoint"}
    limits: ClassVar = {
        "seek": "a DataLoader's sampler draws a permutation of all indices, 8 bytes for each",
        **PyTorch.limits,
        "checkpoint": "torchdata, whose DataLoader saves positions, is not in its venv",
    }
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = PyTorch.formats
    native: ClassVar = frozenset(OPERATORS)
    decodes: ClassVar = dict.fromkeys(
        native,
        PLAIN_KINDS
        | {
            *("unmarked CMYK JPEG", "palette GIF", "partial palette GIF", "grey GIF"),
            *("WEBP", "RGBA WEBP", "EXIF-marked WEBP"),
        },
    )
    native_only: ClassVar = (
        "its operators are for images; torchcodec does video and audio, and pytorch the rest"
    )
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return ImageLoader(job)
