"""Torchvision: a DataLoader whose workers decode and transform images with torchvision's operators.

The adapter `pytorch` gives loader, sampler and workers. `torchvision.io` decodes images, and
the functions behind `torchvision.transforms.v2` transform them with the drawn boxes and flips; its
classes would draw their own from PyTorch's generator. As the guide advises, images are uint8
tensors until they are normalised, and resizing uses antialiasing. Elements leave in the layout of
the scenario, ``[S, S, 3]``, as a view that collating copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.image_formats import PLAIN_KINDS
from skymark.suites.loading.adapter import adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    BY_SAMPLER,
    NO_TORCHDATA,
    ByIndex,
    MapStyleElements,
    PyTorch,
)
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.work import Parameters

Tensors = dict[str, Any]
OnElement = Callable[[Any, "Element", "Parameters"], Tensors]
"""Function of scenario, raw element and its random parameters that returns its fields."""
OnBatch = Callable[[Any, Tensors, "Parameters"], Tensors]
"""Function of scenario, batch and its elements' random parameters that returns the batch."""


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    on_element: OnElement
    on_batch: OnBatch | None = None


OPERATORS = OperatorTable(Operators)

COLOUR_IMAGE = 3
"""Dimensions of one image; several come as four."""


def decoded(element: Element) -> Any:
    """Decode an image, the first of several, to RGB, uint8 ``[3, H, W]``."""
    import numpy as np
    import torch
    from torchvision.io import ImageReadMode, decode_image

    encoded = torch.from_numpy(np.array(element["jpeg"]))  # a copy, for torch wants to write
    pixels = decode_image(encoded, ImageReadMode.RGB)
    first = pixels if pixels.ndim == COLOUR_IMAGE else pixels[0]
    return first if first.dtype == torch.uint8 else (first.int() >> 8).byte()


def normalised(pixels: Any) -> Any:
    """Return ``(pixels / 255 - mean) / deviation`` of ImageNet, ``[…, 3, H, W]``."""
    import torch
    from torchvision.transforms.v2 import functional

    from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

    scaled = functional.to_dtype(pixels, torch.float32, scale=True)
    return functional.normalize(scaled, [*IMAGENET_MEAN], [*IMAGENET_DEVIATION], inplace=True)


def channels_last(pixels: Any) -> Any:
    """Return ``[…, 3, H, W]`` as ``[…, H, W, 3]``, without a copy."""
    return pixels.movedim(-3, -1)


def view(pixels: Any, crop: Parameters, side: int) -> Any:
    """Cut the drawn box out, resize it, mirror it where drawn and normalise, ``[S, S, 3]``."""
    from torchvision.transforms.v2 import functional

    from skymark.suites.loading.transforms.crops import pixel_box

    box = pixel_box(crop, *pixels.shape[-2:])
    cut = functional.resized_crop(pixels, *box, size=[side, side], antialias=True)
    mirrored = functional.horizontal_flip(cut) if crop["flip"] else cut
    return channels_last(normalised(mirrored))


@OPERATORS.work("CV-1", "CV-6")
def image(scenario: Any, element: Element, parameters: Parameters) -> Tensors:
    """Crop, flip and normalise an image."""
    cropped = view(decoded(element), parameters, scenario.size["side"])
    return {"index": element["index"], "label": element["label"], "image": cropped}


@OPERATORS.work("PC-2")
def two_views(scenario: Any, element: Element, parameters: Parameters) -> Tensors:
    """Make two views of an image."""
    from skymark.suites.loading.scenarios.pc_pipelines import VIEWS, own_parameters

    pixels, side = decoded(element), scenario.size["side"]
    drawn = {f"view_{name}": own_parameters(parameters, name) for name in VIEWS}
    views = {name: view(pixels, crop, side) for name, crop in drawn.items()}
    return {"index": element["index"], "label": element["label"], **views}


def whole(scenario: Any, element: Element, parameters: Parameters) -> Tensors:
    """Resize the whole image to the largest side, uint8 ``[3, S, S]``."""
    from torchvision.transforms.v2 import functional

    del parameters
    side = scenario.size["side"]
    resized = functional.resize(decoded(element), [side, side], antialias=True)
    return {"index": element["index"], "label": element["label"], "image": resized}


def one_size(scenario: Any, batch: Tensors, parameters: Parameters) -> Tensors:
    """Resize a batch to the side drawn for its first element, and normalise."""
    from torchvision.transforms.v2 import functional

    del scenario
    side = int(parameters["side"][0])
    resized = functional.resize(batch["image"], [side, side], antialias=True)
    return {**batch, "image": channels_last(normalised(resized)).contiguous()}


def mixed(scenario: Any, batch: Tensors, parameters: Parameters) -> Tensors:
    """Normalise a batch, and mix images and labels with the next of the batch."""
    import torch
    from torch.nn.functional import one_hot

    images = normalised(batch["image"])
    partners = images.roll(-1, 0)
    share = torch.from_numpy(parameters["share"])
    blended = torch.lerp(partners, images, share[:, None, None, None])
    for place in parameters["cut"].nonzero()[0].tolist():
        top, left, height, width = parameters["box"][place].tolist()
        pasted = (place, slice(None), slice(top, top + height), slice(left, left + width))
        blended[place] = images[place]
        blended[pasted] = partners[pasted]
    certain = one_hot(batch["label"], scenario.size["classes"]).float()
    soft = torch.lerp(certain.roll(-1, 0), certain, share[:, None])
    return {**batch, "image": channels_last(blended).contiguous(), "label": soft}


OPERATORS.work("CV-3", on_batch=mixed)(whole)
OPERATORS.work("CV-4", on_batch=one_size)(whole)


class OperatedElements(MapStyleElements):
    """Map-style dataset of elements that a library's operators transform."""

    operators: ClassVar[OperatorTable[Operators]]

    def __getitems__(self, indices: list[int]) -> list[Tensors]:
        """Read and transform elements one after another."""
        scenario, epoch = self.job.scenario, self.work.epoch
        work = self.operators[scenario.id].on_element
        return [
            work(scenario, element, scenario.parameters(epoch, index))
            for index, element in zip(indices, self.read(indices), strict=True)
        ]

    def collated(self, elements: list[Any]) -> Tensors:
        """Stack the elements' fields, as DataLoader does by itself, and do the batch-level work."""
        from torch.utils.data import default_collate

        batch: Tensors = default_collate(elements)
        scenario = self.job.scenario
        if (on_batch := self.operators[scenario.id].on_batch) is None:
            return batch
        rows, table = batch["index"].numpy(), scenario.table(self.work.epoch)
        return on_batch(scenario, batch, {name: column[rows] for name, column in table.items()})


class Images(OperatedElements):
    """Elements that torchvision transforms."""

    operators: ClassVar = OPERATORS


@adapter
class Torchvision(ByIndex):
    """`torch.utils.data.DataLoader` over `torchvision.io` and `torchvision.transforms.v2`."""

    slug: ClassVar = "torchvision"
    name: ClassVar = "PyTorch with torchvision"
    distribution: ClassVar = "torchvision"
    imports: ClassVar = "torchvision.transforms.v2"
    requirements: ClassVar = ("torch", "torchvision", "pyarrow")
    homepage: ClassVar = "https://docs.pytorch.org/vision"
    guide: ClassVar = "https://docs.pytorch.org/vision/stable/transforms.html"
    elements: ClassVar = Images
    abilities: ClassVar = all_but({**BY_SAMPLER, **NO_TORCHDATA})
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
