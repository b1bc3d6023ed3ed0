"""CV-3: batches of images mixed among themselves, with soft labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Batch, Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.dataset.sources.data_source import DataSource


@scenario
class BatchMixing(Scenario):
    """Decode, resize, normalise; then MixUp or CutMix each image with the next of its batch.

    ``image`` float32 ``[S, S, 3]``, ``label`` float32 ``[classes]``. Which of the two, in what
    shares and which box is a matter of the element's own index; the partner is whatever comes next
    in the batch (the first, for the last).
    """

    id: ClassVar = "CV-3"
    title: ClassVar = "batch mixing: MixUp, CutMix"
    needs: ClassVar = frozenset({"map", "shuffle", "batch-map"})
    variants: ClassVar = {
        "small": Size(
            elements=810,
            batch_size=16,
            values={"height": 120, "width": 160, "side": 64, "classes": 10},
        ),
        "medium": Size(
            elements=5_000,
            batch_size=64,
            values={"height": 375, "width": 500, "side": 224, "classes": 100},
        ),
        "large": Size(
            elements=50_000,
            batch_size=256,
            values={"height": 375, "width": 500, "side": 224, "classes": 1000},
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

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return the number of rows, with as many classes as real data has, if they are more."""
        from skymark.suites.loading.dataset.importing import classes_of, rows_size

        sized = rows_size(source, size)
        if source.is_remote:
            return sized
        classes = max(classes_of(source, sized.elements), size["classes"])
        return sized.model_copy(update={"values": {**size.values, "classes": classes}})

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``cut`` bool ``[n]``, ``share`` float32 ``[n]`` and ``box`` int32 ``[n, 4]``."""
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.mixing import DRAWS, mixing_from

        return mixing_from(uniforms(self.seed, epoch, indices, DRAWS), self.size["side"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB, resize the whole image, normalise."""
        from skymark.suites.loading.transforms import images

        side = self.size["side"]

        def resize(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "image": images.resized(element["image"], side)}

        return (
            Stage("decode", images.decode),
            Stage("resize", resize),
            Stage("normalise", images.normalise, {images.ONLY_SCALED: images.scale}),
        )

    def mix(self, batch: Batch, epoch: int) -> Batch:
        """Mix images and labels with the next of the batch."""
        import numpy as np

        from skymark.suites.loading.transforms.mixing import mixed_images, mixed_labels

        indices = np.asarray(batch["index"])
        mixing = {name: column[indices] for name, column in self.table(epoch).items()}
        labels, classes = np.asarray(batch["label"]), self.size["classes"]
        return {
            **batch,
            "image": mixed_images(np.asarray(batch["image"]), mixing),
            "label": mixed_labels(labels, mixing["share"], classes),
        }
