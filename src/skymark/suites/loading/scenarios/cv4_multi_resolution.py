"""CV-4: one stream of batches at several resolutions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Batch, Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element

STEP = 32
"""Sides are multiples of what networks reduce images by."""


@scenario
class MultiResolution(Scenario):
    """Decode, resize to the largest side; resize each batch to a side of its own, normalise.

    ``image`` float32 ``[S, S, 3]``, S from ``smallest`` to ``side`` in steps of 32. The side
    belongs to the batch, as in multi-scale training (Redmon and Farhadi, "YOLO9000: better, faster,
    stronger", CVPR 2017, which draws a multiple of 32 every few batches; Mehta and Rastegari,
    "MobileViT", ICLR 2022, which draws one for each). It is what was drawn for the batch's first
    element, so that it depends on nothing but (seed, epoch, index).
    """

    id: ClassVar = "CV-4"
    title: ClassVar = "multi-resolution: several target sizes per batch stream"
    needs: ClassVar = frozenset({"map", "shuffle", "batch-map"})
    variants: ClassVar = {
        "small": Size(
            elements=810,
            batch_size=16,
            values={"height": 120, "width": 160, "smallest": 64, "side": 128, "classes": 10},
        ),
        "medium": Size(
            elements=5_000,
            batch_size=64,
            values={"height": 375, "width": 500, "smallest": 160, "side": 320, "classes": 100},
        ),
        "large": Size(
            elements=50_000,
            batch_size=128,
            values={"height": 375, "width": 500, "smallest": 160, "side": 320, "classes": 1000},
        ),
    }
    images: ClassVar = ("image",)
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 0.5
    native_mean_tolerance: ClassVar = 0.04
    """As CV-1: decoders and resizers differ by a few levels."""

    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``jpeg``, its ``height`` and ``width`` int32, ``label`` int64."""
        from skymark.suites.loading.dataset.images import write_images

        size = self.size
        return write_images(
            directory, size.elements, size["height"], size["width"], size["classes"]
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the work; height and width are for operators that need them beforehand."""
        return ("jpeg", "height", "width", "label")

    @property
    def sides(self) -> tuple[int, ...]:
        """Every side that a batch may have."""
        return tuple(range(self.size["smallest"], self.size["side"] + 1, STEP))

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``side`` int32 ``[n]``, used of the first element of each batch."""
        import numpy as np

        from skymark.suites.loading.random import uniforms

        sides = np.asarray(self.sides, np.int32)
        choice = uniforms(self.seed, epoch, indices, 1)[:, 0] * len(sides)
        return {"side": sides[choice.astype(np.int64)]}

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; resize the whole image to the largest side, 8-bit."""
        import numpy as np

        from skymark.suites.loading.transforms import images

        side = self.size["side"]

        def resize(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "image": np.asarray(images.resized(element["image"], side))}

        return (Stage("decode", images.decode), Stage("resize", resize))

    def mix(self, batch: Batch, epoch: int) -> Batch:
        """Resize the batch to the side drawn for its first element, and normalise."""
        import numpy as np
        from PIL import Image

        from skymark.suites.loading.transforms import images

        side = int(self.table(epoch)["side"][int(np.asarray(batch["index"])[0])])
        pixels = (Image.fromarray(image) for image in np.asarray(batch["image"]))
        resized = np.stack([np.asarray(images.resized(image, side)) for image in pixels])
        return {**batch, "image": images.normalised(resized)}
