"""PC-1 and PC-2: transform chains of growing depth, and a pipeline that branches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.transforms.field import Vector


@scenario
class TransformChain(Scenario):
    """Apply ``depth`` cheap operations one after another to ``values`` float32 ``[W]``.

    Each operation is a stage of its own; a library that has pipelines of transforms gets one
    transform per stage.
    """

    id: ClassVar = "PC-1"
    title: ClassVar = "transform chains"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=6_500, batch_size=128, values={"width": 64}),
        "medium": Size(elements=40_000, batch_size=256, values={"width": 256}),
        "large": Size(elements=400_000, batch_size=1024, values={"width": 256}),
    }
    holds_lock: ClassVar = True
    axis_values: ClassVar = {"depth": (1, 5, 10, 50)}
    in_double: ClassVar = True
    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``values`` float32 ``[W]``, the same for every depth."""
        from skymark.suites.loading.dataset.tabular import write_vectors

        return write_vectors(directory, self.size.elements, self.size["width"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the work."""
        return ("values",)

    def stages(self) -> tuple[Stage, ...]:
        """Apply the links of `skymark.suites.loading.transforms.field`, over and over."""
        from skymark.suites.loading.transforms.field import LINKS

        links = islice(cycle(LINKS.items()), int(self.axes["depth"]))
        return tuple(
            Stage(f"{place} {name}", _on_values(link))
            for place, (name, link) in enumerate(links, 1)
        )


def _on_values(link: Callable[[Vector], Vector]) -> Callable[[Element, Parameters], Element]:
    def apply(element: Element, parameters: Parameters) -> Element:
        del parameters
        return {**element, "values": link(element["values"])}

    return apply


VIEWS = ("1", "2")


@scenario
class TwoViews(Scenario):
    """Decode once, then crop and mirror twice with independent draws, as contrastive learning does.

    ``view_1`` and ``view_2`` float32 ``[S, S, 3]`` (Chen, Kornblith, Norouzi and Hinton, "A simple
    framework for contrastive learning of visual representations", ICML 2020, without its colour
    jitter).
    """

    id: ClassVar = "PC-2"
    title: ClassVar = "branching pipeline: two augmented views of one element"
    needs: ClassVar = frozenset({"map", "shuffle"})
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
    images: ClassVar = ("view_1", "view_2")
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

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area_1``, ``aspect_1``, ``corner_1``, ``flip_1`` as CV-1 does; the same for 2."""
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
        ) -> images.Work:
            def crop_and_flip(element: Element, parameters: Parameters) -> Element:
                own = own_parameters(parameters, drawn)
                cut = crop(element["image"], own, side)
                flips = mirrored and own["flip"]
                return {**element, f"view_{view}": images.flipped(cut) if flips else cut}

            return crop_and_flip

        def mistakes(view: str, other: str) -> dict[str, images.Work]:
            crops = {what: view_with(view, view, crop) for what, crop in images.WRONG_CROPS.items()}
            return {
                f"it has the crop and flip of view {other}": view_with(view, other),
                "no image is mirrored": view_with(view, view, mirrored=False),
                **crops,
            }

        def normalise(element: Element, parameters: Parameters) -> Element:
            del parameters
            kept = {name: value for name, value in element.items() if name != "image"}
            views = {f"view_{view}": images.normalised(kept[f"view_{view}"]) for view in VIEWS}
            return {**kept, **views}

        def scale(element: Element, parameters: Parameters) -> Element:
            del parameters
            kept = {name: value for name, value in element.items() if name != "image"}
            return {**kept, **{f"view_{v}": images.scaled(kept[f"view_{v}"]) for v in VIEWS}}

        return (
            Stage("decode", images.decode),
            *(
                Stage(
                    f"view {view}",
                    view_with(view, view),
                    mistakes(view, other),
                )
                for view, other in zip(VIEWS, reversed(VIEWS), strict=True)
            ),
            Stage("normalise", normalise, {images.ONLY_SCALED: scale}),
        )


def own_parameters(table: Parameters, view: str) -> dict[str, Array]:
    """Return one view's part of the table, with CV-1's names."""
    suffix = f"_{view}"
    return {name.removesuffix(suffix): table[name] for name in table if name.endswith(suffix)}
