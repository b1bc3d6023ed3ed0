"""CV-1, CV-3 and CV-4: images to classify, mixed in batches, at several resolutions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import NEEDS, Scenario, scenario
from skymark.suites.loading.work import Batch, Size, Stage, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset
    from skymark.suites.loading.dataset.sources.data_source import DataSource


class Photographs(Scenario):
    """The base of scenarios that read JPEG images of a class; its variants name `classes`."""

    columns: ClassVar = ("jpeg", "height", "width", "label")
    """Height and width are for operators that need them beforehand."""
    images: ClassVar[tuple[str, ...]] = ("image",)
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 0.5
    native_mean_tolerance: ClassVar = 0.04
    """In deviations of a channel, 57 levels. Measured on 100 medium images of CV-1, at most and by
    the mean of the worst image: TensorFlow's resizer differs by 0.018 and 0.006, its fast decoder
    by 0.11 and 0.019, FFmpeg's decoder and scaler by 0.16 and 0.016 (80 small images),
    torchvision's by 0.035 and 0.0042. Wrong work is far off: no antialiasing 0.54 and 0.067; a box
    two pixels off 0.13 on average in the best image."""
    version: ClassVar = 2
    large_every: ClassVar = 8

    @property
    def large_times(self) -> float:
        """How many times as long the sides of a large image are."""
        return 2.0

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``jpeg``, its ``height`` and ``width`` int32, ``label`` int64.

        The images decode at the cost of photographs: their amplitude falls as 1/f, as in natural
        scenes (Field, 1987; Tolhurst et al., 1992). JPEG quality is 90. Sides vary by a quarter
        about the size's; of `large_every` images one has sides `large_times` as long.
        """
        from skymark.suites.loading.dataset.images import Large, write_images

        size = self.size
        large = Large(self.large_every, self.large_times)
        return write_images(
            directory, size.elements, size["height"], size["width"], size["classes"], large
        )


PHOTOGRAPHS = partial(
    three_sizes,
    elements=(810, 5_000, 50_000),
    batch_size=(16, 64, 256),
    height=(160, 375, 375),
    width=(200, 500, 500),
    side=(96, 224, 224),
    classes=(10, 100, 1000),
)
"""The variants of CV-1, and of CV-6 with a dimension more."""


@scenario
class ImageClassification(Photographs):
    """Decode, random resized crop, horizontal flip, normalise: ``image`` float32 ``[S, S, 3]``.

    The crop is Inception's (Szegedy et al., 2015), as in torchvision's `RandomResizedCrop`: ten
    tries of area (8 to 100 %) and aspect ratio (3/4 to 4/3), then a corner. Resizing is bilinear
    with antialiasing; mean and deviation are ImageNet's. `boxes` has the crops in pixels, for
    libraries with operators of their own. Verdicts name wrong boxes and flips, large images that
    were decoded at part of their size, and pixels that were only scaled.
    """

    id: ClassVar = "CV-1"
    codec: ClassVar = "JPEG"
    title: ClassVar = "JPEG: decode, random resized crop, flip, normalise"
    tier: ClassVar = 1
    variants: ClassVar = PHOTOGRAPHS()

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area``, ``aspect`` ``[n, 10]``, ``corner`` ``[n, 2]``, ``flip`` bool ``[n]``."""
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.crops import DRAWS, crops_from

        numbers = uniforms(self.seed, epoch, indices, DRAWS + 1)
        return {**crops_from(numbers[:, :DRAWS]), "flip": numbers[:, DRAWS] < 0.5}

    def boxes(self, epoch: int, dataset: Dataset) -> Array:
        """Return every element's crop in this epoch: top, left, height, width, int32 ``[n, 4]``."""
        from skymark.suites.loading.transforms.crops import pixel_boxes

        return pixel_boxes(self.table(epoch), dataset.column("height"), dataset.column("width"))

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; cut the drawn box and resize it; mirror where drawn; normalise."""
        from skymark.suites.loading.transforms import images

        side = self.size["side"]
        return (
            Stage("decode", images.decode, {images.DECODED_SMALL: images.scaled_decoder(side)}),
            images.crop_stage("image", lambda image, crop, drawn: crop(image, drawn, side)),
            images.flip_stage("image", images.flipped, "image"),
            images.normalise_stage("image"),
        )


@scenario
class HeavyTail(ImageClassification):
    """The work of CV-1, on images of which one in a hundred costs about fifty times the median.

    A loader that delivers in a fixed order waits for the slow image, unless enough others are
    ready. `p99 wait` shows it; the rate alone does not.
    """

    id: ClassVar = "CV-6"
    title: ClassVar = "JPEG as in CV-1; one image in a hundred costs fifty times the median"
    tier: ClassVar = 2
    version: ClassVar = 1
    large_every: ClassVar = 100
    variants: ClassVar = PHOTOGRAPHS(large_times=(12, 9, 9))

    @property
    def large_times(self) -> float:
        """Measured with Pillow: 51 and 49 times the median's CPU time (small, medium)."""
        return float(self.size["large_times"])


