"""CV-2: volumes like those of medical imaging, cropped and normalised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class Volumes(Scenario):
    """Cut a cube out at the drawn corner and take its z-score: ``volume`` float32 ``[E, E, E]``."""

    id: ClassVar = "CV-2"
    title: ClassVar = "3-D volumes: random crop, normalise"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(
            elements=210,
            batch_size=4,
            values={"depth": 40, "height": 48, "width": 56, "edge": 32, "classes": 2},
        ),
        "medium": Size(
            elements=301,
            batch_size=4,
            values={"depth": 64, "height": 96, "width": 96, "edge": 64, "classes": 2},
        ),
        "large": Size(
            elements=402,
            batch_size=4,
            values={"depth": 96, "height": 160, "width": 160, "edge": 96, "classes": 2},
        ),
    }

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``volume`` int16 ``[depth, height, width]``, ``label`` int64."""
        from skymark.suites.loading.dataset.volumes import write_volumes

        size = self.size
        shape = (size["depth"], size["height"], size["width"])
        return write_volumes(directory, size.elements, shape, size["classes"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the work."""
        return ("volume", "label")

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``corner`` float64 ``[n, 3]``: shares of the free space before the crop."""
        from skymark.suites.loading.random import uniforms

        return {"corner": uniforms(self.seed, epoch, indices, 3)}

    def corners(self, epoch: int, dataset: Dataset) -> Array:
        """Return the first voxel of every element's crop along each axis, int64 ``[n, 3]``."""
        from skymark.suites.loading.transforms.volumes import corner_of

        shape = dataset.column("volume").shape[1:]
        return corner_of(self.table(epoch)["corner"], shape, self.size["edge"])

    def stages(self) -> tuple[Stage, ...]:
        """Cut the drawn cube out; subtract its mean and divide by its deviation."""
        import numpy as np

        from skymark.suites.loading.transforms.volumes import corner_of, cube, z_score

        edge = self.size["edge"]

        def crop(element: Element, parameters: Parameters) -> Element:
            volume = element["volume"]
            corner = corner_of(parameters["corner"], volume.shape, edge)
            return {**element, "volume": cube(volume, corner, edge, element["index"])}

        def centre_crop(element: Element, parameters: Parameters) -> Element:
            del parameters
            return crop(element, {"corner": np.full(3, 0.5)})

        def mirrored_corner(element: Element, parameters: Parameters) -> Element:
            return crop(element, {"corner": parameters["corner"][::-1]})

        def next_corner(element: Element, parameters: Parameters) -> Element:
            volume = element["volume"]
            corner = corner_of(parameters["corner"], volume.shape, edge)
            free = np.asarray(volume.shape) - edge
            return {
                **element,
                "volume": cube(volume, np.minimum(corner + 1, free), edge, element["index"]),
            }

        def normalise(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "volume": z_score(element["volume"])}

        def subtract_mean(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "volume": element["volume"] - element["volume"].mean()}

        return (
            Stage(
                "crop",
                crop,
                {
                    "the central cube is cut out, not the drawn one": centre_crop,
                    "the corner's axes are in reverse order": mirrored_corner,
                    "the corner is one voxel too far along each axis": next_corner,
                },
            ),
            Stage(
                "normalise",
                normalise,
                {"the mean is subtracted but nothing divided": subtract_mean},
            ),
        )
