"""PC-1 and PC-2: transform chains of growing depth, and a pipeline that branches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.scenarios.cv_images import Photographs
from skymark.suites.loading.work import Parameters, Stage, Work, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class TransformChain(Scenario):
    """Apply ``depth`` cheap operations one after another to ``values`` float32 ``[W]``.

    Each operation is a stage, and a transform of its own in a library that has pipelines of
    transforms. Each changes the result, so that a missing one shows. The difference between depths
    is the cost of a step.
    """

    id: ClassVar = "PC-1"
    title: ClassVar = "transform chains"
    tier: ClassVar = 1
    variants: ClassVar = three_sizes(
        elements=(6_500, 40_000, 400_000),
        batch_size=(128, 256, 1024),
        width=(64, 256, 256),
    )
    holds_lock: ClassVar = True
    axis_values: ClassVar = {"depth": (1, 5, 10, 50)}
    in_double: ClassVar = True
    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``values`` float32 ``[W]``, standard normal, for every depth."""
        from skymark.suites.loading.dataset.tabular import write_vectors

        return write_vectors(directory, self.size.elements, self.size["width"])

    def stages(self) -> tuple[Stage, ...]:
        """Scale, fold, rotate, bend, level, over and over."""
        from skymark.suites.loading.transforms.numeric import LINKS

        links = islice(cycle(LINKS.items()), int(self.axes["depth"]))
        return tuple(
            Stage(f"{place} {name}", on("values", link))
            for place, (name, link) in enumerate(links, 1)
        )


VIEWS = ("1", "2")


@scenario
class TwoViews(Photographs):
    """Decode once, then crop and flip twice with independent draws, as contrastive learning does.

    ``view_1`` and ``view_2`` float32 ``[S, S, 3]`` (Chen, Kornblith, Norouzi and Hinton, "A simple
    framework for contrastive learning of visual representations", ICML 2020, without its colour
    jitter). Verdicts also name exchanged views.
    """

    id: ClassVar = "PC-2"
    codec: ClassVar = "JPEG"
    title: ClassVar = "branching pipeline: two augmented views of one element"
    variants: ClassVar = three_sizes(
        elements=(810, 5_000, 50_000),
        batch_size=(16, 64, 256),
        height=(120, 375, 375),
        width=(160, 500, 500),
        side=(64, 224, 224),
        classes=(10, 100, 1000),
    )
    images: ClassVar = ("view_1", "view_2")

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area_1``, ``aspect_1``, ``corner_1``, ``flip_1`` as CV-1 does; likewise for 2."""
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.crops import DRAWS, crops_from

        numbers = uniforms(self.seed, epoch, indices, len(VIEWS) * (DRAWS + 1))
        drawn: dict[str, Array] = {}
        for place, view in enumerate(VIEWS):
            own = numbers[:, place * (DRAWS + 1) :]
            crops = crops_from(own[:, :DRAWS])
            drawn |= {f"{name}_{view}": column for name, column in crops.items()}
            drawn[f"flip_{view}"] = own[:, DRAWS] < 0.5
        return drawn

    def boxes(self, epoch: int, dataset: Dataset) -> tuple[Array, Array]:
        """Return both views' crops: top, left, height, width, int32 ``[n, 4]`` each."""
        from skymark.suites.loading.transforms.crops import pixel_boxes

        height, width = dataset.column("height"), dataset.column("width")
        table = self.table(epoch)
        first, second = (pixel_boxes(own_parameters(table, view), height, width) for view in VIEWS)
        return first, second

    def stages(self) -> tuple[Stage, ...]:
        """Decode to RGB; make both views; drop the image they were made of; normalise."""
        from skymark.suites.loading.transforms import images

        side = self.size["side"]

        def view_with(
            view: str,
            drawn: str,
            crop: images.Crop = images.random_resized_crop,
            *,
            mirrored: bool = True,
        ) -> Work:
            def crop_and_flip(element: Element, parameters: Parameters) -> Element:
                own = own_parameters(parameters, drawn)
                cut = crop(element["image"], own, side)
                flips = mirrored and own["flip"]
                return {**element, f"view_{view}": images.flipped(cut) if flips else cut}

            return crop_and_flip

        def mistakes(view: str, other: str) -> dict[str, Work]:
            crops = {what: view_with(view, view, crop) for what, crop in images.WRONG_CROPS.items()}
            return {
                f"it has the crop and flip of view {other}": view_with(view, other),
                "no image is mirrored": view_with(view, view, mirrored=False),
                **crops,
            }

        def on_views(work: Callable[[Any], Any]) -> Work:
            def apply(element: Element, parameters: Parameters) -> Element:
                del parameters
                kept = {name: value for name, value in element.items() if name != "image"}
                return {**kept, **{f"view_{view}": work(kept[f"view_{view}"]) for view in VIEWS}}

            return apply

        return (
            Stage("decode", images.decode),
            *(
                Stage(f"view {view}", view_with(view, view), mistakes(view, other))
                for view, other in zip(VIEWS, reversed(VIEWS), strict=True)
            ),
            Stage(
                "normalise",
                on_views(images.normalised),
                {images.ONLY_SCALED: on_views(images.scaled)},
            ),
        )


def own_parameters(table: Parameters, view: str) -> dict[str, Array]:
    """Return one view's part of the table, with CV-1's names."""
    suffix = f"_{view}"
    return {name.removesuffix(suffix): table[name] for name in table if name.endswith(suffix)}