@scenario
class BatchMixing(Photographs):
    """Decode, resize, normalise; then mix each image with the next in its batch.

    ``image`` float32 ``[S, S, 3]``, ``label`` float32 ``[classes]``. MixUp (Zhang et al., 2018) or
    CutMix (Yun et al., 2019) mixes the images, and the labels in the same shares. The last image is
    mixed with the first. The oracle mixes each delivered batch again and compares.
    """

    id: ClassVar = "CV-3"
    codec: ClassVar = "JPEG"
    title: ClassVar = "batch mixing: MixUp, CutMix"
    needs: ClassVar = NEEDS | {"batch-map"}
    variants: ClassVar = three_sizes(
        elements=(810, 5_000, 50_000),
        batch_size=(16, 64, 256),
        height=(120, 375, 375),
        width=(160, 500, 500),
        side=(64, 224, 224),
        classes=(10, 100, 1000),
    )

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return the number of rows, with as many classes as real data has, if they are more."""
        from skymark.suites.loading.dataset.columns import classes_of, rows_size

        sized = rows_size(source, size)
        if source.is_remote:
            return sized
        classes = max(classes_of(source, sized.elements), size["classes"])
        return sized.model_copy(update={"values": {**size.values, "classes": classes}})

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``cut`` bool ``[n]``, ``share`` float32 ``[n]`` and ``box`` int32 ``[n, 4]``."""
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.images import DRAWS, mixing_from

        return mixing_from(uniforms(self.seed, epoch, indices, DRAWS), self.size["side"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB, resize the whole image, normalise."""
        from skymark.suites.loading.transforms import images

        side = self.size["side"]
        return (
            Stage("decode", images.decode),
            Stage("resize", on("image", lambda image: images.resized(image, side))),
            images.normalise_stage("image"),
        )

    def mix(self, batch: Batch, epoch: int) -> Batch:
        """Mix images and labels with the next of the batch."""
        import numpy as np

        from skymark.suites.loading.transforms.images import mixed_images, mixed_labels

        indices = np.asarray(batch["index"])
        mixing = {name: column[indices] for name, column in self.table(epoch).items()}
        labels, classes = np.asarray(batch["label"]), self.size["classes"]
        return {
            **batch,
            "image": mixed_images(np.asarray(batch["image"]), mixing),
            "label": mixed_labels(labels, mixing["share"], classes),
        }


STEP = 32
"""Divisor of the sides: networks reduce images by this factor."""


@scenario
class MultiResolution(Photographs):
    """Decode and resize; then resize each batch to a side of its own, and normalise.

    ``image`` float32 ``[S, S, 3]``, with S a multiple of 32 from ``smallest`` to ``side``. The
    drawn side of the batch's first element decides. Training at several scales does so (Redmon and
    Farhadi, "YOLO9000: better, faster, stronger", CVPR 2017; Mehta and Rastegari, "MobileViT", ICLR
    2022).
    """

    id: ClassVar = "CV-4"
    codec: ClassVar = "JPEG"
    title: ClassVar = "multi-resolution: several target sizes per batch stream"
    needs: ClassVar = NEEDS | {"batch-map"}
    variants: ClassVar = three_sizes(
        elements=(810, 5_000, 50_000),
        batch_size=(16, 64, 128),
        height=(120, 375, 375),
        width=(160, 500, 500),
        smallest=(64, 160, 160),
        side=(128, 320, 320),
        classes=(10, 100, 1000),
    )

    @property
    def sides(self) -> tuple[int, ...]:
        """Every side that a batch may have."""
        return tuple(range(self.size["smallest"], self.size["side"] + 1, STEP))

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``side`` int32 ``[n]``; the first element of a batch decides for all."""
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
        resize = on("image", lambda image: np.asarray(images.resized(image, side)))
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
