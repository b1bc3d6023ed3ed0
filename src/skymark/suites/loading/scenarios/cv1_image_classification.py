"""CV-1: the training pipeline of image classifiers, from JPEG to normalised float32."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class ImageClassification(Scenario):
    """Decode, random resized crop, horizontal flip, normalise: ``image`` float32 ``[S, S, 3]``.

    The table of `draw` holds what decides a crop whatever the image's size; `boxes` turns it into
    pixels for libraries that crop with operators of their own.
    """

    id: ClassVar = "CV-1"
    title: ClassVar = "JPEG: decode, random resized crop, flip, normalise"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(
            elements=810,
            batch_size=16,
            values={"height": 160, "width": 200, "side": 96, "classes": 10},
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
    """In deviations of a channel, 57 levels. Measured on 100 medium images, at most and by the mean
    of the worst image: TensorFlow's resizer differs by 0.018 and 0.006, its fast decoder by 0.11
    and 0.019, FFmpeg's decoder and scaler by 0.16 and 0.016 (80 small images), torchvision's by
    0.035 and 0.0042. Wrong work is far off: no antialiasing 0.54 and 0.067; a box two pixels off
    0.13 on average in the best image."""

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

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area``, ``aspect`` ``[n, 10]``, ``corner`` ``[n, 2]``, ``flip`` bool ``[n]``."""
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.random_crop import DRAWS, crops_from

        numbers = uniforms(self.seed, epoch, indices, DRAWS + 1)
        return {**crops_from(numbers[:, :DRAWS]), "flip": numbers[:, DRAWS] < 0.5}

    def boxes(self, epoch: int, dataset: Dataset) -> Array:
        """Return every element's crop in this epoch: top, left, height, width, int32 ``[n, 4]``."""
        from skymark.suites.loading.transforms.random_crop import pixel_boxes

        return pixel_boxes(self.table(epoch), dataset.column("height"), dataset.column("width"))

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; cut the drawn box and resize it; mirror where drawn; normalise."""
        from skymark.suites.loading.transforms import images

        side = self.size["side"]

        def crop_with(method: images.Crop) -> images.Work:
            def crop(element: Element, parameters: Parameters) -> Element:
                return {**element, "image": method(element["image"], parameters, side)}

            return crop

        def flip(element: Element, parameters: Parameters) -> Element:
            if not parameters["flip"]:
                return element
            return {**element, "image": images.flipped(element["image"])}

        def flip_all(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "image": images.flipped(element["image"])}

        def flip_others(element: Element, parameters: Parameters) -> Element:
            return flip(element, {"flip": not parameters["flip"]})

        mistakes = {what: crop_with(method) for what, method in images.WRONG_CROPS.items()}
        return (
            Stage("decode", images.decode, {images.DECODED_SMALL: images.scaled_decoder(side)}),
            Stage("crop", crop_with(images.random_resized_crop), mistakes),
            Stage(
                "flip",
                flip,
                {"every image is mirrored": flip_all, "the other images are mirrored": flip_others},
            ),
            Stage("normalise", images.normalise, {images.ONLY_SCALED: images.scale}),
        )
